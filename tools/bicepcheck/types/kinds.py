"""Types of values, and the check of whether a value of one type fits another."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any

from tools.bicepcheck.immutable import Immutable


class Type(Immutable):
    """The base of all types; by itself: any."""

    def __str__(self) -> str:
        return "any"


class Null(Type):
    def __str__(self) -> str:
        return "null"


class Bool(Type):
    value: bool | None = None

    def __str__(self) -> str:
        return "bool" if self.value is None else str(self.value).lower()


class Int(Type):
    value: int | None = None
    minimum: int | None = None
    maximum: int | None = None

    def __str__(self) -> str:
        return "int" if self.value is None else str(self.value)


class Str(Type):
    """Lengths in characters."""

    value: str | None = None
    min_length: int | None = None
    max_length: int | None = None

    def __str__(self) -> str:
        return "string" if self.value is None else f"'{self.value}'"


class Arr(Type):
    of: Type

    def __str__(self) -> str:
        return f"({self.of})[]" if isinstance(self.of, Union) else f"{self.of}[]"


class Field(Immutable):
    type: Type
    required: bool = False
    readable: bool = True
    writable: bool = True


class Obj(Type):
    """*additional* is the type of members under any other name; ``None``: there are none."""

    fields: Mapping[str, Field] = field(default_factory=dict)
    additional: Type | None = None
    name: str = "object"

    def __str__(self) -> str:
        return self.name


class Discriminated(Type):
    """One of several objects, told apart by the value of the member *discriminator*."""

    discriminator: str
    variants: Mapping[str, Obj]

    def __str__(self) -> str:
        return f"object with a {self.discriminator}"


class Union(Type):
    """One of several; *open*: Azure declares that there may be more."""

    of: tuple[Type, ...]
    open: bool = False

    def __str__(self) -> str:
        return " | ".join(map(str, self.of))


class ResourceType(Type):
    """
    A declared resource, or a module (*kind* ``module``).

    *body*: the members that can be read; *conditional*: it may not be deployed.
    """

    kind: str
    body: Type
    conditional: bool = False

    def __str__(self) -> str:
        return self.kind


ANY = Type()
NULL = Null()
STRING = Str()
INT = Int()
BOOL = Bool()
ARRAY = Arr(of=ANY)
OBJECT = Obj(additional=ANY)


def of_value(value: object, name: str = "object") -> Type:
    """Return the type of a JSON value."""
    match value:
        case bool():
            return Bool(value=value)
        case int():
            return Int(value=value)
        case str():
            return Str(value=value)
        case list():
            return Arr(of=union([of_value(one) for one in value]))
        case dict():
            return object_of({key: of_value(one) for key, one in value.items()}, name)
    return NULL if value is None else ANY


def object_of(members: Mapping[str, Type], name: str) -> Obj:
    """Return the type of an object that has all *members*."""
    return Obj(
        fields={key: Field(type=one, required=True) for key, one in members.items()}, name=name
    )


def union(types: Iterable[Type]) -> Type:
    """Return the type of a value of one of *types*; of none: any."""
    flat: list[Type] = []
    is_open = False
    for one in types:
        is_open = is_open or (isinstance(one, Union) and one.open)
        flat += [part for part in parts(one) if part not in flat]
    if ANY in flat or not flat:
        return ANY
    return flat[0] if len(flat) == 1 and not is_open else Union(of=tuple(flat), open=is_open)


def nullable(kind: Type) -> Type:
    """Return *kind* or null."""
    return union([kind, NULL])


def parts(kind: Type) -> tuple[Type, ...]:
    """Return the members of a union, or the type itself."""
    return kind.of if isinstance(kind, Union) else (kind,)


def is_nullable(kind: Type) -> bool:
    """Return whether null is one of the values."""
    return isinstance(kind, Union) and NULL in kind.of


def without_null(kind: Type) -> Type:
    """Return *kind* for a value that is not null."""
    found = union(one for one in parts(kind) if one != NULL)
    is_open = isinstance(kind, Union) and kind.open
    return Union(of=parts(found), open=True) if is_open else found


def asserted(kind: Type) -> Type:
    """Return the type of ``value!``."""
    if isinstance(kind, ResourceType):
        return ResourceType(kind=kind.kind, body=kind.body)
    return without_null(kind)


def item_of(kind: Type) -> Type:
    """Return the type of an item of a list."""
    return union(one.of for one in parts(kind) if isinstance(one, Arr))


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return ``; did you mean '…'?`` where a known name is similar, otherwise an empty string."""
    known = list(known)
    by_lower = {one.lower(): one for one in known}
    near = [
        by_lower.get(name.lower(), ""),
        *difflib.get_close_matches(name, known, n=1, cutoff=0.6),
    ]
    found = next(filter(None, near), None)
    return f"; did you mean '{found}'?" if found else ""


def mismatch(actual: Type, expected: Type) -> str | None:
    """Return why a value of type *actual* does not fit *expected*, or ``None`` if it does."""
    if ANY in (actual, expected):
        return None
    if isinstance(actual, Union):
        return next((why for one in actual.of if (why := mismatch(one, expected))), None)
    if isinstance(expected, Union):
        return _no_variant(actual, expected)
    if isinstance(actual, ResourceType):
        actual = actual.body
    match actual, expected:
        case (Null(), Null()) | (Obj(), Discriminated()):
            return None
        case (Bool(), Bool()):
            return _value(actual, expected)
        case (Int(), Int()):
            return _value(actual, expected) or _limits(
                actual.value, expected.minimum, expected.maximum, actual, ""
            )
        case (Str(), Str()):
            length = None if actual.value is None else len(actual.value)
            return _value(actual, expected) or _limits(
                length, expected.min_length, expected.max_length, actual, " characters"
            )
        case (Arr(), Arr()):
            return mismatch(actual.of, expected.of)
        case (Obj(), Obj()):
            return next(_members(actual, expected), None)
    return f"expected {expected}, got {actual}"


def _no_variant(actual: Type, expected: Union) -> str | None:
    if any(mismatch(actual, one) is None for one in expected.of):
        return None
    same = [one for one in expected.of if type(one) is type(actual)]
    if isinstance(actual, Str | Int) and actual.value is None and same:
        # A value that only the deployment knows: an open set accepts it, a closed one does not.
        return None if expected.open else f"expected {expected}, got any {actual}"
    if len(same) == 1:
        return mismatch(actual, same[0])
    choices = [str(one.value) for one in same if isinstance(one, Str)]
    hint = suggestion(str(actual.value), choices) if isinstance(actual, Str) else ""
    return f"expected {expected}, got {actual}{hint}"


def _value(actual: Any, expected: Any) -> str | None:
    if expected.value is None or actual.value == expected.value:
        return None
    return f"expected {expected}, got {actual}"


def _limits(
    size: int | None, minimum: int | None, maximum: int | None, actual: Type, unit: str
) -> str | None:
    if size is not None and minimum is not None and size < minimum:
        return f"{actual} is below the minimum of {minimum}{unit}"
    if size is not None and maximum is not None and size > maximum:
        return f"{actual} is above the maximum of {maximum}{unit}"
    return None


def _members(actual: Obj, expected: Obj) -> Iterator[str]:
    for name, member in expected.fields.items():
        have = actual.fields.get(name)
        if have is None:
            if member.required and actual.additional is None:
                yield f"{expected} requires '{name}', which {actual} lacks"
        elif why := mismatch(have.type, member.type):
            yield f"{name}: {why}"
    for name in [one for one in actual.fields if one not in expected.fields]:
        if expected.additional is not None:
            if why := mismatch(actual.fields[name].type, expected.additional):
                yield f"{name}: {why}"
        elif expected.fields:
            yield f"{expected} has no '{name}'{suggestion(name, expected.fields)}"
