"""What parameters, outputs and members of resources may hold, and where a value does not fit."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from tools.bicepcheck.evaluation.values import (
    Computed,
    Deployed,
    Input,
    ModuleOutputs,
    PartialText,
    Ref,
)
from tools.bicepcheck.reading import nodes as s
from tools.bicepcheck.reading.folder import File

TABLE = Path(__file__).resolve().parents[1] / "data" / "resources.json"
_BASIC = ("string", "int", "bool", "array", "object", "any")
_STRINGS = frozenset({"format", "guid", "newGuid", "uniqueString", "utcNow", "toLower", "toUpper"})


@dataclass(frozen=True, slots=True)
class Shape:
    """
    *values*: the only ones, if any; *low*, *high*: limits of a number or of the length of a text;
    *rest*: of members under any other name, which an object without it must not have.
    """

    kind: str = "any"
    values: tuple[Any, ...] = ()
    low: int | None = None
    high: int | None = None
    item: Shape | None = None
    members: Mapping[str, MemberShape] | None = None
    rest: Shape | None = None
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class MemberShape:
    """A member of an object."""

    shape: Shape
    required: bool = False
    writable: bool = True  # else it is Azure's


ANY = Shape()


@cache
def of_resource(kind: str) -> Shape | None:
    """Return the members of a resource type; ``None``: the table does not have it."""
    entry = table().get(kind)
    return _of_table(entry["members"]) if entry else None


def of_ref(ref: Ref, *, last: int | None = None) -> Shape:
    """Return the shape of a member of a resource; *last*: how many steps of its path to go."""
    shape = of_resource(ref.of.type) or ANY
    for step in ref.path[:last]:
        member = (shape.members or {}).get(step)
        shape = member.shape if member else ANY
    return shape


@cache
def table() -> dict[str, Any]:
    """Return the table of resource types; `tools/bicepcheck/README.md` describes its entries."""
    return dict(json.loads(TABLE.read_text(encoding="utf-8")))


def _of_table(entry: Any) -> Shape:
    if isinstance(entry, list):
        return Shape("array", item=_of_table(entry[0]))
    if isinstance(entry, dict):
        members = {
            key.rstrip("!-"): MemberShape(_of_table(one), key.endswith("!"), not key.endswith("-"))
            for key, one in entry.items()
            if key != "*"
        }
        return Shape(
            "object", members=members, rest=_of_table(entry["*"]) if "*" in entry else None
        )
    if entry.startswith("="):
        return Shape("string", values=tuple(entry[1:].split("|")))
    kind, _, limits = entry.partition(" ")
    low, _, high = limits.partition("..")
    return Shape(kind, low=int(low) if low else None, high=int(high) if high else None)


def declared(node: s.Node, file: File, decorators: tuple[s.Invocation, ...] = ()) -> Shape:
    """
    Return the shape that a type in a file denotes, narrowed by its decorators.

    Raises:
        LookupError: there is no such type.
    """
    shape = _declared(node, file)
    if limits := limits_of(decorators):
        low = limits.get("minValue", limits.get("minLength"))
        shape = replace(shape, low=low, high=limits.get("maxValue", limits.get("maxLength")))
    return shape


def _declared(node: s.Node, file: File) -> Shape:
    match node:
        case s.Name(name=name) if name in _BASIC:
            return Shape(name)
        case s.Name(name=name) if isinstance(found := file.symbols.get(name), s.TypeAlias):
            return declared(found.type, file.origin[name], found.decorators)
        case s.Literal(value=None):
            return Shape("null", nullable=True)
        case s.Literal(value=value):
            return Shape(kind_of(value) or "any", values=(value,))
        case s.ArrayType():
            return Shape("array", item=_declared(node.of, file))
        case s.UnionType():
            of = [_declared(one, file) for one in node.of]
            kinds = {one.kind for one in of} - {"null"}
            values = tuple(value for one in of for value in one.values)
            first = next((one for one in of if one.kind != "null"), ANY)
            nullable = any(one.nullable for one in of)
            if len(kinds) == 1:
                return replace(first, values=values, nullable=nullable)
            return Shape(nullable=nullable)
        case s.Object():
            shapes = {one.key: declared(one.value, file, one.decorators) for one in node.properties}
            rest = shapes.pop("*", None)
            members = {str(key): MemberShape(one, not one.nullable) for key, one in shapes.items()}
            return Shape("object", members=members, rest=rest)
        case s.Member(of=s.Name(name=owner), name=name) if owner in file.wildcards:
            return _declared(s.Name(line=node.line, name=name), file.wildcards[owner])
    raise LookupError(f"there is no type '{getattr(node, 'name', '?')}'")


def limits_of(decorators: tuple[s.Invocation, ...]) -> dict[str, int]:
    """Return the numbers that decorators such as `maxLength` set, by decorator name."""
    return {
        one.name: one.args[0].value
        for one in decorators
        if one.args and isinstance(one.args[0], s.Literal) and isinstance(one.args[0].value, int)
    }


def kind_of(value: Any) -> str | None:
    """Return the kind of a value; ``None``: unknown."""
    match value:
        case bool():
            return "bool"
        case int():
            return "int"
        case str() | PartialText():
            return "string"
        case list():
            return "array"
        case dict() | Deployed() | ModuleOutputs():
            return "object"
        case Input(kind=kind):
            return kind
        case Computed(function=name):
            if name in RESULTS:
                return "object"
            return "string" if name in _STRINGS or name.endswith("esourceId") else None
        case Ref():
            kind = of_ref(value).kind
            return None if kind == "any" else kind
    return None


RESULTS = {
    "subscription": "id subscriptionId tenantId displayName",
    "resourceGroup": "id name type location managedBy tags properties",
    "tenant": "tenantId country countryCode displayName",
    "deployment": "name location id type scope properties",
    "deployer": "objectId tenantId userPrincipalName",
    "environment": "authentication graph name portal resourceManager sqlManagement suffixes",
}
"""Functions that return an object, and its members."""


def faults(
    value: Any, shape: Shape, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """Yield where a value does not fit: the path, the code of the rule, and what is wrong."""
    kind, name = kind_of(value), f"{path[-1]}: " if path else ""
    if shape.kind == "any" or (value is None and shape.nullable):
        return
    if value is None or (kind not in {None, shape.kind}):
        got = repr(value) if isinstance(value, str | int | None) else kind
        yield path, "type", f"{name}expected {shape.kind}, got {got}"
    elif shape.values and isinstance(value, str | int) and value not in shape.values:
        choices = [str(one) for one in shape.values]
        hint = suggestion(str(value), choices) or f"; use {', '.join(choices)}"
        yield path, "value", f"{name}'{value}' is not allowed{hint}"
    elif isinstance(value, str | int) and not isinstance(value, bool):
        size = len(value) if isinstance(value, str) else value
        if not (shape.low is None or shape.low <= size):
            yield path, "value", f"{name}'{value}' is below the minimum of {shape.low}"
        if not (shape.high is None or size <= shape.high):
            yield path, "value", f"{name}'{value}' is above the maximum of {shape.high}"
    elif isinstance(value, list) and shape.item:
        for one in value:
            if one is not None:
                yield from faults(one, shape.item, path)
    elif isinstance(value, dict) and shape.members is not None:
        yield from _members(value, shape, path)


def _members(
    value: Mapping[Any, Any], shape: Shape, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], str, str]]:
    members = shape.members or {}
    for key, one in value.items():
        member = members.get(key)
        if member is None:
            if shape.rest is None:
                hint = suggestion(str(key), members)
                yield (*path, str(key)), "unknown-property", f"there is no '{key}'{hint}"
            else:
                yield from faults(one, shape.rest, (*path, str(key)))
            continue
        if not member.writable:
            yield (*path, key), "read-only", f"'{key}' is read-only; delete it"
        elif one is not None or member.required:
            yield from faults(one, member.shape, (*path, key))
    for key, member in members.items():
        if member.required and key not in value:
            yield path, "missing", f"'{key}' is required; set it"


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


def typed(text: str, shape: Shape) -> str | int | bool:
    """Return the value of a text as azd passes it: a number or a bool where one is expected."""
    if shape.kind == "int" and re.fullmatch(r"-?\d+", text):
        return int(text)
    if shape.kind == "bool" and text.lower() in {"true", "false"}:
        return text.lower() == "true"
    return text


def params(file: File) -> Shape:
    """Return the parameters of a file as an object."""
    members = {}
    for one in file.all(s.Param):
        shape = declared(one.type, file, one.decorators)
        members[one.name] = MemberShape(shape, one.default is None and not shape.nullable)
    return Shape("object", members=members)
