"""Topics, publish requests, events and signatures for tests, valid by default."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import pytest

from shared.errors import AppError
from shared.events.event import Event
from shared.events.publish_http import read_events
from shared.events.schema_rules import Arrival
from shared.events.topic import InputSchema, Topic
from shared.http import HttpRequest
from tests import builders
from tests.builders import KEY

NOW = datetime(2025, 1, 2, 3, 4, 5, tzinfo=UTC)
ARRIVAL = Arrival(NOW, "8d3f2c1b0a9e4d7c8b6a5f4e3d2c1b0a")
KEY2 = "+/+/MzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
URL = "https://orders.local-1.eventgrid.azure.net/api/events"
BATCH = "application/cloudevents-batch+json; charset=utf-8"
STRUCTURED = "application/cloudevents+json; charset=utf-8"


def a_topic(schema: InputSchema = InputSchema.EVENT_GRID) -> Topic:
    return builders.a_topic(input_schema=schema, keys=(builders.KEY, KEY2))


def a_request(
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
    *,
    url: str = URL,
    query: Mapping[str, str] | None = None,
) -> HttpRequest:
    return HttpRequest(method="POST", url=url, headers=headers or {}, query=query or {}, body=body)


def members(**changes: Any) -> dict[str, Any]:
    """Make an event of the EventGridSchema as published; a member that is ``...`` is left out."""
    unstamped = builders.members(topic=..., dataVersion=..., metadataVersion=...)
    return _with_changes(unstamped, changes)


def cloud_members(**changes: Any) -> dict[str, Any]:
    """Make a CloudEvent; an attribute that is ``...`` is left out."""
    event = {"id": "1", "source": "/shop", "type": "Shop.OrderPlaced", "specversion": "1.0"}
    return _with_changes(event, changes)


def _with_changes(event: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in {**event, **changes}.items() if value is not ...}


def body_of(value: object) -> bytes:
    return builders.compact(value).encode()


def read_grid(body: bytes, **headers: str) -> tuple[Event, ...]:
    return read_events(a_request(body, headers), a_topic(), ARRIVAL)


def read_cloud(body: bytes, content_type: str = BATCH, **headers: str) -> tuple[Event, ...]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = a_request(body, {"content-type": content_type, **named})
    return read_events(request, a_topic(InputSchema.CLOUD_EVENTS), ARRIVAL)


def refusal(read: Any, *arguments: Any, **named: Any) -> tuple[int, str, str, str]:
    """Return how it is refused: status, code, code of the detail, message."""
    with pytest.raises(AppError) as caught:
        read(*arguments, **named)
    error = caught.value
    return error.status, error.code, error.faults[0].code, error.message


def bad_json(message: str) -> tuple[int, str, str, str]:
    return 400, "BadRequest", "InputJsonInvalid", message


def requires(schema: str, name: str, what: str) -> str:
    return (
        f"This resource is configured for '{schema}' schema and requires '{name}' property {what}."
    )


def unexpected(schema: str, name: str) -> str:
    return (
        f"This resource is configured for '{schema}' schema. Received unexpected property '{name}'"
        " in JSON which does not conform to the expected schema."
    )


def expected(schema: str, token: str, actual: str) -> str:
    return (
        f"This resource is configured to receive event in '{schema}' schema. The JSON received does"
        f" not conform to the expected schema. Token Expected: {token}, Actual Token Received:"
        f" {actual}."
    )


# Contract §1.7. The first was made by the official client.
VECTORS = {
    "python": "r=https%3A%2F%2Forders.local-1.eventgrid.azure.net%2Fapi%2Fevents%3FapiVersion%3D"
    "2018-01-01&e=2030-01-01%2000%3A00%3A00%2B00%3A00"
    "&s=QESh36VGyCwmRtrxTNL5EtqRDRnC%2F3YlBoFejqozKuo%3D",
    ".net": "r=https%3a%2f%2forders.local-1.eventgrid.azure.net%2fapi%2fevents%3fapi-version%3d"
    "2018-01-01&e=1%2f1%2f2030+12%3a00%3a00+AM+%2b00%3a00"
    "&s=CqUghN%2fGtV8kk3DAcV9Szk2Q8H8wgzh6YLGw4WeDwno%3d",
    "js": "r=https%3A%2F%2Forders.local-1.eventgrid.azure.net%2Fapi%2Fevents%3FapiVersion%3D"
    "2018-01-01&e=1%2F1%2F2030%2012%3A00%3A00%20AM"
    "&s=EtMtDTgrqOQx628C2D%2Fmw%2FZL4uWGM1UhQJCwOZlhArY%3D",
    "docs": "r=https%3A%2F%2Forders.local-1.eventgrid.azure.net%2Fapi%2Fevents"
    "&e=2030-01-01T00%3A00%3A00Z&s=kGeHtqXIyvnJE4a6XTfFkYto6LgI4bg9HItGFEpdgdo%3D",
}


def sign(resource: str = URL, expiry: str = "2030-01-01T00:00:00Z", key: str = KEY) -> str:
    return seal(f"r={quote(resource, safe='')}&e={quote(expiry, safe='')}", key)


def seal(signed: str, key: str = KEY) -> str:
    value = hmac.new(b64decode(key), signed.encode(), hashlib.sha256).digest()
    return f"{signed}&s={quote(b64encode(value), safe='')}"
