"""JSON as it may enter and leave Pushgrid: nothing in it that somebody else can't read."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

from shared.errors import InvalidEvents

DEEPEST = 64
LONGEST_INTEGER = 1000  # digits; reading an integer takes time quadratic in them


def parse(body: bytes) -> Any:
    """
    Parse UTF-8, with or without a byte order mark.

    Integers are kept exactly. Of members with the same name the last wins. The document itself is
    the first level of nesting.

    Raises:
        InvalidEvents: it is empty or not JSON, nested deeper than 64 levels, or has ``NaN`` or
            ``Infinity``, a number beyond a double, an integer of more than 1000 digits, or half of
            a surrogate pair, which no UTF-8 can carry.
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
    if text.count("[") + text.count("{") > DEEPEST and _is_deeper(value, DEEPEST):
        raise _too_deep()
    # Only escapes can smuggle surrogates in, so most bodies need no second look.
    if "\\ud" in text or "\\uD" in text:
        _refuse_lone_surrogates(value)
    return value


def dumps(value: object) -> str:
    """Write a tree of JSON values as one line of ASCII, without a blank that isn't data."""
    return _ENCODER.encode(value)


def size(value: object) -> int:
    """Return how many bytes *value* takes as compact UTF-8."""
    return len(_UTF8_ENCODER.encode(value).encode())


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise InvalidEvents("The JSON received has a number that is out of range.")
    return number


def _integer(text: str) -> int:
    if len(text) > LONGEST_INTEGER and len(text.lstrip("-")) > LONGEST_INTEGER:
        raise InvalidEvents("The JSON received has a number that is out of range.")
    return int(text)


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidEvents(f"The JSON received has a number that is not JSON: {name}.")


def _is_deeper(value: object, levels: int) -> bool:
    nodes = [value] if isinstance(value, dict | list) else []
    for _ in range(levels):
        nodes = [
            child
            for node in nodes
            for child in (node.values() if isinstance(node, dict) else node)
            if isinstance(child, (dict, list))
        ]
        if not nodes:
            return False
    return True


def _refuse_lone_surrogates(value: object) -> None:
    try:
        size(value)
    except UnicodeEncodeError:
        raise InvalidEvents("The JSON received has half of a surrogate pair.") from None


def _malformed(error: json.JSONDecodeError, text: str) -> InvalidEvents:
    # The decoder's own words quote nothing of the body but the position.
    if error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string"):
        return InvalidEvents("Unexpected end when reading JSON.")
    return InvalidEvents(
        f"The JSON received is malformed: {error.msg}, line {error.lineno}, position {error.colno}."
    )


def _too_deep() -> InvalidEvents:
    return InvalidEvents(f"The JSON received is nested deeper than {DEEPEST} levels.")


_DECODER = json.JSONDecoder(
    parse_float=_finite, parse_int=_integer, parse_constant=_refuse_constant
)
_COMPACT = (",", ":")
_ENCODER = json.JSONEncoder(allow_nan=False, separators=_COMPACT, check_circular=False)
_UTF8_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=_COMPACT, check_circular=False)
