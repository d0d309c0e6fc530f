"""Reads and writes JSON with every number as it was written."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from math import isinf
from typing import Any


@dataclass(slots=True, unsafe_hash=True)  # not frozen: that takes twice as long to make
class Number:
    """A number whose literal a double would not preserve: ``1.10``, ``1E2``, ``-0``."""

    literal: str


class OutOfRange(ValueError):
    """A number overflows or underflows a double, or is too long an integer."""


def parse_number(literal: str) -> float | Number:
    """
    Parse a number with a decimal point or an exponent.

    Raises:
        OutOfRange: it overflows or underflows a double.
    """
    value = float(literal)
    if repr(value) == literal:
        return value
    if isinf(value) or (not value and _NOT_ZERO.match(literal)):
        raise OutOfRange
    return Number(literal)


def parse_integer(literal: str) -> int | Number:
    """
    Parse a number without decimal point and exponent.

    Raises:
        OutOfRange: it has more than 1000 characters.
    """
    if len(literal) > MAX_INTEGER:
        raise OutOfRange
    return Number(literal) if literal == "-0" else int(literal)


def to_python_number(value: Any) -> Any:
    """Return a ``Number`` as a float, and any other value unchanged."""
    return float(value.literal) if isinstance(value, Number) else value


def decoder_for(size: int, decoder: json.JSONDecoder) -> json.JSONDecoder:
    """
    Return a decoder for one document of *size* characters or bytes.

    In a large one it parses each literal with a point or an exponent once, however often it occurs.
    """
    if size < LARGE:
        return decoder
    return json.JSONDecoder(
        parse_float=_ParsedOnce(decoder.parse_float).__getitem__,
        parse_int=decoder.parse_int,
        parse_constant=decoder.parse_constant,
    )


class _ParsedOnce(dict[str, Any]):
    """Numbers by their literals."""

    def __init__(self, parse: Callable[[str], Any]) -> None:
        super().__init__()
        self._parse = parse

    def __missing__(self, literal: str) -> Any:
        number = self[literal] = self._parse(literal)
        return number


def loads(text: str | bytes) -> Any:
    """
    Parse JSON that was validated before; bytes are UTF-8.

    Raises:
        ValueError: it is not JSON.
    """
    decoder = decoder_for(len(text), _DECODER)
    return decoder.decode(text if isinstance(text, str) else text.decode())


def dumps(value: object, *, indent: int | None = None) -> str:
    """Write a JSON value in ASCII: compact, or pretty with *indent*."""
    encoder = _ENCODER
    if indent is not None:
        encoder = json.JSONEncoder(allow_nan=False, indent=indent, default=_mark)
    return _unmark(encoder.encode(value), _ASCII_MARK)


def dumps_unicode(value: object) -> str:
    """Write a JSON value compactly, with only the escapes that JSON requires."""
    return _unmark(_UNICODE_ENCODER.encode(value), f'"{_MARK}')


def _mark(value: object) -> str:
    """
    Return a string that the C encoder can write in place of a ``Number``.

    It begins with half of a surrogate pair. Validated text contains none, so no other string begins
    with it, and no quotation mark within a string is followed by it.
    """
    if isinstance(value, Number):
        return _MARK + value.literal
    raise TypeError(f"{type(value).__name__} is not a JSON value")


def _unmark(text: str, mark: str) -> str:
    first, *marked = text.split(mark)
    return first + "".join([each.replace('"', "", 1) for each in marked])


LARGE = 65_536  # characters: numbers are worth remembering
MAX_INTEGER = 1000  # characters; parsing an integer takes quadratic time
_MARK = "\udfff"
_ASCII_MARK = '"\\udfff'
_NOT_ZERO = re.compile(r"-?[0.]*[1-9]")
_COMPACT = (",", ":")
_DECODER = json.JSONDecoder(parse_float=parse_number, parse_int=parse_integer)
_ENCODER = json.JSONEncoder(
    allow_nan=False, separators=_COMPACT, check_circular=False, default=_mark
)
_UNICODE_ENCODER = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=_COMPACT, check_circular=False, default=_mark
)
