"""The endpoint that accepts events, as the data plane sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network
from typing import NamedTuple

Network = IPv4Network | IPv6Network


class InputSchema(StrEnum):
    """What publishers send to a topic; the values are the ARM names."""

    EVENT_GRID = "EventGridSchema"
    CLOUD_EVENTS = "CloudEventSchemaV1_0"
    CUSTOM = "CustomEventSchema"


class FieldMapping(NamedTuple):
    """Where a field of Event Grid's envelope comes from: a field of the input, or a default."""

    source: str | None
    default: str | None


class TopicName(NamedTuple):
    """The name of a topic of a namespace."""

    namespace: str
    topic: str

    @property
    def joined(self) -> str:
        """Its name on the data plane. No name has a full stop, so it is nobody else's."""
        return f"{self.namespace}.{self.topic}"

    @classmethod
    def parse(cls, name: str) -> TopicName | None:
        """Read a name of the data plane; ``None`` if it is a custom topic's."""
        namespace, stop, topic = name.partition(".")
        return cls(namespace, topic) if stop else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """
    A custom topic, or a topic of a namespace, whose *name* is then ``{namespace}.{topic}``.

    *arm_id* is the full resource id, in the case in which it was created. All *keys* are valid at
    once, unless *disable_local_auth* asks for tokens of Entra ID; they are base64 text.
    *inbound_rules* say from where may be published: none means from everywhere. *profile* is the
    delivery profile's name, ``None`` the default one. *mapping* is for the custom schema, by the
    names of Event Grid's own. *retention* is how long events are kept at most, ``None``: no limit.
    """

    name: str
    arm_id: str
    input_schema: InputSchema
    keys: tuple[str, ...] = field(repr=False)
    profile: str | None = None
    mapping: Mapping[str, FieldMapping] = field(default_factory=dict)
    disable_local_auth: bool = False
    inbound_rules: tuple[Network, ...] = ()
    retention: timedelta | None = None
