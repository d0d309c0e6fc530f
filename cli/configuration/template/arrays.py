"""Defines the functions for arrays and objects, and for both and texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cmp_to_key
from itertools import takewhile
from typing import Any

from cli.configuration.template.expressions import ExpressionFault
from cli.configuration.template.texts import cut, index_of, last_index_of, units
from cli.configuration.template.values import (
    LambdaFunction,
    by_name,
    identity,
    kind_of,
    named,
    text_of,
)

_MAX_RANGE, _MAX_END = 10_000, 2**31 - 1  # as in Azure


def _range(start: int, count: int) -> list[int]:
    if not 0 <= count <= _MAX_RANGE:
        raise ExpressionFault(f"range(): the count must be a number up to {_MAX_RANGE}")
    if start + count > _MAX_END:
        raise ExpressionFault(f"range(): it must end at {_MAX_END} at most")
    return list(range(start, start + count))


def _concat(*values: Any) -> Any:
    arrays = sum(isinstance(each, list) for each in values)
    if arrays == len(values) > 0:
        return [each for value in values for each in value]
    if arrays or any(kind_of(each) not in {"text", "int", "bool"} for each in values):
        raise ExpressionFault("concat(): the arguments must be all texts, or all arrays")
    return "".join(map(text_of, values))


def _of_one_kind(name: str, values: Sequence[Any]) -> bool:
    """Return whether *values* are objects, and not arrays."""
    kinds = {kind_of(each) for each in values}
    if len(kinds) > 1:
        raise ExpressionFault(f"{name}(): the arguments must be all arrays, or all objects")
    return kinds == {"object"}


def _union(*values: Any) -> Any:
    if _of_one_kind("union", values):
        return _merged_objects(values)
    return list(_distinct(each for value in values for each in value).values())


def _merged_objects(values: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return all members, and what those with the same name have together; case does not count."""
    given: dict[str, tuple[str, list[Any]]] = {}
    for value in values:
        for name, each in value.items():
            _, known = given.get(name.casefold(), ("", []))
            given[name.casefold()] = name, [*known, each]
    return {name: _merged(found) for name, found in given.values()}


def _merged(values: Sequence[Any]) -> Any:
    """Return the last value that is not null or, if the last ones are objects, their union."""
    known = [each for each in values if each is not None] or [None]
    objects = list(takewhile(lambda each: isinstance(each, Mapping), reversed(known)))
    return _merged_objects(reversed(objects)) if objects else known[-1]


def _intersection(*values: Any) -> Any:
    first, *others = values
    if _of_one_kind("intersection", values):
        pairs = [{identity([*pair]) for pair in other.items()} for other in others]
        return {
            name: each
            for name, each in first.items()
            if all(identity([name, each]) in other for other in pairs)
        }
    known = [set(map(identity, other)) for other in others]
    distinct = _distinct(first)
    return [each for key, each in distinct.items() if all(key in other for other in known)]


def _distinct(values: Iterable[Any]) -> dict[str, Any]:
    """Return the first of each of equal values, by its identity."""
    found: dict[str, Any] = {}
    for each in values:
        found.setdefault(identity(each), each)
    return found


def _contains(container: Any, item: Any) -> bool:
    if isinstance(container, list):
        return identity(item) in map(identity, container)
    _checked("contains(): argument 2 must be", "text", item)
    if isinstance(container, Mapping):
        return item.casefold() in map(str.casefold, container)
    return item in container


def _position(of_text: Callable[[str, str], int], last: bool, name: str) -> Callable[..., int]:
    """Return a function that finds a text in a text, or an element in an array."""

    def position(container: str | list[Any], item: Any) -> int:
        if isinstance(container, list):
            wanted, found = identity(item), list(map(identity, container))
            places = [at for at, each in enumerate(found) if each == wanted] or [-1]
            return places[-1 if last else 0]
        return of_text(container, _checked(f"{name}(): argument 2 must be", "text", item))

    return position


def _part(start: Callable[[int], int], end: Callable[[int], int | None]) -> Callable[..., Any]:
    """Return a function that takes the part of a text or array that begins and ends there."""

    def part(value: str | list[Any], count: int) -> Any:
        known = max(count, 0)
        if isinstance(value, str):
            return cut(value, start(known), end(known))
        return value[start(known) : end(known)]

    return part


def _first(value: str | list[Any]) -> Any:
    return cut(value, 0, 1) if isinstance(value, str) else next(iter(value), None)


def _last(value: str | list[Any]) -> Any:
    if isinstance(value, str):
        return cut(value, max(units(value) - 1, 0), None)
    return value[-1] if value else None


def _create_object(*pairs: Any) -> dict[str, Any]:
    if len(pairs) % 2:
        raise ExpressionFault(f"createObject() takes pairs of arguments, not {len(pairs)}")
    rule = "createObject(): the name of a member must be"
    names = [_checked(rule, "text", each) for each in pairs[::2]]
    if len(set(names)) < len(names):
        raise ExpressionFault("createObject(): a name is given twice")
    return dict(zip(names, pairs[1::2], strict=True))


def _checked(rule: str, kind: str, value: Any) -> Any:
    """Return a value of this *kind*; the *rule*, such as ``sort(): …``, is that it must be one."""
    if kind_of(value) != kind:
        raise ExpressionFault(f"{rule} {named(kind)}, not {named(kind_of(value))}")
    return value


def _only(kind: str, name: str, values: Sequence[Any]) -> Sequence[Any]:
    return [_checked(f"{name}(): each element must be", kind, each) for each in values]


def _flatten(values: Sequence[Any]) -> list[Any]:
    return [each for value in _only("array", "flatten", values) for each in value]


def _shallow_merge(values: Sequence[Any]) -> dict[str, Any]:
    found: dict[str, tuple[str, Any]] = {}
    for value in _only("object", "shallowMerge", values):
        for name, each in value.items():
            known, _ = found.get(name.casefold(), (name, None))
            found[name.casefold()] = known, each
    return dict(found.values())


def _from_end(values: Sequence[Any], index: int) -> Any:
    if not 0 < index <= len(values):
        raise ExpressionFault(f"indexFromEnd(): there is no element {index} from the end")
    return values[-index]


def _try_from_end(values: Any, index: int) -> Any:
    return values[-index] if isinstance(values, list) and 0 < index <= len(values) else None


def _keys(value: Mapping[str, Any]) -> list[str]:
    return sorted(value, key=by_name)


def _result(name: str, kind: str, value: Any) -> Any:
    return _checked(f"{name}(): the lambda must return", kind, value)


def _map(values: Sequence[Any], function: LambdaFunction) -> list[Any]:
    return [function(each, index) for index, each in enumerate(values)]


def _filter(values: Sequence[Any], function: LambdaFunction) -> list[Any]:
    return [
        each
        for index, each in enumerate(values)
        if _result("filter", "bool", function(each, index))
    ]


def _reduce(values: Sequence[Any], start: Any, function: LambdaFunction) -> Any:
    found = start
    for index, each in enumerate(values):
        found = function(found, each, index)
    return found


def _sort(values: Sequence[Any], is_before: LambdaFunction) -> list[Any]:
    def compare(one: Any, other: Any) -> int:
        forth, back = (
            _result("sort", "bool", is_before(*pair)) for pair in ((one, other), (other, one))
        )
        return int(back) - int(forth)

    return sorted(values, key=cmp_to_key(compare))


def _to_object(
    values: Sequence[Any],
    name_of: LambdaFunction,
    value_of: Callable[[Any], Any] = lambda each: each,
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    folded: set[str] = set()
    for each in values:
        name = _result("toObject", "text", name_of(each))
        if name.casefold() in folded:
            raise ExpressionFault("toObject(): the lambda returns a name twice")
        folded.add(name.casefold())
        found[name] = value_of(each)
    return found


def _group_by(
    values: Sequence[Any],
    name_of: LambdaFunction,
    value_of: Callable[[Any], Any] = lambda each: each,
) -> dict[str, Any]:
    groups: dict[str, tuple[str, list[Any]]] = {}
    for each in values:
        name = _result("groupBy", "text", name_of(each))
        groups.setdefault(name.casefold(), (name, []))[1].append(value_of(each))
    return dict(groups.values())


ARRAYS: Mapping[str, Callable[..., Any]] = {
    "array(any)": lambda value: value if isinstance(value, list) else [value],
    "concat(any...)": _concat,
    "contains(text|array|object, any)": _contains,
    "createArray(any...)": lambda *values: list(values),
    "createObject(any...)": _create_object,
    "empty(text|array|object|null)": lambda value: not value,
    "filter(array, lambda/1-2)": _filter,
    "first(text|array)": _first,
    "flatten(array)": _flatten,
    "groupBy(array, lambda/1, lambda/1?)": _group_by,
    "indexFromEnd(array, int)": _from_end,
    "indexOf(text|array, any)": _position(index_of, False, "indexOf"),
    "intersection(array|object, array|object, array|object...)": _intersection,
    "items(object)": lambda value: [{"key": each, "value": value[each]} for each in _keys(value)],
    "last(text|array)": _last,
    "lastIndexOf(text|array, any)": _position(last_index_of, True, "lastIndexOf"),
    "length(text|array|object)": lambda value: (
        units(value) if isinstance(value, str) else len(value)
    ),
    "map(array, lambda/1-2)": _map,
    "mapValues(object, lambda/1)": lambda value, function: {
        name: function(each) for name, each in value.items()
    },
    "null()": lambda: None,
    "objectKeys(object)": _keys,
    "range(int, int)": _range,
    "reduce(array, any, lambda/2-3)": _reduce,
    "shallowMerge(array)": _shallow_merge,
    "skip(text|array, int)": _part(lambda count: count, lambda _: None),
    "sort(array, lambda/2)": _sort,
    "take(text|array, int)": _part(lambda _: 0, lambda count: count),
    "toObject(array, lambda/1, lambda/1?)": _to_object,
    "tryIndexFromEnd(any, int)": _try_from_end,
    "union(array|object, array|object, array|object...)": _union,
}
