"""
Defines what the values of ARM's expressions are, and which of them are the same.

Held against Bicep's own evaluator, which is stricter than the documentation: it converts nothing
but what a function says.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from cli.configuration.template.expressions import ExpressionFault

_KINDS = {
    "text": "text",
    "int": "a whole number",
    "float": "a fraction",
    "bool": "true or false",
    "array": "an array",
    "object": "an object",
    "null": "null",
    "lambda": "a lambda",
}
_OF_TYPES: Mapping[type, str] = {
    str: "text",
    bool: "bool",
    int: "int",
    float: "float",
    list: "array",
    type(None): "null",
}


@dataclass(frozen=True, slots=True)
class LambdaFunction:
    """A function among the arguments of another."""

    variables: tuple[str, ...]
    apply: Callable[..., Any]  # gets a value of each variable

    def __call__(self, *values: Any) -> Any:
        """Return its value for those of *values* that it has variables for."""
        return self.apply(*values[: len(self.variables)])


def kind_of(value: Any) -> str:
    """Return the kind of a value: ``text``, ``int``, ``object`` …"""
    if isinstance(value, LambdaFunction):
        return "lambda"
    return _OF_TYPES.get(type(value), "object")


def named(*kinds: str) -> str:
    """Return how a sentence names *kinds*: ``text or a whole number``."""
    words = [_KINDS[each] for each in kinds]
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def lookup(value: Any, key: Any, *, is_written: bool = False) -> Any:
    """
    Return a member of an object, ignoring case, or an element of an array.

    A fault names the *key* only if it *is_written* in the template: a computed one may be a secret.

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
    elif isinstance(value, list) and type(key) is int:
        if 0 <= key < len(value):
            return value[key]
        named_key = f"element {key}" if is_written else "such element"
        raise ExpressionFault(f"there is no {named_key}: the array has {len(value)}")
    at = f" of {named(kind_of(value))}" if not isinstance(value, Mapping | list) else ""
    named_key = f"member '{key}'" if is_written else "such member"
    raise ExpressionFault(f"there is no {named_key}{at}")


def text_of(value: Any) -> str:
    """Return a value as the function string() shows it."""
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, bool) else _json_of(value)


def _json_of(value: Any) -> str:
    if isinstance(value, float):
        return float_text(value)
    if isinstance(value, list):
        return f"[{','.join(map(_json_of, value))}]"
    if isinstance(value, Mapping):
        members = (f"{_json_of(name)}:{_json_of(each)}" for name, each in value.items())
        return f"{{{','.join(members)}}}"
    return json.dumps(value, ensure_ascii=False)


def float_text(value: float) -> str:
    """Return the shortest text of a fraction, as .NET writes it: with an exponent from 1E+17 on."""
    text = repr(value).upper()
    return f"{Decimal(text):f}.0" if text.endswith("E+16") else text


def identity(value: Any) -> str:
    """Return a text that two values share if they are equal: also in kind, and in case."""
    return json.dumps(value, sort_keys=True)


def by_name(name: str) -> str:
    """Return what names of members are sorted by; their case does not count."""
    return name.upper()


@dataclass(frozen=True, slots=True)
class LazyObject:
    """An object each of whose members is evaluated when it is looked up: a module's outputs."""

    members: Mapping[str, Callable[[], Any]]


def whole(value: Any) -> Any:
    """Return *value*; of a lazy object, all members evaluated."""
    if isinstance(value, LazyObject):
        return {name: whole(member()) for name, member in value.members.items()}
    return value
