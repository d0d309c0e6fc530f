"""The endpoint that accepts events, as the data plane sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple


class InputSchema(StrEnum):
    """What publishers send to a topic; the values are the ARM names."""

    EVENT_GRID = "EventGridSchema"
    CLOUD_EVENTS = "CloudEventSchemaV1_0"
    CUSTOM = "CustomEventSchema"


class FieldMapping(NamedTuple):
    """Where a field of Event Grid's envelope comes from: a field of the input, or a default."""

    source: str | None
    default: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """
    A custom topic.

    *arm_id* is the full resource id, in the case in which it was created. Both keys are valid at
    once; they are base64 text. *profile* is the delivery profile's name, ``None`` the default one.
    *mapping* is for the custom schema, by the names of Event Grid's own.
    """

    name: str
    arm_id: str
    input_schema: InputSchema
    key1: str = field(repr=False)
    key2: str = field(repr=False)
    profile: str | None = None
    mapping: Mapping[str, FieldMapping] = field(default_factory=dict)
