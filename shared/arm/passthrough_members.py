"""Reads members that have no effect here but that clients expect to get back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from shared.arm.sections import Section

_BOTH = "SystemAssigned, UserAssigned"
# Some clients write both without the space; Azure shows them with it.
_IDENTITIES = ("None", "SystemAssigned", "UserAssigned", _BOTH, _BOTH.replace(" ", ""))
_SKUS = ("Basic", "Premium", "Standard")
_MAX_CAPACITY = 40  # throughput units of a namespace
_BOUNDARIES = ("WithinGeopair", "WithinRegion")


def parse_passthrough(resource: Section) -> dict[str, Any]:
    """
    Read the passthrough members beside ``properties``; faults are added to *resource*.

    Source: the models of azure-mgmt-eventgrid 10.4.0 and, for sku and kind of topics, 9.0.0.
    """
    return _parse(resource, _READERS)


def parse_passthrough_properties(properties: Section) -> dict[str, Any]:
    """Read the passthrough members of a topic's properties; faults are added to *properties*."""
    return _parse(properties, _PROPERTY_READERS)


def _parse_identity(section: Section, name: str) -> dict[str, Any]:
    identity = section.section(name)
    users = identity.named_sections("userAssignedIdentities")
    kind = identity.choice("type", _IDENTITIES)
    known = {
        "type": _BOTH if kind and "," in kind else kind,
        **_parse_texts(identity, ("principalId", "tenantId")),
        "userAssignedIdentities": {
            user: _parse_texts(each, ("principalId", "clientId")) for user, each in users.items()
        }
        or None,
    }
    return {member: value for member, value in known.items() if value is not None}


def _parse_kind(section: Section, name: str) -> str | None:
    kind = section.choice(name, ("Azure",), ("AzureArc",))
    if kind == "AzureArc":
        section.refuse(name, "The kind AzureArc is not supported; the only kind is Azure.")
    return kind


def _parse_sku(section: Section, name: str) -> dict[str, Any]:
    sku = section.section(name)
    known = {
        "name": sku.choice("name", _SKUS),
        "capacity": sku.number("capacity", 1, _MAX_CAPACITY),
    }
    return {member: value for member, value in known.items() if value is not None}


def _parse_boundary(section: Section, name: str) -> str | None:
    return section.choice(name, _BOUNDARIES)


def _parse_event_types(section: Section, name: str) -> dict[str, Any]:
    info = section.section(name)
    types = info.named_sections("inlineEventTypes")
    members = ("description", "displayName", "documentationUrl", "dataSchemaUrl")
    known = {
        "kind": info.choice("kind", ("Inline",)),
        "inlineEventTypes": {event: _parse_texts(each, members) for event, each in types.items()}
        or None,
    }
    return {member: value for member, value in known.items() if value is not None}


def _parse_texts(section: Section, names: Sequence[str]) -> dict[str, str]:
    return {name: text for name in names if (text := section.text(name)) is not None}


def _parse(
    section: Section, readers: Mapping[str, Callable[[Section, str], Any]]
) -> dict[str, Any]:
    return {name: read(section, name) for name, read in readers.items() if section.has(name)}


_READERS: Mapping[str, Callable[[Section, str], Any]] = {
    "identity": _parse_identity,
    "kind": _parse_kind,
    "sku": _parse_sku,
}
_PROPERTY_READERS: Mapping[str, Callable[[Section, str], Any]] = {
    "dataResidencyBoundary": _parse_boundary,
    "eventTypeInfo": _parse_event_types,
}
PASSTHROUGH = tuple(_READERS)
