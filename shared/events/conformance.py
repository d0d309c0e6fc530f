"""What the input schemas have in common: Event Grid's words for what is wrong with an event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from shared.errors import InvalidEvents, TooLarge
from shared.events.event import Event
from shared.events.strict_json import dumps, utf8_size
from shared.events.topic import InputSchema

MAX_EVENTS = 5000
MAX_EVENT_BYTES = 1_049_600

_NAMES = {
    InputSchema.EVENT_GRID: "EventGridEvent",
    InputSchema.CLOUD_EVENTS: "CloudEventV10",
    InputSchema.CUSTOM: "CustomInputEvent",
}
_TOKENS = {dict: "StartObject", list: "StartArray", str: "String", bool: "Boolean"}
_TOKENS |= {int: "Integer", float: "Float", type(None): "Null"}


def schema_name(schema: InputSchema) -> str:
    """Return the data plane's name for a schema, as in ``aeg-input-event-schema``."""
    return _NAMES[schema]


def wrong_token(schema: InputSchema, expected: str, value: Any) -> InvalidEvents:
    """Say that something else was expected here. Source: contract §1.6."""
    return InvalidEvents(
        f"This resource is configured to receive event in '{_NAMES[schema]}' schema. The JSON "
        f"received does not conform to the expected schema. Token Expected: {expected}, "
        f"Actual Token Received: {_TOKENS[type(value)]}."
    )


def missing(schema: InputSchema, name: str) -> InvalidEvents:
    """Say which property is missing."""
    return InvalidEvents(
        f"This resource is configured for '{_NAMES[schema]}' schema and requires '{name}' "
        "property to be set."
    )


def unexpected(schema: InputSchema, name: str) -> InvalidEvents:
    """Say which property doesn't belong here."""
    return InvalidEvents(
        f"This resource is configured for '{_NAMES[schema]}' schema. Received unexpected property "
        f"'{name}' in JSON which does not conform to the expected schema."
    )


def invalid(schema: InputSchema, name: str, why: str) -> InvalidEvents:
    """Say what is wrong with the value of a property."""
    return InvalidEvents(
        f"This resource is configured for '{_NAMES[schema]}' schema. The value of property "
        f"'{name}' {why}."
    )


def objects(schema: InputSchema, value: Any) -> Sequence[Mapping[str, Any]]:
    """
    Return the events of a request's array.

    Raises:
        InvalidEvents: there is none, there are too many, or one of them is no object.
    """
    if not value:
        raise InvalidEvents(
            f"This resource is configured to receive event in '{_NAMES[schema]}' schema. "
            "The array of events is empty."
        )
    if len(value) > MAX_EVENTS:
        raise InvalidEvents(f"The request holds more than {MAX_EVENTS} events.")
    for each in value:
        if not isinstance(each, dict):
            raise wrong_token(schema, "StartObject", each)
    return list(value)


def event(schema: InputSchema, members: Mapping[str, Any]) -> Event:
    """
    Make the event of its stamped members.

    Raises:
        TooLarge: it is larger than an event may be.
    """
    text = dumps(members)
    # ASCII JSON is never shorter than UTF-8: only what looks too large is measured as it came.
    if len(text) > MAX_EVENT_BYTES and utf8_size(members) > MAX_EVENT_BYTES:
        raise TooLarge(f"The maximum size ({MAX_EVENT_BYTES}) has been exceeded.")
    return Event(schema=schema, members=members, text=text)


def is_date_time(value: Any) -> bool:
    """Tell whether a value is an ISO 8601 date and time. Without an offset it is taken as UTC."""
    if not isinstance(value, str) or len(value) < len("2026-01-01T00:00") or value[10] not in "Tt ":
        return False
    try:
        datetime.fromisoformat(value.upper())
    except ValueError:
        return False
    return True
