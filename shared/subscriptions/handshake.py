"""The validation handshake: what an endpoint is asked before it gets events, and what proves it."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import NamedTuple

from shared.clock import format_us_datetime, timestamp
from shared.errors import HandshakeFailed
from shared.http import Answered, Exchange, Failure, NotAnswered, OutboundRequest
from shared.subscriptions.endpoint_rules import base_url
from shared.subscriptions.header_rules import static_headers
from shared.subscriptions.subscription import WEBHOOK_ORIGIN, DeliverySchema, EventSubscription

TIME_LIMIT = timedelta(seconds=30)
RETRY_DELAY = timedelta(seconds=5)
MAX_ATTEMPTS = 3  # how many is not published
_RATE = re.compile(r"0*[1-9][0-9]{0,8}", re.ASCII)
_HOW_TO_ALLOW = (
    "The app's settings PUSHGRID_ALLOWED_NETWORKS and PUSHGRID_ALLOW_HTTP say which addresses "
    "besides public ones it may call, and whether without TLS."
)


class Challenge(NamedTuple):
    """
    What is sent to an endpoint. *code* is what it has to give back.

    An endpoint of CloudEvents has to name our origin instead; its *code* is empty. With *has_link*
    it may also say nothing yet, and somebody opens the link later.
    """

    request: OutboundRequest
    code: str
    has_link: bool


class Verdict(NamedTuple):
    """
    The endpoint consents, to at most *rate* requests a minute if that is set.

    *is_pending*: its answer says neither yes nor no, so consent can still come through the link.
    """

    is_pending: bool
    rate: int | None = None


class FailureReference(NamedTuple):
    """When a handshake failed, and under which id the operator finds it."""

    at: datetime
    activity_id: str


def build_challenge(
    subscription: EventSubscription, *, code: str, event_id: str, now: datetime, link: str | None
) -> Challenge:
    """
    Build the request that asks the endpoint of *subscription* for its consent.

    *link* is the URL by which somebody can consent later; ``None``: there is no such way. Static
    headers go along: they may be what lets a request in at all.

    Source: Event Grid "Webhook endpoint validation" with the Event Grid schema (2024-09-25) and
    the CloudEvents schema (2023-09-25); CloudEvents "Web hooks for event delivery", section 4.
    """
    if subscription.delivery_schema is DeliverySchema.CLOUD_EVENTS:
        headers = {"WebHook-Request-Origin": WEBHOOK_ORIGIN}
        if link:
            headers["WebHook-Request-Callback"] = link
        headers |= static_headers(subscription.headers)
        options = OutboundRequest(
            "OPTIONS", subscription.endpoint_url, headers, b"", subscription.audience
        )
        return Challenge(options, "", has_link=link is not None)
    event = {
        "id": event_id,
        "topic": subscription.topic_id,
        "subject": "",
        "eventType": "Microsoft.EventGrid.SubscriptionValidationEvent",
        "eventTime": timestamp(now),
        "metadataVersion": "1",
        "dataVersion": "1",
        "data": {"validationCode": code} | ({"validationUrl": link} if link else {}),
    }
    headers = {
        "Content-Type": "application/json; charset=utf-8",
        "aeg-event-type": "SubscriptionValidation",
        "aeg-subscription-name": subscription.name.upper(),
        "aeg-delivery-count": "0",
        "aeg-data-version": "1",
        "aeg-metadata-version": "1",
    } | static_headers(subscription.headers)
    body = json.dumps([event], separators=(",", ":")).encode()
    post = OutboundRequest(
        "POST",
        subscription.endpoint_url,
        headers,
        body,
        subscription.audience,
        wants_body=True,
    )
    return Challenge(post, code, has_link=link is not None)


def should_retry(exchange: Exchange) -> bool:
    """
    Tell whether the endpoint kept silent; any other failure is known at once, and is told at once.

    Source: "A request that gives no answer in 30 s is cancelled and retried after 5 s."
    """
    return isinstance(exchange, NotAnswered) and exchange.failure is Failure.TIMED_OUT


def judge_answer(asked: Challenge, exchange: Exchange, failed: FailureReference) -> Verdict:
    """
    Accept the endpoint, leave it to the link, or say why not.

    Raises:
        HandshakeFailed: the endpoint does not want events, or can't be asked.
    """
    is_options = asked.request.method == "OPTIONS"
    judged = _judge_options(exchange) if is_options else _judge_post(asked.code, exchange)
    if judged is None and asked.has_link:
        return Verdict(is_pending=True)
    if judged is None:
        judged = "The endpoint answered without consenting."
    if isinstance(judged, Verdict):
        return judged
    help_page = "esvalidationcloudevent" if is_options else "esvalidation"
    raise HandshakeFailed(
        f"Webhook validation handshake failed for {base_url(asked.request.url)}. {judged} "
        f"For troubleshooting, visit https://aka.ms/{help_page}. "
        f"Activity id:{failed.activity_id}, timestamp: {format_us_datetime(failed.at)} (UTC)."
    )


def parse_allowed_rate(header: str | None) -> int | None:
    """
    Read ``WebHook-Allowed-Rate``: requests a minute; ``None`` where it sets no limit, as ``*``.

    Source: CloudEvents web hooks, section 4.2: a positive whole number, or the asterisk.
    """
    text = (header or "").strip()
    return int(text) if _RATE.fullmatch(text) else None


def _judge_post(code: str, exchange: Exchange) -> Verdict | str | None:
    """Judge the answer to a POST: a verdict, what is wrong, or ``None`` if it says nothing."""
    # Any other success is no proof: many servers accept whatever they are sent.
    if isinstance(exchange, NotAnswered) or exchange.status != HTTPStatus.OK:
        return _refusal_reason("POST", exchange)
    returned = _validation_response(exchange.body)
    if returned is None:
        return None
    if returned.casefold() != code.casefold():
        return "The endpoint returned a validationResponse that is not the validationCode."
    return Verdict(is_pending=False)


def _judge_options(exchange: Exchange) -> Verdict | str | None:
    """Judge the answer to OPTIONS, likewise."""
    if isinstance(exchange, NotAnswered):
        return _refusal_reason("OPTIONS", exchange)
    # The status says nothing: consent lies in the header alone.
    allowed = exchange.headers.get("webhook-allowed-origin", "").strip()
    if allowed == "*" or allowed.casefold() == WEBHOOK_ORIGIN:
        rate = parse_allowed_rate(exchange.headers.get("webhook-allowed-rate"))
        return Verdict(is_pending=False, rate=rate)
    if allowed:
        return f"The answer's WebHook-Allowed-Origin is neither {WEBHOOK_ORIGIN} nor *."
    if exchange.status >= HTTPStatus.MULTIPLE_CHOICES:
        return _refusal_reason("OPTIONS", exchange)
    return None


def _refusal_reason(method: str, exchange: Exchange) -> str:
    if isinstance(exchange, Answered):
        code = _status_name(exchange.status)
    else:
        code = f"Unknown ({exchange.failure})"
    reason = f"Http {method} request failed with response code {code}."
    if isinstance(exchange, NotAnswered) and exchange.failure is Failure.NOT_ALLOWED:
        return f"{reason} {_HOW_TO_ALLOW}"
    if isinstance(exchange, NotAnswered) and exchange.failure is Failure.UNAUTHORIZED:
        return f"{reason} The app's log says why Entra ID gave none."
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
