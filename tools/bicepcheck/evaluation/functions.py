"""Bicep's functions on values; a result that needs Azure stays symbolic."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cmp_to_key
from typing import Any

from tools.bicepcheck.evaluation.values import (
    Computed,
    Deployed,
    Input,
    Located,
    PartialText,
    Ref,
    hashable,
    is_known,
    text_of,
)

_UNKNOWN = (PartialText, Ref, Input, Computed, Deployed)
_NOT_EVALUATED = (TypeError, ValueError, KeyError, IndexError, AttributeError)


def call(name: str, args: list[Any]) -> Any:
    """Return the result of a function."""
    rule = _RULES.get(name)
    if rule is not None:
        try:
            return rule(*args)
        except _NOT_EVALUATED:
            pass  # an argument is unknown, or of the wrong type, which the type check reports
    return Computed(name, tuple(hashable(one) for one in args if not callable(one)))


def truth(value: Any) -> bool | None:
    """Return whether a condition holds; ``None``: unknown."""
    return value if isinstance(value, bool) else None


def equal(left: Any, right: Any, *, ignore_case: bool) -> bool | None:
    """Return whether two values are equal; ``None``: unknown."""
    if is_known(left) and is_known(right):
        if ignore_case and isinstance(left, str) and isinstance(right, str):
            return left.lower() == right.lower()
        return bool(left == right)
    if "" in (left, right) or None in (left, right) or 0 in (left, right):
        return False  # what the deployer or Azure provides is not empty
    return True if left == right else None


def _lists(*args: Any) -> list[Any]:
    """Return lists joined; TypeError: one is not a list."""
    if not all(isinstance(one, list) for one in args):
        raise TypeError
    return [one for many in args for one in many]


def _union(*args: Any) -> Any:
    if not all(isinstance(one, dict) for one in args):
        return _lists(*args)
    merged = Located(getattr(args[0], "line", 0))
    for one in args:
        merged.update(one)
        merged.lines.update(getattr(one, "lines", {}))
    return merged


def _format(text: str, *args: Any) -> Any:
    parts: list[Any] = [text]
    for at, arg in enumerate(args):
        placeholder, filled = f"{{{at}}}", []
        for part in parts:
            if isinstance(part, str):
                pieces = part.split(placeholder)
                filled += [pieces[0], *(one for piece in pieces[1:] for one in (arg, piece))]
            else:
                filled.append(part)
        parts = filled
    return text_of(parts)


def _concat(*args: Any) -> Any:
    return _lists(*args) if all(isinstance(one, list) for one in args) else text_of(list(args))


def _to_object(items: list[Any], key: Callable[..., Any], value: Any = None) -> Located:
    found = Located(0)
    for one in items:
        found[key(one)] = value(one) if value else one
    return found


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
    if isinstance(value, list | dict) or is_known(value):
        return len(value)
    raise TypeError


def _contains(where: Any, what: Any) -> bool:
    if isinstance(where, str | list | dict) and is_known(where) and is_known(what):
        return what in where
    raise TypeError


_RULES: dict[str, Callable[..., Any]] = {
    "empty": lambda value: not isinstance(value, _UNKNOWN) and not value,
    "format": _format,
    "union": _union,
    "concat": _concat,
    "filter": lambda items, keep: [one for one in _lists(items) if keep(one) is not False],
    "map": lambda items, change: [change(one) for one in _lists(items)],
    "toObject": _to_object,
    "items": lambda value: [{"key": key, "value": one} for key, one in sorted(value.items())],
    "reduce": _reduce,
    "sort": _sort,
    "mapValues": lambda value, change: {key: change(one) for key, one in value.items()},
    "shallowMerge": lambda many: _union(*many),
    "uri": lambda base, rest: text_of([base, rest]),
    "length": _length,
    "contains": _contains,
    "string": lambda value: text_of([value]),
    "int": int,
    "range": lambda start, count: list(range(start, start + count)),
    "first": lambda many: many[0],
    "last": lambda many: many[-1],
    "flatten": lambda many: _lists(*many),
    "objectKeys": sorted,
    "join": lambda many, by: text_of([part for one in _lists(many) for part in (by, one)][1:]),
    "replace": lambda text, old, new: text.replace(old, new),
    "split": lambda text, by: text.split(by),
    "skip": lambda many, count: many[count:],
    "take": lambda many, count: many[:count],
    "any": lambda value: value,
    "json": json.loads,
    "toLower": lambda text: text.lower(),
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

_SYMBOLIC = frozenset(
    {
        "base64", "base64ToJson", "base64ToString", "cidrHost", "cidrSubnet", "createObject",
        "dataUri", "dateTimeAdd", "dateTimeFromEpoch", "dateTimeToEpoch", "deployer", "deployment",
        "environment", "extensionResourceId", "fail", "groupBy", "guid", "indexOf", "intersection",
        "lastIndexOf", "loadFileAsBase64", "loadJsonContent", "loadTextContent", "loadYamlContent",
        "managementGroup", "managementGroupResourceId", "nameof", "newGuid", "padLeft",
        "parseCidr", "pickZones", "providers", "reference", "resourceGroup", "resourceId",
        "subscription", "subscriptionResourceId", "substring", "tenant", "tenantResourceId",
        "toLogicalZone", "tryGet", "uniqueString", "uriComponent", "uriComponentToString", "utcNow",
    }
)  # fmt: skip
"""Functions whose result needs Azure, or is of no interest to a rule."""

FUNCTIONS = frozenset(_RULES) | _SYMBOLIC

_TEXTS = ("uniqueString", "guid")
"""Functions of which every argument is a string."""
_FIRST = {
    "array": "map filter sort reduce flatten toObject shallowMerge",
    "object": "items objectKeys mapValues",
    "string": "toLower toUpper trim split replace startsWith endsWith",
    "string array object": "empty length contains",
}
"""The kinds of the first argument, and functions that take no other."""


def misfit(name: str, kinds: list[str | None]) -> str | None:
    """Return why a function does not take arguments of these kinds (``None``: unknown)."""
    known = [kind for kind in kinds if kind]
    if name in _TEXTS and set(known) - {"string"}:
        return "its arguments must be strings"
    for allowed, names in _FIRST.items():
        if kinds and kinds[0] and name in names.split() and kinds[0] not in allowed.split():
            return f"it does not take an argument of type {kinds[0]}"
    if name in {"concat", "union"} and "array" in known and set(known) != {"array"}:
        return "it joins an array only with arrays"
    return None
