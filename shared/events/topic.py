"""Defines a topic as the data plane uses it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network
from typing import NamedTuple

Network = IPv4Network | IPv6Network

DEPLOYMENT = "this-deployment"  # a source beside storage accounts; none can have such a name
_SYSTEM = "system-"  # no custom topic or namespace can have such a name


class InputSchema(StrEnum):
    """The schema in which publishers send events; values are ARM names."""

    EVENT_GRID = "EventGridSchema"
    CLOUD_EVENTS = "CloudEventSchemaV1_0"
    CUSTOM = "CustomEventSchema"


class FieldMapping(NamedTuple):
    """The source of a field of Event Grid's envelope: an input field, or a default."""

    source: str | None
    default: str | None


class TopicName(NamedTuple):
    """The name of a topic of a namespace."""

    namespace: str
    topic: str

    @property
    def joined(self) -> str:
        """Its name on the data plane; unique, since names have no full stop."""
        return f"{self.namespace}.{self.topic}"

    @classmethod
    def parse(cls, name: str) -> TopicName | None:
        """Parse a name of the data plane; ``None`` if it is that of a custom topic."""
        namespace, stop, topic = name.partition(".")
        return cls(namespace, topic) if stop else None


class SourceTopic(NamedTuple):
    """The topic of a source, a storage account or `DEPLOYMENT`; only Pushgrid publishes."""

    source: str

    @property
    def joined(self) -> str:
        """Its name on the data plane; unique, since no other topic's name begins so."""
        return f"{_SYSTEM}{self.source}"

    @classmethod
    def parse(cls, name: str) -> SourceTopic | None:
        """Parse a name of the data plane; ``None`` if it is that of another kind of topic."""
        is_one = name.lower().startswith(_SYSTEM)
        return cls(name[len(_SYSTEM) :].lower()) if is_one else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A custom topic, a namespace topic (``{namespace}.{topic}``), or that of a source."""

    name: str
    arm_id: str  # the full resource id, in its original case
    input_schema: InputSchema
    keys: tuple[str, ...] = field(repr=False)  # base64; all are valid
    profile: str | None = None  # ``None``: the default delivery profile
    # Of the custom schema, by the fields of Event Grid's.
    mapping: Mapping[str, FieldMapping] = field(default_factory=dict)
    disable_local_auth: bool = False  # requires Entra ID tokens
    inbound_rules: tuple[Network, ...] = ()  # who may publish; empty: all
    retention: timedelta | None = None  # how long events are kept at most; ``None``: no limit
