"""Bicep's functions on values; what needs Azure stays a name with its arguments."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cmp_to_key
from typing import Any

from tools.bicepcheck.evaluation.values import (
    Deployed,
    Given,
    Lined,
    Made,
    Ref,
    Text,
    frozen,
    known,
    text_of,
)


def is_true(value: Any) -> bool | None:
    """Return whether a condition holds; ``None``: nobody knows."""
    return value if isinstance(value, bool) else None


def equal(left: Any, right: Any, *, ignore_case: bool = False) -> bool | None:
    """Return whether two values are the same; ``None``: nobody knows."""
    if known(left) and known(right):
        if ignore_case and isinstance(left, str) and isinstance(right, str):
            return left.lower() == right.lower()
        return bool(left == right)
    if "" in (left, right) or None in (left, right) or 0 in (left, right):
        return False  # what is given, or made by Azure, is not empty
    return True if left == right else None


def call(name: str, args: list[Any]) -> Any:
    """Return what a function makes of its arguments."""
    rule = _RULES.get(name)
    if rule is not None:
        try:
            return rule(*args)
        except (TypeError, ValueError, KeyError, IndexError, AttributeError):
            pass
    return Made(name, tuple(frozen(one) for one in args if not callable(one)))


def _empty(value: Any) -> bool:
    if isinstance(value, Text | Ref | Given | Made | Deployed):
        return False
    return not value


def _format(text: str, *args: Any) -> Any:
    parts: list[Any] = [text]
    for at, arg in enumerate(args):
        marker, made = f"{{{at}}}", []
        for part in parts:
            if not isinstance(part, str):
                made.append(part)
                continue
            for piece in part.split(marker):
                made += [piece, arg]
            made.pop()
        parts = made
    return text_of(parts)


def _union(*args: Any) -> Any:
    if all(isinstance(one, Mapping) for one in args):
        made = Lined(getattr(args[0], "line", 0))
        for one in args:
            made.update(one)
            made.lines.update(getattr(one, "lines", {}))
        return made
    if all(isinstance(one, list) for one in args):
        return [one for many in args for one in many]
    raise TypeError


def _concat(*args: Any) -> Any:
    if all(isinstance(one, list) for one in args):
        return [one for many in args for one in many]
    return text_of(list(args))


def _filter(items: list[Any], keep: Callable[..., Any]) -> list[Any]:
    if not isinstance(items, list):
        raise TypeError
    return [one for one in items if keep(one) is not False]


def _map(items: list[Any], make: Callable[..., Any]) -> list[Any]:
    if not isinstance(items, list):
        raise TypeError
    return [make(one) for one in items]


def _lower(text: Any) -> Any:
    if isinstance(text, str):
        return text.lower()
    raise TypeError


def _to_object(items: list[Any], key: Callable[..., Any], value: Any = None) -> Lined:
    made = Lined(0)
    for one in items:
        made[key(one)] = value(one) if value else one
    return made


def _items(value: Mapping[str, Any]) -> list[Any]:
    return [{"key": key, "value": one} for key, one in sorted(value.items())]


def _reduce(items: list[Any], start: Any, merge: Callable[..., Any]) -> Any:
    for one in items:
        start = merge(start, one)
    return start


def _sort(items: list[Any], before: Callable[..., Any]) -> list[Any]:
    def order(left: Any, right: Any) -> int:
        first = before(left, right)
        if not isinstance(first, bool):
            raise TypeError
        return -1 if first else 1

    return sorted(items, key=cmp_to_key(order))


def _length(value: Any) -> int:
    if known(value):
        return len(value)
    if isinstance(value, list | Mapping):
        return len(value)
    raise TypeError


def _contains(where: Any, what: Any) -> bool:
    if isinstance(where, str | list | Mapping) and known(where) and known(what):
        return what in where
    raise TypeError


def _string(value: Any) -> Any:
    return text_of([value])


_RULES: dict[str, Callable[..., Any]] = {
    "empty": _empty,
    "format": _format,
    "union": _union,
    "concat": _concat,
    "filter": _filter,
    "map": _map,
    "toLower": _lower,
    "toObject": _to_object,
    "items": _items,
    "reduce": _reduce,
    "sort": _sort,
    "mapValues": lambda value, make: {key: make(one) for key, one in value.items()},
    "shallowMerge": lambda many: _union(*many),
    "uri": lambda base, rest: text_of([base, rest]),
    "length": _length,
    "contains": _contains,
    "string": _string,
    "int": int,
    "range": lambda start, count: list(range(start, start + count)),
    "first": lambda many: many[0],
    "last": lambda many: many[-1],
    "flatten": lambda many: [one for inner in many for one in inner],
    "objectKeys": sorted,
    "join": lambda many, by: by.join(many),
    "replace": lambda text, old, new: text.replace(old, new),
    "split": lambda text, by: text.split(by),
    "skip": lambda many, count: many[count:],
    "take": lambda many, count: many[:count],
    "any": lambda value: value,
    "json": json.loads,
    "toUpper": lambda text: text.upper(),
    "trim": lambda text: text.strip(),
    "startsWith": lambda text, start: text.lower().startswith(start.lower()),
    "endsWith": lambda text, end: text.lower().endswith(end.lower()),
    "array": lambda value: value if isinstance(value, list) else [value],
    "createArray": lambda *many: list(many),
    "bool": lambda value: {"true": True, "false": False}[str(value).lower()],
    "max": max,
    "min": min,
}
