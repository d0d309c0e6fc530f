"""Checks that a value read from a stored document has the types that it declares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from functools import cache
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

V = TypeVar("V")
Test = Callable[[Any], bool]

_MOST = 2.0**53  # the largest integer that every reader of JSON has


def checked(value: V) -> V:
    """
    Return *value*, a dataclass or a named tuple, as it is.

    A row that was damaged or written by another version can have any JSON in any place. What is
    used later, for every event, must not be the first to notice.

    Raises:
        TypeError: a member has another type than is declared, is a time without its zone, a number
            beyond 2**53, or a text that UTF-8 can't carry.
    """
    kind: Any = type(value)
    if not _test_of(kind)(value):
        raise TypeError(f"a member of the {type(value).__name__} has another type")
    return value


@cache
def _test_of(kind: Any) -> Test:
    """Return the test whether a value is of *kind*; it is made once, since rows are read often."""
    origin, parts = get_origin(kind), get_args(kind)
    if kind is Any:
        return lambda _: True
    if kind in _PLAIN:
        return _PLAIN[kind]
    if origin in (Union, UnionType):
        tests = [_test_of(each) for each in parts]
        return lambda value: any(test(value) for test in tests)
    if origin is Mapping:
        test = _test_of(parts[1])
        return lambda value: isinstance(value, Mapping) and all(map(test, value.values()))
    if origin in (tuple, frozenset):
        test = _test_of(parts[0])
        return lambda value: isinstance(value, origin) and all(map(test, value))
    members = _members(kind)
    return lambda value: (
        isinstance(value, kind) and all(test(getattr(value, name)) for name, test in members)
    )


def _members(kind: type) -> list[tuple[str, Test]]:
    """Return the members that a value of *kind* is made of, each with its test."""
    if is_dataclass(kind):
        names = [each.name for each in fields(kind) if each.init]
    else:
        names = list(getattr(kind, "_fields", ()))
    hints = get_type_hints(kind) if names else {}
    return [(name, _test_of(hints[name])) for name in names]


def _is_number(value: object) -> bool:
    is_real = isinstance(value, int | float) and not isinstance(value, bool)
    return is_real and -_MOST < value < _MOST  # type: ignore[operator]


def _is_text(value: object) -> bool:
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:
        return False


_PLAIN: Mapping[type, Test] = {
    str: _is_text,
    int: lambda value: isinstance(value, int) and _is_number(value),
    float: _is_number,
    datetime: lambda value: isinstance(value, datetime) and value.tzinfo is not None,
}
