"""Parses JSON strictly: refuses values that other parsers can't read."""

from __future__ import annotations

import codecs
import json
import re
from typing import Any, NoReturn

from shared.errors import InvalidEvents
from shared.events import literals

MAX_DEPTH = 64


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidEvents(f"The JSON received has a number that is not JSON: {name}.")


LITERAL = json.JSONDecoder(
    parse_float=literals.parse_number,
    parse_int=literals.parse_integer,
    parse_constant=_refuse_constant,
)
PLAIN = json.JSONDecoder(
    parse_float=lambda text: literals.to_python_number(literals.parse_number(text)),
    parse_int=lambda text: literals.to_python_number(literals.parse_integer(text)),
    parse_constant=_refuse_constant,
)


def parse(body: bytes, decoder: json.JSONDecoder = LITERAL, max_depth: int = MAX_DEPTH) -> Any:
    """
    Parse UTF-8, with or without a byte order mark.

    The decoder ``LITERAL`` keeps the literals of numbers; ``PLAIN`` converts them to Python's. The
    last of several members with the same name counts. The document is the first level of nesting.

    Raises:
        InvalidEvents: it is empty or not JSON, is nested deeper than *max_depth*, or has ``NaN``,
            ``Infinity``, a number that overflows or underflows a double, an integer of more than
            1000 characters, or half of a surrogate pair.
    """
    try:
        text = body.removeprefix(codecs.BOM_UTF8).decode()  # "utf-8-sig" takes many times longer
    except UnicodeDecodeError:
        raise InvalidEvents("The JSON received is not valid UTF-8.") from None
    try:
        value = literals.decoder_for(len(text), decoder).decode(text)
    except json.JSONDecodeError as error:
        raise _malformed_error(error, text) from None
    except literals.OutOfRange:
        raise InvalidEvents("The JSON received has a number that is out of range.") from None
    except RecursionError:
        raise _depth_error(max_depth) from None
    if _is_deeper(body, max_depth):
        raise _depth_error(max_depth)
    # Only escapes can produce surrogates, so most bodies need no search.
    if ("\\ud" in text or "\\uD" in text) and _LONE_SURROGATE.search(text.replace("\\\\", "?")):
        raise InvalidEvents("The JSON received has half of a surrogate pair.")
    return value


def size(value: object) -> int:
    """Return the size of *value* as compact JSON in UTF-8, in bytes."""
    return len(literals.dumps_unicode(value).encode())


def _is_deeper(body: bytes, levels: int) -> bool:
    """
    Tell whether *body*, which is valid JSON, is nested deeper than *levels*.

    If it may be, by the number of brackets, it keeps only these and then removes the innermost
    pairs, one level at a time: no loop over single values in Python.
    """
    if body.count(b"[") + body.count(b"{") <= levels:
        return False
    if b"\\" in body:
        body = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    brackets = body.translate(_BRACES_TO_BRACKETS, _NOT_STRUCTURE).replace(b'""', b"")
    brackets = _STRING.sub(b"", brackets)
    for _ in range(levels):
        if not brackets:
            return False
        brackets = brackets.replace(b"[]", b"")
    return bool(brackets)


def _malformed_error(error: json.JSONDecodeError, text: str) -> InvalidEvents:
    # The decoder's messages quote nothing of the body except the position.
    if error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string"):
        return InvalidEvents("Unexpected end when reading JSON.")
    return InvalidEvents(
        f"The JSON received is malformed: {error.msg}, line {error.lineno}, position {error.colno}."
    )


def _depth_error(levels: int) -> InvalidEvents:
    return InvalidEvents(f"The JSON received is nested deeper than {levels} levels.")


_BRACES_TO_BRACKETS = bytes.maketrans(b"{}", b"[]")
_NOT_STRUCTURE = bytes(set(range(256)) - set(b'"[]{}'))
_STRING = re.compile(rb'"[^"]*"')
# In text without escaped backslashes: a first half without its second, or a second half alone.
_LONE_SURROGATE = re.compile(
    r"\\u[dD](?:[89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    r"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD])[c-fC-F])"
)
