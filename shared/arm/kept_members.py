"""Members that say nothing here, but that clients expect back: read, so that they can."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from shared.arm.sections import Section

_BOTH = "SystemAssigned, UserAssigned"
# Some clients write both without the blank; Azure shows them with it.
_IDENTITIES = ("None", "SystemAssigned", "UserAssigned", _BOTH, _BOTH.replace(" ", ""))
_KINDS = ("Azure", "AzureArc")
_SKUS = ("Basic", "Premium", "Standard")
_MAX_UNITS = 40  # throughput units of a namespace
_BOUNDARIES = ("WithinGeopair", "WithinRegion")


def parse_kept(resource: Section) -> dict[str, Any]:
    """
    Read what is kept of a resource beside its properties; faults go to those of *resource*.

    Source: the models of azure-mgmt-eventgrid 10.4.0 and, for sku and kind of topics, 9.0.0.
    """
    return _read(resource, _KEPT)


def parse_kept_properties(properties: Section) -> dict[str, Any]:
    """Read what is kept of a topic's properties; faults go to those of *properties*."""
    return _read(properties, _KEPT_PROPERTIES)


def _identity(section: Section, name: str) -> dict[str, Any]:
    identity = section.section(name)
    users = identity.named_sections("userAssignedIdentities")
    kind = identity.choice("type", _IDENTITIES)
    known = {
        "type": _BOTH if kind and "," in kind else kind,
        **_texts(identity, ("principalId", "tenantId")),
        "userAssignedIdentities": {
            user: _texts(each, ("principalId", "clientId")) for user, each in users.items()
        }
        or None,
    }
    return {member: value for member, value in known.items() if value is not None}


def _kind(section: Section, name: str) -> str | None:
    return section.choice(name, _KINDS)


def _sku(section: Section, name: str) -> dict[str, Any]:
    sku = section.section(name)
    known = {"name": sku.choice("name", _SKUS), "capacity": sku.number("capacity", 1, _MAX_UNITS)}
    return {member: value for member, value in known.items() if value is not None}


def _boundary(section: Section, name: str) -> str | None:
    return section.choice(name, _BOUNDARIES)


def _event_types(section: Section, name: str) -> dict[str, Any]:
    info = section.section(name)
    types = info.named_sections("inlineEventTypes")
    members = ("description", "displayName", "documentationUrl", "dataSchemaUrl")
    known = {
        "kind": info.choice("kind", ("Inline",)),
        "inlineEventTypes": {event: _texts(each, members) for event, each in types.items()} or None,
    }
    return {member: value for member, value in known.items() if value is not None}


def _texts(section: Section, names: Sequence[str]) -> dict[str, str]:
    return {name: text for name in names if (text := section.text(name)) is not None}


def _read(section: Section, readers: Mapping[str, Callable[[Section, str], Any]]) -> dict[str, Any]:
    return {name: read(section, name) for name, read in readers.items() if section.has(name)}


_KEPT: Mapping[str, Callable[[Section, str], Any]] = {
    "identity": _identity,
    "kind": _kind,
    "sku": _sku,
}
_KEPT_PROPERTIES: Mapping[str, Callable[[Section, str], Any]] = {
    "dataResidencyBoundary": _boundary,
    "eventTypeInfo": _event_types,
}
KEPT = tuple(_KEPT)
