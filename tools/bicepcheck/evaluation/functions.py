"""Bicep's functions on values; a result that needs Azure stays symbolic."""

from __future__ import annotations

from collections.abc import Callable
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


_RULES: dict[str, Callable[..., Any]] = {
    "empty": lambda value: not isinstance(value, _UNKNOWN) and not value,
    "format": _format,
    "union": _union,
    "concat": _concat,
    "filter": lambda items, keep: [one for one in _lists(items) if keep(one) is not False],
    "map": lambda items, change: [change(one) for one in _lists(items)],
    "string": lambda value: text_of([value]),
    "length": lambda many: len(_lists(many)),
    "range": lambda start, count: list(range(start, start + count)),
    "last": lambda many: many[-1],
    "join": lambda many, by: text_of([part for one in _lists(many) for part in (by, one)][1:]),
    "replace": lambda text, old, new: text.replace(old, new),
    "split": lambda text, by: text.split(by),
    "trim": lambda text: text.strip(),
}

_SYMBOLIC = frozenset(
    {
        "any", "array", "base64", "base64ToJson", "base64ToString", "bool", "cidrHost",
        "cidrSubnet", "contains", "createArray", "createObject", "dataUri", "dateTimeAdd",
        "dateTimeFromEpoch", "dateTimeToEpoch", "deployer", "deployment", "endsWith", "environment",
        "extensionResourceId", "fail", "first", "flatten", "groupBy", "guid", "indexOf", "int",
        "intersection", "items", "json", "lastIndexOf", "loadFileAsBase64",
        "loadJsonContent", "loadTextContent", "loadYamlContent", "managementGroup",
        "managementGroupResourceId", "mapValues", "max", "min", "nameof", "newGuid", "objectKeys",
        "padLeft", "parseCidr", "pickZones", "providers", "reduce", "reference",
        "resourceGroup", "resourceId", "shallowMerge", "skip", "sort", "startsWith", "subscription",
        "subscriptionResourceId", "substring", "take", "tenant", "tenantResourceId",
        "toLogicalZone", "toLower", "toObject", "toUpper", "tryGet", "uniqueString", "uri",
        "uriComponent", "uriComponentToString", "utcNow",
    }
)  # fmt: skip
"""Functions whose result needs Azure, or that no template here uses."""

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
