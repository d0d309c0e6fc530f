"""What every input schema asks of a body and of its events, in Event Grid's words."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from shared.errors import InvalidEvents, TooLarge
from shared.events import strict_json
from shared.events.data_plane import data_plane
from shared.events.literals import Number
from shared.events.topic import InputSchema
from shared.http import HttpRequest

MAX_EVENT_SIZE = 1_049_600  # bytes, as observed; documented is 1 MB

SCHEMA_NAMES: Mapping[InputSchema, str] = {
    InputSchema.EVENT_GRID: "EventGridEvent",
    InputSchema.CLOUD_EVENTS: "CloudEventV10",
    InputSchema.CUSTOM: "CustomInputEvent",
}

_TOKENS: Mapping[type, str] = {
    dict: "StartObject",
    list: "StartArray",
    str: "String",
    bool: "Boolean",
    int: "Integer",
    float: "Float",
    Number: "Float",
    type(None): "Null",
}


class Arrival(NamedTuple):
    """When a publish request came, and its id: the same when the publisher repeats it."""

    at: datetime
    publish_id: str


def check_events(
    schema: InputSchema, events: list[Any], request: HttpRequest
) -> list[dict[str, Any]]:
    """
    Check the events of a request as a whole, and return them.

    A body that is no larger than an event may be has no event that is. Otherwise each counts as
    compact UTF-8, as published.

    Raises:
        InvalidEvents: there is none, there are too many, or one is not an object.
        TooLarge: one is larger than 1 049 600 bytes.
    """
    if not events:
        raise wrong_token_error(schema, "StartObject", "EndArray")
    most = data_plane(request).max_events
    if len(events) > most:
        raise InvalidEvents(
            f"The request has {len(events)} events. The maximum number ({most}) has been exceeded."
        )
    for event in events:
        if not isinstance(event, dict):
            raise wrong_token_error(schema, "StartObject", token_name(event))
    if len(request.body) > MAX_EVENT_SIZE and any(
        strict_json.size(e) > MAX_EVENT_SIZE for e in events
    ):
        raise TooLarge(f"The maximum size ({MAX_EVENT_SIZE}) has been exceeded.")
    return events


def token_name(value: object) -> str:
    """Name the first token of a JSON value."""
    return _TOKENS[type(value)]


def wrong_token_error(schema: InputSchema, expected: str, actual: str) -> InvalidEvents:
    """Say that the JSON has another shape than the schema."""
    return InvalidEvents(
        f"This resource is configured to receive event in '{SCHEMA_NAMES[schema]}' schema. The"
        " JSON received does not conform to the expected schema."
        f" Token Expected: {expected}, Actual Token Received: {actual}."
    )


def unexpected_property_error(schema: InputSchema, name: str) -> InvalidEvents:
    """Say that the schema has no property *name*."""
    return InvalidEvents(
        f"This resource is configured for '{SCHEMA_NAMES[schema]}' schema. Received unexpected"
        f" property '{clip(name)}' in JSON which does not conform to the expected schema."
    )


def property_error(schema: InputSchema, name: str, what: str = "to be set") -> InvalidEvents:
    """Say what the schema requires of the property *name*: by default that it is there."""
    return InvalidEvents(
        f"This resource is configured for '{SCHEMA_NAMES[schema]}' schema"
        f" and requires '{clip(name)}' property {what}."
    )


def clip(text: str, longest: int = 256) -> str:
    """Shorten what publishers wrote before it is quoted to them."""
    return text if len(text) <= longest else f"{text[:longest]}…"
