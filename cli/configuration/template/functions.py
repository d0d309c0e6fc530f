"""
Defines the functions of ARM templates, but for those that need a scope: they are in `scope`.

Source: "ARM template functions" (2025).
"""

from __future__ import annotations

import base64
import json
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from itertools import takewhile
from typing import Any
from urllib.parse import quote

from cli.configuration.source import check_size
from cli.configuration.template.expressions import ExpressionFault
from cli.configuration.template.resource_ids import (
    provider_path,
    resource_group,
    resource_id,
    subscription,
)
from cli.configuration.template.unique_names import guid, unique_string

_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{(\d+)(:[^{}]*)?\}")
_MAX_RANGE = 10_000  # as in Azure
_WORD = range(-(2**63), 2**63)


def call(functions: Mapping[str, Callable[..., Any]], name: str, *arguments: Any) -> Any:
    """
    Return the value of one of *functions*, which have lower case; that of *name* does not count.

    Raises:
        ExpressionFault: there is no such function, or the arguments don't fit.
    """
    if name.lower() not in functions:
        raise ExpressionFault(f"the function {name}() is not available here")
    try:
        found = functions[name.lower()](*arguments)
    except ExpressionFault:
        raise
    except RecursionError:
        raise ExpressionFault(f"{name}(): the value is nested too deeply") from None
    except (
        TypeError,
        ValueError,
        LookupError,
        AttributeError,
        ArithmeticError,
        StopIteration,
    ) as error:
        raise ExpressionFault(f"{name}(): its arguments do not fit ({error})") from None
    if isinstance(found, int) and found not in _WORD:
        raise ExpressionFault(f"{name}(): the number is beyond 64 bits")
    return found


def lookup(value: Any, key: Any) -> Any:
    """
    Return a member of an object, ignoring case, or an element of an array.

    Raises:
        ExpressionFault: there is none.
    """
    if isinstance(value, Mapping) and isinstance(key, str):
        if key in value:
            return value[key]
        wanted = key.casefold()
        for name, member in value.items():
            if name.casefold() == wanted:
                return member
    elif isinstance(value, list) and isinstance(key, int) and 0 <= key < len(value):
        return value[key]
    raise ExpressionFault(f"there is no member {key!r}")


def text_of(value: Any) -> str:
    """Return a value as the function string() shows it."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _format(form: str, *values: Any) -> str:
    size = len(form)

    def filled(match: re.Match[str]) -> str:
        nonlocal size
        if match[2]:
            raise ExpressionFault(f"format(): the form {match[2][1:]} is not available here")
        text = match[0][0] if match[1] is None else _formatted(values[int(match[1])])
        size += len(text)
        check_size(size)
        return text

    return _PLACEHOLDER.sub(filled, form)


def _formatted(value: Any) -> str:
    return str(value) if isinstance(value, bool) else text_of(value)


def _concat(*values: Any) -> Any:
    if values and isinstance(values[0], list):
        return [each for value in values for each in value]
    return "".join(map(text_of, values))


def _range(start: int, count: int) -> list[int]:
    if count > _MAX_RANGE:
        raise ValueError(f"the count is at most {_MAX_RANGE}")
    return list(range(start, start + count))


def _join(values: Sequence[Any], delimiter: str) -> str:
    check_size(len(values) * len(delimiter))
    return delimiter.join(map(text_of, values))


def _replace(text: str, old: str, new: str) -> str:
    check_size(len(text) + text.count(old) * len(new))
    return text.replace(old, new)


def _pad_left(text: Any, width: int, fill: str = " ") -> str:
    check_size(width)
    return text_of(text).rjust(width, fill)


def _union(*values: Any) -> Any:
    if isinstance(values[0], Mapping):
        given: dict[str, list[Any]] = {}
        for value in values:
            for name, each in value.items():
                given.setdefault(name, []).append(each)
        return {name: _merged(found) for name, found in given.items()}
    distinct: dict[str, Any] = {}
    for each in (each for value in values for each in value):
        distinct.setdefault(json.dumps(each, sort_keys=True), each)
    return list(distinct.values())


def _merged(values: Sequence[Any]) -> Any:
    """Return the last value or, if the last ones are objects, what they have together."""
    objects = list(takewhile(lambda each: isinstance(each, Mapping), reversed(values)))
    return _union(*reversed(objects)) if objects else values[-1]


def _create_object(*pairs: Any) -> dict[str, Any]:
    if not all(isinstance(name, str) for name in pairs[::2]):
        raise TypeError("the name of a member must be text")
    return dict(zip(pairs[::2], pairs[1::2], strict=True))


def _of_numbers(operate: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return *operate* for numbers only: texts and lists have such operators as well."""

    def operated(one: Any, other: Any) -> Any:
        if not (isinstance(one, int | float) and isinstance(other, int | float)):
            raise TypeError("numbers are expected")
        return operate(one, other)

    return operated


def _contains(container: Any, item: Any) -> bool:
    if isinstance(container, Mapping):
        return str(item).casefold() in map(str.casefold, container)
    return (text_of(item) if isinstance(container, str) else item) in container


def _try_get(value: Any, *keys: Any) -> Any:
    try:
        return reduce(lookup, keys, value)
    except ExpressionFault:
        return None


def _numbers(values: Sequence[Any]) -> Sequence[int]:
    return values[0] if isinstance(values[0], list) else values


def _element(value: Any, index: int) -> Any:
    return value[index] if value else ("" if isinstance(value, str) else None)


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "add": _of_numbers(operator.add),
    "array": lambda value: value if isinstance(value, list) else [value],
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64tostring": lambda text: base64.b64decode(text).decode(),
    "bool": lambda value: value.lower() in {"true", "1"} if isinstance(value, str) else bool(value),
    "concat": _concat,
    "contains": _contains,
    "createarray": lambda *values: list(values),
    "createobject": _create_object,
    "div": _of_numbers(lambda one, other: int(one / other)),
    "empty": lambda value: not value,
    "endswith": lambda text, end: text.lower().endswith(end.lower()),
    "equals": lambda one, other: isinstance(one, bool) == isinstance(other, bool) and one == other,
    "false": lambda: False,
    "first": lambda value: _element(value, 0),
    "flatten": lambda values: [each for value in values for each in value],
    "format": _format,
    "greater": lambda one, other: one > other,
    "greaterorequals": lambda one, other: one >= other,
    "guid": guid,
    "indexof": lambda text, part: text.lower().find(part.lower()),
    "int": int,
    "items": lambda value: [{"key": name, "value": value[name]} for name in sorted(value)],
    "join": _join,
    "json": json.loads,
    "last": lambda value: _element(value, -1),
    "lastindexof": lambda text, part: text.lower().rfind(part.lower()),
    "length": len,
    "less": lambda one, other: one < other,
    "lessorequals": lambda one, other: one <= other,
    "max": lambda *values: max(_numbers(values)),
    "min": lambda *values: min(_numbers(values)),
    "mod": _of_numbers(operator.mod),
    "mul": _of_numbers(operator.mul),
    "not": lambda value: not value,
    "null": lambda: None,
    "objectkeys": sorted,
    "padleft": _pad_left,
    "range": _range,
    "replace": _replace,
    "shallowmerge": lambda values: {k: v for each in values for k, v in each.items()},
    "skip": lambda value, count: value[max(count, 0) :],
    "split": lambda text, delimiter: text.split(delimiter),  # one text, no list of them
    "startswith": lambda text, start: text.lower().startswith(start.lower()),
    "string": text_of,
    "sub": _of_numbers(operator.sub),
    "substring": lambda text, start, length=None: text[start:][:length],
    "take": lambda value, count: value[: max(count, 0)],
    "tolower": lambda text: text.lower(),
    "toupper": lambda text: text.upper(),
    "trim": lambda text: text.strip(),
    "true": lambda: True,
    "tryget": _try_get,
    "union": _union,
    "uniquestring": unique_string,
    "uricomponent": lambda text: quote(text, safe=""),
}

# These get the resource group first.
GROUP_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "extensionresourceid": lambda _, base, kind, *names: base + provider_path(kind, list(names)),
    "resourcegroup": resource_group,
    "resourceid": resource_id,
    "subscription": subscription,
    "subscriptionresourceid": lambda group, *names: (
        f"/subscriptions/{group.subscription}{provider_path(names[-2], [names[-1]])}"
    ),
    "tenantresourceid": lambda _, kind, *names: provider_path(kind, list(names)),
}
