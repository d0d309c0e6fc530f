"""Reads events in a custom schema and maps them to Event Grid's."""

from __future__ import annotations

import uuid
from typing import Any

from shared.clock import timestamp
from shared.events.event import Event
from shared.events.iso_8601 import as_rfc_3339, is_iso_8601
from shared.events.literals import dumps
from shared.events.paths import MISSING, PathLookup
from shared.events.schema_rules import Arrival, property_error, read_array, text_of
from shared.events.topic import FieldMapping, InputSchema, Topic
from shared.http import HttpRequest

_SCHEMA = InputSchema.CUSTOM
_MAY_BE_EMPTY = frozenset({"subject", "dataVersion"})
_EVENT_IDS = uuid.UUID("b3d7a3a4-90c5-4c5e-8e0b-1b7f0c8d9e25")


def parse(request: HttpRequest, topic: Topic, arrival: Arrival) -> tuple[Event, ...]:
    """
    Read an array of objects, or a single one, and map each to Event Grid's schema.

    The result has the whole object as ``data``. A mapped field takes precedence over its default.
    Without both, ``id`` is generated, and the same if the publisher repeats its request,
    ``eventTime`` is the time of the request and ``topic`` the topic's id. The other fields are
    required; ``eventType`` can't be empty. Case doesn't count in the names of mapped fields.

    Raises:
        InvalidEvents: the first fault of the events.
        TooLarge: an event is too large.

    Source: Event Grid "Map custom fields to Event Grid schema" (contract §1.4).
    """
    events = read_array(_SCHEMA, request)
    return tuple(_map_event(event, i, topic, arrival) for i, event in enumerate(events))


def _map_event(event: dict[str, Any], position: int, topic: Topic, arrival: Arrival) -> Event:
    mapping, values = topic.mapping, PathLookup(event)
    event_time = _text(values, mapping.get("eventTime"), "eventTime") or timestamp(arrival.at)
    if not is_iso_8601(event_time):
        raise property_error(_SCHEMA, "eventTime", "to be a date and time in ISO 8601 form")
    generated_id = uuid.uuid5(_EVENT_IDS, f"{arrival.publish_id}/{position}")
    envelope = {
        "id": _text(values, mapping.get("id"), "id") or str(generated_id),
        "topic": _text(values, mapping.get("topic"), "topic") or topic.arm_id,
        "subject": _required(values, mapping.get("subject"), "subject"),
        "eventType": _required(values, mapping.get("eventType"), "eventType"),
        "eventTime": as_rfc_3339(event_time),
        "data": event,
        "dataVersion": _required(values, mapping.get("dataVersion"), "dataVersion"),
        "metadataVersion": "1",
    }
    return Event(schema=_SCHEMA, members=envelope, text=dumps(envelope))


def _required(event: PathLookup, field: FieldMapping | None, name: str) -> str:
    text = _text(event, field, name)
    if text is None or (text == "" and name not in _MAY_BE_EMPTY):
        raise property_error(_SCHEMA, name)
    return text


def _text(event: PathLookup, field: FieldMapping | None, name: str) -> str | None:
    """Return the value of a mapped field, else its default; ``None`` without both."""
    if field is None:
        return None
    value = _find(event, field.source) if field.source else None
    return field.default if value is None else text_of(_SCHEMA, name, value)


def _find(event: PathLookup, source: str) -> Any:
    """Return the member named *source* or, if there is none, the value at that dotted path."""
    if source in event.root:
        return event.root[source]
    value = event.find(source.split("."))
    if value is MISSING and "." in source:
        value = event.find((source,))  # the member in another case
    return None if value is MISSING else value
