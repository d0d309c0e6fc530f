"""JSON in which every number stays as it was written: the trees of events are read so."""

from __future__ import annotations

import json
import re
from math import isinf
from typing import Any


class Number:
    """A number that would be written otherwise if it were a double: ``1.10``, ``1E2``, ``-0``."""

    __slots__ = ("literal",)

    def __init__(self, literal: str) -> None:
        self.literal = literal

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Number) and self.literal == other.literal

    def __hash__(self) -> int:
        return hash(self.literal)

    def __repr__(self) -> str:
        return f"Number({self.literal!r})"


class OutOfRange(ValueError):
    """A number is too large for a double, too small for one or, whole, too long."""


def parse_number(literal: str) -> float | Number:
    """
    Read a number with a decimal point or an exponent.

    Raises:
        OutOfRange: a double would be infinite or, though the number isn't, zero.
    """
    value = float(literal)
    if repr(value) == literal:
        return value
    if isinf(value) or (not value and _NOT_ZERO.match(literal)):
        raise OutOfRange
    return Number(literal)


def parse_integer(literal: str) -> int | Number:
    """
    Read a number without them.

    Raises:
        OutOfRange: it has more than 1000 characters.
    """
    if len(literal) > MAX_INTEGER:
        raise OutOfRange
    return Number(literal) if literal == "-0" else int(literal)


def to_python_number(value: Any) -> Any:
    """Return a number as one of Python's, and everything else as it is."""
    return float(value.literal) if isinstance(value, Number) else value


def loads(text: str | bytes) -> Any:
    """
    Read JSON that was let in before.

    Raises:
        ValueError: it is none.
    """
    return json.loads(text, parse_float=parse_number, parse_int=parse_integer)


def dumps(value: object, *, indent: int | None = None) -> str:
    """Write a tree of JSON values in ASCII: one line without a blank that isn't data, or pretty."""
    encoder = _ENCODER
    if indent is not None:
        encoder = json.JSONEncoder(allow_nan=False, indent=indent, default=_mark)
    return _unmark(encoder.encode(value), _ASCII_MARK)


def dumps_unicode(value: object) -> str:
    """Write a tree of JSON values as one line, with no more escapes than JSON asks for."""
    return _unmark(_UNICODE_ENCODER.encode(value), f'"{_MARK}')


def _mark(value: object) -> str:
    """
    Return what the encoder, which is written in C and knows no literals, can write of a number.

    It becomes a string with half of a surrogate pair in front, which no text has that was let in:
    no other string can begin so, nor can what follows a quotation mark within one.
    """
    if isinstance(value, Number):
        return _MARK + value.literal
    raise TypeError(f"{type(value).__name__} is no JSON")


def _unmark(text: str, mark: str) -> str:
    first, *marked = text.split(mark)
    return first + "".join([each.replace('"', "", 1) for each in marked])


MAX_INTEGER = 1000  # characters; reading an integer takes time quadratic in them
_MARK = "\udfff"
_ASCII_MARK = '"\\udfff'
_NOT_ZERO = re.compile(r"-?[0.]*[1-9]")
_COMPACT = (",", ":")
_ENCODER = json.JSONEncoder(
    allow_nan=False, separators=_COMPACT, check_circular=False, default=_mark
)
_UNICODE_ENCODER = json.JSONEncoder(
    ensure_ascii=False,
    allow_nan=False,
    separators=_COMPACT,
    check_circular=False,
    default=_mark,
)
