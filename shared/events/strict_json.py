"""JSON as it may enter and leave Pushgrid: nothing in it that somebody else can't read."""

from __future__ import annotations

import json
import re
from math import isinf
from typing import Any, NoReturn

from shared.errors import InvalidEvents

MAX_DEPTH = 64
MAX_INTEGER = 1000  # characters; reading an integer takes time quadratic in them


def parse(body: bytes) -> Any:
    """
    Parse UTF-8, with or without a byte order mark.

    Integers are kept exactly. Of members with the same name the last wins. The document itself is
    the first level of nesting.

    Raises:
        InvalidEvents: it is empty or not JSON, nested deeper than 64 levels, or has ``NaN`` or
            ``Infinity``, a number beyond a double, an integer of more than 1000 characters, or half
            of a surrogate pair, which no UTF-8 can carry.
    """
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidEvents("The JSON received is not valid UTF-8.") from None
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise _malformed(error, text) from None
    except RecursionError:
        raise _too_deep() from None
    if _is_deeper(body, MAX_DEPTH):
        raise _too_deep()
    # Only escapes can bring surrogates in, so most bodies need no second look.
    if ("\\ud" in text or "\\uD" in text) and _LONE_SURROGATE.search(text.replace("\\\\", "?")):
        raise InvalidEvents("The JSON received has half of a surrogate pair.")
    return value


def dumps(value: object) -> str:
    """Write a tree of JSON values as one line of ASCII, without a blank that isn't data."""
    return _ENCODER.encode(value)


def size(value: object) -> int:
    """Return how many bytes *value* takes as compact UTF-8."""
    return len(_UTF8_ENCODER.encode(value).encode())


def _finite(text: str) -> float:
    number = float(text)
    if isinf(number):
        raise InvalidEvents("The JSON received has a number that is out of range.")
    return number


def _integer(text: str) -> int:
    if len(text) > MAX_INTEGER:
        raise InvalidEvents("The JSON received has a number that is out of range.")
    return int(text)


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidEvents(f"The JSON received has a number that is not JSON: {name}.")


def _is_deeper(body: bytes, levels: int) -> bool:
    """
    Tell whether *body*, which is known to be JSON, is nested deeper than *levels*.

    Nothing here looks at one value at a time in Python: only brackets are kept, and then the
    innermost pairs are taken away, one level each time.
    """
    if b"\\" in body:
        body = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    brackets = body.translate(_BRACES_TO_BRACKETS, _NOT_STRUCTURE).replace(b'""', b"")
    brackets = _STRING.sub(b"", brackets)
    for _ in range(levels):
        if not brackets:
            return False
        brackets = brackets.replace(b"[]", b"")
    return bool(brackets)


def _malformed(error: json.JSONDecodeError, text: str) -> InvalidEvents:
    # The decoder's own words quote nothing of the body but the position.
    if error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string"):
        return InvalidEvents("Unexpected end when reading JSON.")
    return InvalidEvents(
        f"The JSON received is malformed: {error.msg}, line {error.lineno}, position {error.colno}."
    )


def _too_deep() -> InvalidEvents:
    return InvalidEvents(f"The JSON received is nested deeper than {MAX_DEPTH} levels.")


_BRACES_TO_BRACKETS = bytes.maketrans(b"{}", b"[]")
_NOT_STRUCTURE = bytes(set(range(256)) - set(b'"[]{}'))
_STRING = re.compile(rb'"[^"]*"')
# In a text without escaped backslashes: the first half without the second, or the second alone.
_LONE_SURROGATE = re.compile(
    r"\\u[dD](?:[89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    r"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD])[c-fC-F])"
)
_DECODER = json.JSONDecoder(
    parse_float=_finite, parse_int=_integer, parse_constant=_refuse_constant
)
_COMPACT = (",", ":")
_ENCODER = json.JSONEncoder(allow_nan=False, separators=_COMPACT, check_circular=False)
_UTF8_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=_COMPACT, check_circular=False)
