"""Describes a failed attempt: Event Grid's record of it, and what is kept of the answer."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from http import HTTPStatus

from shared.clip import as_text, without_markup
from shared.clock import format_us_datetime, timestamp
from shared.delivery.delivery import Delivery
from shared.delivery.outcome import DeliveryOutcome, EndpointAnswer
from shared.events.event import event_id
from shared.http import Answered
from shared.subscriptions.destination import base_url
from shared.subscriptions.secrecy import Secrecy
from shared.subscriptions.subscription import DeliverySchema, EventSubscription

_SCHEMAS = {
    DeliverySchema.EVENT_GRID: "EventGridEvent",
    DeliverySchema.CLOUD_EVENTS: "CloudEventV10",
    DeliverySchema.CUSTOM_INPUT: "CustomInputEvent",
}
_FIELDS = (
    "InputEvent, EventSubscriptionId, DeliveryTime, State, Id, DeliverySchema, "
    "LastDeliveryAttemptTime, SystemId"
)

# Finding the secrets of a subscription takes most of the time.
_secrecy = lru_cache(maxsize=256)(Secrecy)

MOST_BODY = 2048  # bytes
MOST_HEADER = 256  # characters
HEADERS = (
    "content-type",
    "content-encoding",
    "location",
    "retry-after",
    "server",
    "via",
    "www-authenticate",
    "x-correlation-id",
    "x-ms-request-id",
    "x-request-id",
)


def delivery_failure(
    subscription: EventSubscription, delivery: Delivery, outcome: DeliveryOutcome, now: datetime
) -> dict[str, str]:
    """
    Return a record of the category ``DeliveryFailures``: of a batch, about its first event.

    *delivery* has its attempt counted. Neither the endpoint's query nor what it answered is in it.

    Source: contract §7.
    """
    began_at = delivery.last.at if delivery.last else now
    schema = _SCHEMAS[subscription.delivery_schema]
    values = {
        "outcome": outcome.outcome,
        "latencyInMs": round(outcome.seconds * 1000),
        "id": event_id(delivery.event) or "",
        "systemId": delivery.system_id(subscription.key),
        "state": "FilteredFailingDelivery",
        "deliveryTime": format_us_datetime(began_at),
        "deliveryCount": delivery.attempts - 1,
        "probationCount": 0,
        "deliverySchema": schema,
        "eventSubscriptionDeliverySchema": schema,
        "fields": _FIELDS,
        "publishTime": format_us_datetime(delivery.origin.published_at),
        "url": base_url(subscription.endpoint_url),
        "deliveryResponse": f"{outcome.outcome}: {_response(outcome.status)}",
    }
    return {
        "time": timestamp(now),
        "resourceId": subscription.topic_id.upper(),
        "eventSubscriptionName": subscription.name.upper(),
        "category": "DeliveryFailures",
        "operationName": "Deliver",
        "message": "Message:" + ", ".join(f"{name}={value}" for name, value in values.items()),
    }


def _response(status: int | None) -> str:
    if status is None:
        return "no answer"
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def endpoint_answer(
    answered: Answered, subscription: EventSubscription, system_id: str
) -> EndpointAnswer:
    """
    Return what is kept with the attempt of *system_id*; of HTML, its text.

    A header or body that repeats a secret of the subscription is withheld, and so is the query of
    a location (`Secrecy`).
    """
    secrecy = _secrecy(subscription)
    body = without_markup(answered.body, answered.headers.get("content-type", ""))
    return EndpointAnswer(
        of=system_id,
        headers={
            name: secrecy.header(name, answered.headers[name], MOST_HEADER)
            for name in HEADERS
            if name in answered.headers
        },
        body=secrecy.shown(as_text(body[:MOST_BODY]), MOST_BODY),
        is_truncated=len(body) > MOST_BODY,
    )
