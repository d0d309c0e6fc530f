"""One fact as published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared.events.topic import InputSchema


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """
    An accepted event: valid by construction, and stamped where its schema says so.

    *members* is the JSON object under the schema's own names. *text* is the same object as compact
    JSON in ASCII: what is stored, and what is delivered where the delivery schema is the same.
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
