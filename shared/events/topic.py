"""The endpoint that accepts events, as the data plane sees it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class InputSchema(StrEnum):
    """What publishers send to a topic; the values are the ARM names."""

    EVENT_GRID = "EventGridSchema"
    CLOUD_EVENTS = "CloudEventSchemaV1_0"
    CUSTOM = "CustomEventSchema"


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """
    A custom topic.

    *arm_id* is the full resource id, in the case in which it was created. Both keys are valid at
    once; they are base64 text. *profile* is the delivery profile's name, ``None`` the default one.
    """

    name: str
    arm_id: str
    input_schema: InputSchema
    key1: str = field(repr=False)
    key2: str = field(repr=False)
    profile: str | None = None
