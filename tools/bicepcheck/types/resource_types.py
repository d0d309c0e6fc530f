"""Schemas as types: what may be written into a resource, and what may be read of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from tools.bicepcheck.types import kinds as t
from tools.bicepcheck.types import schema

_LIMIT = re.compile(r"(minValue|maxValue|minLength|maxLength): (-?\d+)|pattern: (.*)$")
_PLAIN = {"string": t.STRING, "int": t.INT, "bool": t.BOOL, "any": t.ANY, "null": t.NULL}


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A resource type; *scopes* as azmcp names them: ResourceGroup, Subscription, Extension, …"""

    name: str
    version: str
    scopes: str
    body: t.Type


class _Fields(Mapping[str, t.Field]):
    """Members of a schema object, made when they are looked at: some types hold themselves."""

    def __init__(self, entries: list[dict[str, Any]], types: dict[str, Any]) -> None:
        self._entries = {entry["name"]: entry for entry in entries}
        self._types = types
        self._made: dict[str, t.Field] = {}

    def __getitem__(self, name: str) -> t.Field:
        if name not in self._made:
            self._made[name] = _field(self._entries[name], self._types)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


@cache
def known(resource_type: str) -> Known | None:
    """Return a resource type by name without version; ``None``: there is none."""
    answer = schema.raw(resource_type)
    if answer is None:
        return None
    resource = answer["resource"]
    name, version = resource["name"].split("@")
    if answer["types"] is None:
        return Known(name=name, version=version, scopes="Unknown", body=t.ANY)
    body = _definition(resource["bodyType"], answer["types"])
    return Known(name=name, version=version, scopes=resource["writableScopes"], body=body)


def _definition(entry: dict[str, Any], types: dict[str, Any]) -> t.Type:
    if entry["$type"] == "DiscriminatedObject":
        tag, of = entry["discriminator"], {}
        for one in entry["elements"]:
            members = [*entry["baseProperties"], *one["properties"]]
            key = next(member["type"] for member in members if member["name"] == tag)
            of[key] = t.Obj(fields=_Fields(members, types), name=one["name"])
        return t.Tagged(tag=tag, of=of)
    rest = entry.get("additionalPropertiesType")
    return t.Obj(
        fields=_Fields(entry["properties"], types),
        rest=_type(rest, "", types) if rest else None,
        name=entry["name"],
    )


def _field(entry: dict[str, Any], types: dict[str, Any]) -> t.Field:
    flags = entry.get("flags") or ""
    return t.Field(
        type=_type(entry["type"], entry.get("modifiers") or "", types),
        required="Required" in flags,
        readable="WriteOnly" not in flags,
        writable="ReadOnly" not in flags,
    )


def _type(name: str, limits: str, types: dict[str, Any]) -> t.Type:
    if " | " in name:
        # azmcp writes `a | b[]` for a list of either.
        if name.endswith("[]"):
            return t.Arr(of=_type(name[:-2], limits, types))
        names = name.split(" | ")
        is_open = "string" in names
        if not all(one in types or one in _PLAIN for one in names):
            types = {}  # a value may be called as a type is
        of = tuple(_type(one, limits, types) for one in names if one != "string")
        return t.Union(of=of, open=is_open)
    if name in types:
        return _definition(types[name], types)
    if name.endswith("[]"):
        return t.Arr(of=_type(name[:-2], limits, types))
    found = {one[1]: int(one[2]) for one in _LIMIT.finditer(limits) if one[1]}
    if name == "int":
        return t.Int(least=found.get("minValue"), most=found.get("maxValue"))
    if name == "string":
        pattern = next((one[3] for one in _LIMIT.finditer(limits) if one[3]), None)
        shortest, longest = found.get("minLength"), found.get("maxLength")
        return t.Str(shortest=shortest, longest=longest, pattern=pattern)
    if name in {"object", "array"}:
        return t.OBJECT if name == "object" else t.ARRAY
    if name in _PLAIN:
        return _PLAIN[name]
    if name in {"true", "false"}:
        return t.Bool(value=name == "true")
    return t.Int(value=int(name)) if name.isdecimal() else t.Str(value=name)
