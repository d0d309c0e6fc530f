"""Checks that a value read from a stored document has the types that it declares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from functools import cache
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

V = TypeVar("V")

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
    if not _fits(value, type(value)):
        raise TypeError(f"a member of the {type(value).__name__} has another type")
    return value


def _fits(value: Any, kind: Any) -> bool:
    origin, parts = get_origin(kind), get_args(kind)
    if kind is Any:
        return True
    if origin in (Union, UnionType):
        return any(_fits(value, each) for each in parts)
    if origin is Mapping:
        return isinstance(value, Mapping) and all(_fits(each, parts[1]) for each in value.values())
    if origin in (tuple, frozenset):
        return isinstance(value, origin) and all(_fits(each, parts[0]) for each in value)
    if kind in _PLAIN:
        return _PLAIN[kind](value)
    members = _members(kind).items()
    return isinstance(value, kind) and all(_fits(getattr(value, name), of) for name, of in members)


@cache
def _members(kind: type) -> Mapping[str, Any]:
    """Return the types of the members that a value of *kind* is made of."""
    if is_dataclass(kind):
        names = [each.name for each in fields(kind) if each.init]
    else:
        names = list(getattr(kind, "_fields", ()))
    hints = get_type_hints(kind) if names else {}
    return {name: hints[name] for name in names}


def _is_number(value: object) -> bool:
    is_real = isinstance(value, int | float) and not isinstance(value, bool)
    return is_real and -_MOST < value < _MOST  # type: ignore[operator]


def _is_text(value: object) -> bool:
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:
        return False


_PLAIN: Mapping[type, Callable[[Any], bool]] = {
    str: _is_text,
    int: lambda value: isinstance(value, int) and _is_number(value),
    float: _is_number,
    datetime: lambda value: isinstance(value, datetime) and value.tzinfo is not None,
}
