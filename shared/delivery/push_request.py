"""The request that brings an event to a subscriber."""

from __future__ import annotations

import json

from shared.delivery.conversion import convert
from shared.delivery.parcel import Parcel
from shared.http import OutboundRequest
from shared.subscriptions.subscription import ORIGIN, DeliverySchema, EventSubscription

MAX_HEADER = 1024  # characters of a value that comes from an event: a longer one is left out


def push_request(subscription: EventSubscription, parcel: Parcel) -> OutboundRequest:
    """
    Build the request for the next attempt of the parcel's deliveries.

    ``aeg-delivery-count`` counts the attempts made before: the first delivery says 0.
    Source: contract §2.1 (headers) and §2.2 (bodies).
    """
    ((delivery, text),) = parcel
    body = convert(text, subscription.input_schema, subscription.delivery_schema)
    headers = {
        "aeg-event-type": "Notification",
        "aeg-subscription-name": subscription.name.upper(),
        "aeg-delivery-count": str(delivery.attempts),
        "aeg-output-event-id": delivery.system_id(subscription.topic, subscription.name),
    }
    if subscription.delivery_schema is DeliverySchema.CLOUD_EVENTS:
        headers |= {
            "Content-Type": "application/cloudevents+json; charset=utf-8",
            "aeg-metadata-version": "1.0",
            "WebHook-Request-Origin": ORIGIN,
        }
    else:
        data_version = str(json.loads(body).get("dataVersion", ""))
        headers |= {
            "Content-Type": "application/json; charset=utf-8",
            "aeg-metadata-version": "1",
        }
        if _fits_a_header(data_version):
            headers["aeg-data-version"] = data_version
        body = f"[{body}]"
    return OutboundRequest("POST", subscription.endpoint_url, headers, _utf8(body))


def _fits_a_header(value: str) -> bool:
    return len(value) <= MAX_HEADER and value.isascii() and value.isprintable()


def _utf8(body: str) -> bytes:
    """Return the JSON without escapes that UTF-8 doesn't need: they would treble some texts."""
    if "\\u" in body:
        body = json.dumps(json.loads(body), ensure_ascii=False, separators=(",", ":"))
    return body.encode()
