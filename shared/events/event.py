"""Defines an event as published, and reads the names of stored ones for logs and records."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

from shared.clip import clip
from shared.events.topic import InputSchema

MAX_IDS = 20  # of one line of the log
_SHORT, _KEPT = 4096, 128  # characters of an event whose names are kept, and how many are


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A validated event, completed as its schema requires."""

    schema: InputSchema
    members: Mapping[str, Any]  # the event as a JSON object
    # The same as compact JSON in ASCII, as it is stored and, in the same schema, delivered.
    text: str

    @property
    def subject(self) -> str:
        return str(self.members.get("subject") or "")

    @property
    def event_type(self) -> str:
        name = "type" if self.schema is InputSchema.CLOUD_EVENTS else "eventType"
        return str(self.members[name])


class EventNames(NamedTuple):
    """
    What an event is called, each clipped; ``None``: it has none, or its text is gone.

    Its version of data is whole, and empty if it has none.
    """

    id: str | None = None
    type: str | None = None
    subject: str | None = None
    data_version: str | None = None

    @property
    def about(self) -> str:
        """Type and subject, as far as there are any."""
        return " ".join(filter(None, (self.type, self.subject)))


def event_names(text: str | None) -> EventNames:
    """Return the names in an event's JSON, in either schema; none if it is gone or damaged."""
    return _names_of_short(text) if text and len(text) <= _SHORT else _names(text)


@lru_cache(_KEPT)  # its deliveries to several subscriptions mostly end together
def _names_of_short(text: str) -> EventNames:
    return _names(text)


def _names(text: str | None) -> EventNames:
    try:
        found = json.loads(text or "")
    except ValueError:
        return EventNames()
    if not isinstance(found, dict):
        return EventNames()
    members = (found.get("id"), found.get("eventType", found.get("type")), found.get("subject"))
    known, kind, subject = [None if each is None else clip(str(each)) for each in members]
    return EventNames(known, kind, subject, str(found.get("dataVersion", "")))


def event_id(text: str | None) -> str | None:
    """Return the id in an event's JSON, clipped; ``None`` if the text is gone or damaged."""
    return event_names(text).id


def event_ids(texts: Sequence[str | None]) -> list[str] | None:
    """Return the ids of the first `MAX_IDS` events; ``None`` if none is known."""
    return [known for text in texts[:MAX_IDS] if (known := event_id(text))] or None


def distinct(ids: Iterable[str | None]) -> list[str] | None:
    """Return the different ids of the first `MAX_IDS` events; ``None`` if they have none."""
    return list(dict.fromkeys(filter(None, islice(ids, MAX_IDS)))) or None
