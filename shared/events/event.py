"""Defines an event as published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared.events.topic import InputSchema


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """
    A validated event, completed as its schema requires.

    *members* is the event as a JSON object. *text* is the same object as compact JSON in ASCII: it
    is stored, and delivered unchanged if the delivery schema is the same.
    """

    schema: InputSchema
    members: Mapping[str, Any]
    text: str

    @property
    def subject(self) -> str:
        return str(self.members.get("subject") or "")

    @property
    def event_type(self) -> str:
        name = "type" if self.schema is InputSchema.CLOUD_EVENTS else "eventType"
        return str(self.members[name])
