"""Makes the checks that all input schemas share, with Event Grid's error messages."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from shared.clip import clip
from shared.errors import InvalidEvents, TooLarge
from shared.events import strict_json
from shared.events.data_plane import data_plane
from shared.events.literals import Number, dumps
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
    """The time of a publish request, and its id, which repeats of the request share."""

    at: datetime
    publish_id: str


def read_array(schema: InputSchema, request: HttpRequest) -> list[dict[str, Any]]:
    """
    Return the events of a body that is an array, or a single event.

    Raises:
        InvalidEvents, TooLarge: the body is no valid JSON, or as ``check_events``.
    """
    value = strict_json.parse(request.body)
    if not isinstance(value, dict | list):
        raise wrong_token_error(schema, "StartArray", token_name(value))
    return check_events(schema, value if isinstance(value, list) else [value], request)


def check_events(
    schema: InputSchema, events: list[Any], request: HttpRequest
) -> list[dict[str, Any]]:
    """
    Check number, type and size of the events of a request, and return them.

    The size of an event is that of its compact JSON in UTF-8. It is only measured if the whole body
    exceeds the limit of one event.

    Raises:
        InvalidEvents: no events, too many events, or an event that is not an object.
        TooLarge: an event is larger than 1 049 600 bytes.
    """
    if not events:
        raise wrong_token_error(schema, "StartObject", "EndArray")
    limit = data_plane(request).max_events
    if len(events) > limit:
        raise InvalidEvents(
            f"The request has {len(events)} events. The maximum number ({limit}) has been exceeded."
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
    """Return the name of the first token of a JSON value."""
    return _TOKENS[type(value)]


def wrong_token_error(schema: InputSchema, expected: str, actual: str) -> InvalidEvents:
    """Build the error about JSON of the wrong shape."""
    return InvalidEvents(
        f"This resource is configured to receive event in '{SCHEMA_NAMES[schema]}' schema. The"
        " JSON received does not conform to the expected schema."
        f" Token Expected: {expected}, Actual Token Received: {actual}."
    )


def unexpected_property_error(schema: InputSchema, name: str, remedy: str = "") -> InvalidEvents:
    """Build the error about a property that the schema does not have; *remedy* is a sentence."""
    return InvalidEvents(
        f"This resource is configured for '{SCHEMA_NAMES[schema]}' schema. Received unexpected"
        f" property '{clip(name)}' in JSON which does not conform to the expected schema."
        f"{remedy and ' '}{remedy}"
    )


def property_error(schema: InputSchema, name: str, what: str = "to be set") -> InvalidEvents:
    """Build the error about a property that is missing or does not meet its requirement *what*."""
    return InvalidEvents(
        f"This resource is configured for '{SCHEMA_NAMES[schema]}' schema"
        f" and requires '{clip(name)}' property {what}."
    )


def text_of(schema: InputSchema, name: str, value: object) -> str:
    """
    Return the value of a property as text: a number as it is spelt.

    Raises:
        InvalidEvents: it is a boolean, an object or an array.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, dict | list | bool):
        raise property_error(schema, name, "to be a string")
    return dumps(value)
