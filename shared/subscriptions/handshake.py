"""The validation handshake: what an endpoint is asked before it gets events, and what proves it."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import NamedTuple

from shared.clock import american, timestamp
from shared.errors import HandshakeFailed
from shared.http import Answered, Exchange, Failure, NotAnswered, OutboundRequest
from shared.subscriptions.delivery_attributes import static_values
from shared.subscriptions.endpoint_rules import base_url
from shared.subscriptions.subscription import ORIGIN, DeliverySchema, EventSubscription

TIME_LIMIT = timedelta(seconds=30)
PAUSE = timedelta(seconds=5)
TRIES = 3  # how many is not published
_HOW_TO_ALLOW = (
    "The app's settings PUSHGRID_ALLOWED_NETWORKS and PUSHGRID_ALLOW_HTTP say which addresses "
    "besides public ones it may call, and whether without TLS."
)


class Challenge(NamedTuple):
    """
    What is sent to an endpoint. *code* is what it has to give back.

    An endpoint of CloudEvents has to name our origin instead; its *code* is empty.
    """

    request: OutboundRequest
    code: str


class Failed(NamedTuple):
    """When a handshake failed, and under which id the operator finds it."""

    at: datetime
    activity_id: str


def challenge(
    subscription: EventSubscription, *, code: str, event_id: str, now: datetime
) -> Challenge:
    """
    Build the request that asks the endpoint of *subscription* for its consent.

    Its static headers go along: they may be what lets a request in at all.

    Source: Event Grid "Webhook endpoint validation" with the Event Grid schema (2024-09-25) and
    the CloudEvents schema (2023-09-25); CloudEvents "Web hooks for event delivery", section 4.
    """
    if subscription.delivery_schema is DeliverySchema.CLOUD_EVENTS:
        headers = {"WebHook-Request-Origin": ORIGIN} | static_values(subscription.headers)
        return Challenge(OutboundRequest("OPTIONS", subscription.endpoint_url, headers, b""), "")
    event = {
        "id": event_id,
        "topic": subscription.topic_id,
        "subject": "",
        "eventType": "Microsoft.EventGrid.SubscriptionValidationEvent",
        "eventTime": timestamp(now),
        "metadataVersion": "1",
        "dataVersion": "1",
        "data": {"validationCode": code},
    }
    headers = {
        "Content-Type": "application/json; charset=utf-8",
        "aeg-event-type": "SubscriptionValidation",
        "aeg-subscription-name": subscription.name.upper(),
        "aeg-delivery-count": "0",
        "aeg-data-version": "1",
        "aeg-metadata-version": "1",
    } | static_values(subscription.headers)
    body = json.dumps([event], separators=(",", ":")).encode()
    return Challenge(OutboundRequest("POST", subscription.endpoint_url, headers, body), code)


def is_worth_repeating(exchange: Exchange) -> bool:
    """
    Tell whether the endpoint kept silent; any other failure is known at once, and is told at once.

    Source: "A request that gives no answer in 30 s is cancelled and retried after 5 s."
    """
    return isinstance(exchange, NotAnswered) and exchange.failure is Failure.TIMED_OUT


def judge(asked: Challenge, exchange: Exchange, failed: Failed) -> None:
    """
    Accept the endpoint, or say why not.

    Raises:
        HandshakeFailed: the endpoint did not prove that it wants events.
    """
    is_options = asked.request.method == "OPTIONS"
    reason = _refused_origin(exchange) if is_options else _refused_code(asked.code, exchange)
    if reason is not None:
        help_page = "esvalidationcloudevent" if is_options else "esvalidation"
        raise HandshakeFailed(
            f"Webhook validation handshake failed for {base_url(asked.request.url)}. {reason} "
            f"For troubleshooting, visit https://aka.ms/{help_page}. "
            f"Activity id:{failed.activity_id}, timestamp: {american(failed.at)} (UTC)."
        )


def _refused_code(code: str, exchange: Exchange) -> str | None:
    # Any other success is no proof: many servers accept whatever they are sent.
    if isinstance(exchange, NotAnswered) or exchange.status != HTTPStatus.OK:
        return _bad_response("POST", exchange)
    returned = _validation_response(exchange.body)
    if returned is None:
        return (
            "The endpoint answered OK without a validationResponse. "
            "Manual validation is not supported: the answer must return the validationCode."
        )
    if returned.casefold() != code.casefold():
        return "The endpoint returned a validationResponse that is not the validationCode."
    return None


def _refused_origin(exchange: Exchange) -> str | None:
    if isinstance(exchange, NotAnswered):
        return _bad_response("OPTIONS", exchange)
    # The status says nothing: consent lies in the header alone.
    allowed = exchange.headers.get("webhook-allowed-origin", "").strip()
    if allowed == "*" or allowed.casefold() == ORIGIN:
        return None
    if not allowed and exchange.status >= HTTPStatus.MULTIPLE_CHOICES:
        return _bad_response("OPTIONS", exchange)
    return f"The answer's WebHook-Allowed-Origin is neither {ORIGIN} nor *."


def _bad_response(method: str, exchange: Exchange) -> str:
    if isinstance(exchange, Answered):
        code = _status_name(exchange.status)
    else:
        code = f"Unknown ({exchange.failure})"
    reason = f"Http {method} request failed with response code {code}."
    if isinstance(exchange, NotAnswered) and exchange.failure is Failure.NOT_ALLOWED:
        return f"{reason} {_HOW_TO_ALLOW}"
    return reason


def _status_name(status: int) -> str:
    """Return the name of a status as Event Grid writes it: NotFound, InternalServerError."""
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        return str(status)
    return "".join(filter(str.isalpha, phrase))


def _validation_response(body: bytes) -> str | None:
    try:
        answer = json.loads(body.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return None
    members = answer.items() if isinstance(answer, dict) else ()
    for name, value in members:
        # An early sample of the documentation wrote ValidationResponse.
        if name.casefold() == "validationresponse" and isinstance(value, str):
            return value
    return None
