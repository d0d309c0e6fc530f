"""Converts schemas of resource types to types."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from tools.bicepcheck.immutable import Immutable
from tools.bicepcheck.types import kinds as t
from tools.bicepcheck.types.schema import schema

_LIMIT = re.compile(r"(minValue|maxValue|minLength|maxLength): (-?\d+)")
_BUILT_IN: dict[str, t.Type] = {
    "string": t.STRING,
    "int": t.INT,
    "bool": t.BOOL,
    "any": t.ANY,
    "null": t.NULL,
    "object": t.OBJECT,
    "array": t.ARRAY,
    "true": t.Bool(value=True),
    "false": t.Bool(value=False),
}


class Known(Immutable):
    """A resource type; *scopes* as azmcp names them: ResourceGroup, Subscription, Extension, …"""

    name: str
    version: str
    scopes: str
    body: t.Type


class _Fields(Mapping[str, t.Field]):
    """Members of a schema object, converted when they are read: some types contain themselves."""

    def __init__(self, entries: list[dict[str, Any]], types: dict[str, Any]) -> None:
        self._entries = {entry["name"]: entry for entry in entries}
        self._types = types
        self._converted: dict[str, t.Field] = {}

    def __getitem__(self, name: str) -> t.Field:
        if name not in self._converted:
            entry = self._entries[name]
            flags = entry.get("flags") or ""
            self._converted[name] = t.Field(
                type=_type(entry["type"], entry.get("modifiers") or "", self._types),
                required="Required" in flags,
                readable="WriteOnly" not in flags,
                writable="ReadOnly" not in flags,
            )
        return self._converted[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


@cache
def known(resource_type: str) -> Known | None:
    """Return a resource type by name without version; ``None``: there is none."""
    answer = schema(resource_type)
    if answer is None:
        return None
    resource, types = answer["resource"], answer["types"]
    name, version = resource["name"].split("@")
    if types is None:
        return Known(name=name, version=version, scopes="Unknown", body=t.ANY)
    body = _definition(resource["bodyType"], types)
    return Known(name=name, version=version, scopes=resource["writableScopes"], body=body)


def _definition(entry: dict[str, Any], types: dict[str, Any]) -> t.Type:
    if entry["$type"] == "DiscriminatedObject":
        discriminator, variants = entry["discriminator"], {}
        for one in entry["elements"]:
            members = [*entry["baseProperties"], *one["properties"]]
            key = next(member["type"] for member in members if member["name"] == discriminator)
            variants[key] = t.Obj(fields=_Fields(members, types), name=one["name"])
        return t.Discriminated(discriminator=discriminator, variants=variants)
    additional = entry.get("additionalPropertiesType")
    return t.Obj(
        fields=_Fields(entry["properties"], types),
        additional=_type(additional, "", types) if additional else None,
        name=entry["name"],
    )


def _type(name: str, limits: str, types: dict[str, Any]) -> t.Type:
    if name.endswith("[]") and (" | " in name or name not in types):
        return t.Arr(of=_type(name[:-2], limits, types))  # azmcp: `a | b[]` is a list of either
    if " | " in name:
        names = name.split(" | ")
        if not all(one in types or one in _BUILT_IN for one in names):
            types = {}  # a value may have the same name as a type
        of = tuple(_type(one, limits, types) for one in names if one != "string")
        return t.Union(of=of, open="string" in names)
    if name in types:
        return _definition(types[name], types)
    limit = {found[1]: int(found[2]) for found in _LIMIT.finditer(limits)}
    if name == "int":
        return t.Int(minimum=limit.get("minValue"), maximum=limit.get("maxValue"))
    if name == "string":
        return t.Str(min_length=limit.get("minLength"), max_length=limit.get("maxLength"))
    if name in _BUILT_IN:
        return _BUILT_IN[name]
    return t.Int(value=int(name)) if name.isdecimal() else t.Str(value=name)
