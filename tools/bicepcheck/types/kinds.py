"""Types of values, and which of them may stand where another is asked for."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Type:
    """The base of all types; by itself: anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Null(Type):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Bool(Type):
    value: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Int(Type):
    value: int | None = None
    least: int | None = None
    most: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Str(Type):
    """*shortest* and *longest* in characters."""

    value: str | None = None
    shortest: int | None = None
    longest: int | None = None
    pattern: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Arr(Type):
    of: Type
    shortest: int | None = None
    longest: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    type: Type
    required: bool = False
    readable: bool = True
    writable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Obj(Type):
    """*rest* is the type of members under any other name; ``None``: there are none."""

    fields: Mapping[str, Field] = field(default_factory=dict)
    rest: Type | None = None
    name: str = "object"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tagged(Type):
    """One of several objects, told apart by the member *tag*."""

    tag: str
    of: Mapping[str, Obj]


@dataclass(frozen=True, slots=True, kw_only=True)
class Union(Type):
    """One of several; *open*: Azure declares that there may be more."""

    of: tuple[Type, ...]
    open: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceType(Type):
    """A declared resource (or module, of type ``module``) itself; *body* is what can be read."""

    kind: str
    body: Type
    maybe: bool = False


ANY = Type()
NULL = Null()
STRING = Str()
INT = Int()
BOOL = Bool()
ARRAY = Arr(of=ANY)
OBJECT = Obj(rest=ANY)


def of_literal(value: object) -> Type:
    """Return the type of one value."""
    match value:
        case bool():
            return Bool(value=value)
        case int():
            return Int(value=value)
        case str():
            return Str(value=value)
    return NULL


def union(types: list[Type]) -> Type:
    """Return the type of a value of one of *types*."""
    flat: list[Type] = []
    for one in types:
        for part in one.of if isinstance(one, Union) else (one,):
            if part not in flat:
                flat.append(part)
    if ANY in flat or any(isinstance(one, Union) and one.open for one in types):
        return ANY if ANY in flat else Union(of=tuple(flat), open=True)
    return flat[0] if len(flat) == 1 else Union(of=tuple(flat))


def nullable(kind: Type) -> Type:
    """Return *kind* or null."""
    return union([kind, NULL])


def parts(kind: Type) -> tuple[Type, ...]:
    """Return the members of a union, or the type itself."""
    return kind.of if isinstance(kind, Union) else (kind,)


def without_null(kind: Type) -> Type:
    """Return *kind* when it is known not to be null."""
    if not isinstance(kind, Union):
        return ANY if kind == NULL else kind
    left = [one for one in kind.of if one != NULL]
    found = union(left) if left else ANY
    return Union(of=parts(found), open=True) if kind.open and len(parts(found)) else found


def certain(kind: Type) -> Type:
    """Return *kind* of which the template says that it is there."""
    if isinstance(kind, ResourceType):
        return ResourceType(kind=kind.kind, body=kind.body)
    return without_null(kind)


def show(kind: Type) -> str:
    """Return a type as a reader knows it."""
    match kind:
        case Null():
            return "null"
        case Bool(value=value):
            return "bool" if value is None else str(value).lower()
        case Int(value=value):
            return "int" if value is None else str(value)
        case Str(value=value):
            return "string" if value is None else f"'{value}'"
        case Arr(of=of):
            return f"{show(of)}[]" if not isinstance(of, Union) else f"({show(of)})[]"
        case Obj(name=name):
            return name
        case Tagged(tag=tag):
            return f"object with a {tag}"
        case Union(of=of):
            return " | ".join(show(one) for one in of)
        case ResourceType(kind=name):
            return name
    return "any"


def nearest(name: str, known: list[str]) -> str:
    """Return " (is … meant?)" where a known name is near."""
    lower = {one.lower(): one for one in known}
    if name.lower() in lower:
        return f" (is '{lower[name.lower()]}' meant?)"
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f" (is '{near[0]}' meant?)" if near else ""


def mismatch(given: Type, asked: Type) -> str | None:
    """Return why a value of type *given* can't stand where *asked* is asked for, or ``None``."""
    if asked is ANY or given is ANY:
        return None
    if isinstance(given, Union):
        found = [why for one in given.of if (why := mismatch(one, asked))]
        return found[0] if found else None
    if isinstance(asked, Union):
        return _of_union(given, asked)
    if isinstance(given, ResourceType):
        given = given.body
    for rule in (_scalar, _array, _objects):
        if (answer := rule(given, asked)) is not NotImplemented:
            return answer if answer is None else str(answer)
    return f"{show(asked)} is asked for, this is {show(given)}"


def _of_union(given: Type, asked: Union) -> str | None:
    if any(mismatch(given, one) is None for one in asked.of):
        return None
    same = [one for one in asked.of if type(one) is type(given)]
    if isinstance(given, Str | Int) and given.value is None and same:
        # A string that is known at deployment only: an open set takes it, a closed one does not.
        return None if asked.open else f"{show(asked)} is asked for, this may be any {show(given)}"
    if len(same) == 1:
        return mismatch(given, same[0])
    hint = ""
    if isinstance(given, Str) and given.value is not None:
        hint = nearest(given.value, [str(one.value) for one in same if isinstance(one, Str)])
    return f"{show(asked)} is asked for, this is {show(given)}{hint}"


def _scalar(given: Type, asked: Type) -> object:
    match given, asked:
        case (Null(), Null()):
            return None
        case (Bool(value=have), Bool(value=want)):
            return None if want is None or have == want else _not(given, asked)
        case (Int(), Int()):
            return _int(given, asked)
        case (Str(), Str()):
            return _str(given, asked)
    return NotImplemented


def _int(given: Int, asked: Int) -> str | None:
    if asked.value is not None:
        return None if given.value == asked.value else _not(given, asked)
    if given.value is None:
        return None
    if asked.least is not None and given.value < asked.least:
        return f"{given.value} is less than {asked.least}"
    if asked.most is not None and given.value > asked.most:
        return f"{given.value} is more than {asked.most}"
    return None


def _str(given: Str, asked: Str) -> str | None:
    if asked.value is not None:
        return None if given.value == asked.value else _not(given, asked)
    if given.value is None:
        return None
    if asked.shortest is not None and len(given.value) < asked.shortest:
        return f"'{given.value}' is shorter than {asked.shortest}"
    if asked.longest is not None and len(given.value) > asked.longest:
        return f"'{given.value}' is longer than {asked.longest}"
    return None


def _not(given: Type, asked: Type) -> str:
    return f"{show(asked)} is asked for, this is {show(given)}"


def _array(given: Type, asked: Type) -> object:
    if not (isinstance(given, Arr) and isinstance(asked, Arr)):
        return NotImplemented
    return mismatch(given.of, asked.of)


def _objects(given: Type, asked: Type) -> object:
    if not isinstance(given, Obj):
        return NotImplemented
    if isinstance(asked, Tagged):
        return None
    if not isinstance(asked, Obj):
        return NotImplemented
    return next(_members(given, asked), None)


def _members(given: Obj, asked: Obj) -> Iterator[str]:
    for name, member in asked.fields.items():
        have = given.fields.get(name)
        if have is None:
            if member.required and given.rest is None:
                yield f"{show(asked)} has '{name}', which {show(given)} lacks"
        elif why := mismatch(have.type, member.type):
            yield f"{name}: {why}"
    if asked.rest is None:
        for name in given.fields:
            if name not in asked.fields and asked.fields:
                yield f"'{name}' is no member of {show(asked)}{nearest(name, list(asked.fields))}"
    else:
        for name, have in given.fields.items():
            if name not in asked.fields and (why := mismatch(have.type, asked.rest)):
                yield f"{name}: {why}"
