"""Events in a schema of the publishers' own: mapped to Event Grid's when they arrive."""

from __future__ import annotations

import uuid
from typing import Any

from shared.clock import timestamp
from shared.events import strict_json
from shared.events.event import Event
from shared.events.iso_8601 import is_iso_8601
from shared.events.literals import dumps
from shared.events.schema_rules import (
    Arrival,
    check_events,
    property_error,
    token_name,
    wrong_token_error,
)
from shared.events.topic import FieldMapping, InputSchema, Topic
from shared.http import HttpRequest

_SCHEMA = InputSchema.CUSTOM
_MAY_BE_EMPTY = frozenset({"subject", "dataVersion"})
_EVENT_IDS = uuid.UUID("b3d7a3a4-90c5-4c5e-8e0b-1b7f0c8d9e25")


def parse(request: HttpRequest, topic: Topic, arrival: Arrival) -> tuple[Event, ...]:
    """
    Read an array of objects, or a single one, and give each the envelope its topic maps it to.

    What is kept is an event in Event Grid's schema whose ``data`` is the whole object. A mapped
    field that is there wins over the default. Without both, ``id`` is a new id, the same when the
    publisher repeats its request, ``eventTime`` the time of the request, ``topic`` the topic's id;
    the others are required, and ``eventType`` is never empty.

    Raises:
        InvalidEvents: the first thing that is wrong with them.
        TooLarge: an event is too large.

    Source: Event Grid "Map custom fields to Event Grid schema" (contract §1.4).
    """
    value = strict_json.parse(request.body)
    if not isinstance(value, dict | list):
        raise wrong_token_error(_SCHEMA, "StartArray", token_name(value))
    events = check_events(_SCHEMA, value if isinstance(value, list) else [value], request)
    return tuple(_map_event(event, i, topic, arrival) for i, event in enumerate(events))


def _map_event(event: dict[str, Any], position: int, topic: Topic, arrival: Arrival) -> Event:
    mapping = topic.mapping
    event_time = _text(event, mapping.get("eventTime"), "eventTime") or timestamp(arrival.at)
    if not is_iso_8601(event_time):
        raise property_error(_SCHEMA, "eventTime", "to be a date and time in ISO 8601 form")
    made_up = uuid.uuid5(_EVENT_IDS, f"{arrival.publish_id}/{position}")
    envelope = {
        "id": _text(event, mapping.get("id"), "id") or str(made_up),
        "topic": _text(event, mapping.get("topic"), "topic") or topic.arm_id,
        "subject": _required(event, mapping.get("subject"), "subject"),
        "eventType": _required(event, mapping.get("eventType"), "eventType"),
        "eventTime": event_time,
        "data": event,
        "dataVersion": _required(event, mapping.get("dataVersion"), "dataVersion"),
        "metadataVersion": "1",
    }
    return Event(schema=_SCHEMA, members=envelope, text=dumps(envelope))


def _required(event: dict[str, Any], field: FieldMapping | None, name: str) -> str:
    text = _text(event, field, name)
    if text is None or (text == "" and name not in _MAY_BE_EMPTY):
        raise property_error(_SCHEMA, name)
    return text


def _text(event: dict[str, Any], field: FieldMapping | None, name: str) -> str | None:
    """Return the value of a mapped field, else its default; ``None`` without both."""
    if field is None:
        return None
    value = _find(event, field.source) if field.source else None
    if value is None:
        return field.default
    if isinstance(value, dict | list | bool):
        raise property_error(_SCHEMA, name, "to be a string")
    return value if isinstance(value, str) else dumps(value)


def _find(event: dict[str, Any], source: str) -> Any:
    """Return the field of that name or, where there is none, what the dotted path leads to."""
    if source in event:
        return event[source]
    value: Any = event
    for name in source.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value
