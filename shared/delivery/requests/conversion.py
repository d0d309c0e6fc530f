"""Converts events to the delivery schema, and to the bytes of a request's body."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from shared.events.iso_8601 import as_rfc_3339
from shared.events.literals import dumps, dumps_unicode, loads
from shared.events.topic import InputSchema
from shared.subscriptions.subscription import DeliverySchema, EventSubscription

_OF_FRAGMENTS = "!$&'()*+,;=:@/?"  # RFC 3986, 3.5, beside letters, digits and -._~

Members = Mapping[str, Any]


def convert(text: str, given: InputSchema, wanted: DeliverySchema) -> str:
    """Return the event's JSON in the delivery schema; unchanged if the schemas are equal."""
    conversion = _CONVERSIONS.get((given, wanted))
    if conversion is None:
        return text
    return dumps(conversion(loads(text)))


def event_body(subscription: EventSubscription, text: str) -> bytes:
    """
    Return the event's bytes in a request: in the delivery schema, as UTF-8.

    Events are stored as ASCII; its escapes would treble the size of some.
    """
    body = convert(text, subscription.input_schema, subscription.delivery_schema)
    if "\\u" in body:
        body = dumps_unicode(loads(body))
    return body.encode()


def _event_grid_to_cloud_events(event: Members) -> Members:
    """
    Map field by field. Source: contract §5.6.

    In CloudEvents a subject is never empty, a time has seconds and an offset, and a data schema is
    a URI (v1.0.2, 3.1).
    """
    converted = {
        "specversion": "1.0",
        "id": event["id"],
        "source": event["topic"],
        "type": event["eventType"],
        "time": as_rfc_3339(event["eventTime"]),
    }
    if event["subject"]:
        converted["subject"] = event["subject"]
    converted["dataschema"] = f"#{quote(event['dataVersion'], safe=_OF_FRAGMENTS)}"
    return converted | ({"data": event["data"]} if "data" in event else {})


def _as_published(event: Members) -> Any:
    """Return the event as its publisher sent it in a custom schema. Source: contract §1.4."""
    return event["data"]


_CONVERSIONS: Mapping[tuple[InputSchema, DeliverySchema], Callable[[Members], Any]] = {
    (InputSchema.EVENT_GRID, DeliverySchema.CLOUD_EVENTS): _event_grid_to_cloud_events,
    (InputSchema.CUSTOM, DeliverySchema.CLOUD_EVENTS): _event_grid_to_cloud_events,
    (InputSchema.CUSTOM, DeliverySchema.CUSTOM_INPUT): _as_published,
}
