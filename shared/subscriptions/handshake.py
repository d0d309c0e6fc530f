"""Builds the challenge of the validation handshake, and judges the endpoint's answer."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import NamedTuple

from shared.clock import format_us_datetime, timestamp
from shared.errors import HandshakeFailed
from shared.http import Answered, Exchange, Failure, NotAnswered, OutboundRequest
from shared.subscriptions.destination import base_url
from shared.subscriptions.header_rules import static_headers
from shared.subscriptions.subscription import WEBHOOK_ORIGIN, DeliverySchema, EventSubscription
from shared.subscriptions.system_event import event_grid_request

TIME_LIMIT = timedelta(seconds=30)
RETRY_DELAY = timedelta(seconds=5)
MAX_ATTEMPTS = 3  # the real number is not published
_RATE = re.compile(r"0*[1-9][0-9]{0,8}", re.ASCII)
_NO_TOKEN = frozenset({Failure.UNAUTHORIZED, Failure.NO_AUTHORITY})
_HOW_TO_ALLOW = (
    "The app's settings PUSHGRID_ALLOWED_NETWORKS and PUSHGRID_ALLOW_HTTP allow addresses that are "
    "not public and endpoints without TLS. No setting allows the platform's own addresses, such as "
    "169.254.0.0/16 and 168.63.129.16."
)


class Challenge(NamedTuple):
    """
    The request to an endpoint, which has to return a code.

    A CloudEvents endpoint has to allow our origin instead; its code is empty.
    """

    request: OutboundRequest
    code: str
    has_link: bool  # it can also consent later through a validation link


class Granted(NamedTuple):
    """The endpoint consents."""

    rate: int | None = None  # the most requests a minute; ``None``: no limit


def build_challenge(
    subscription: EventSubscription, *, code: str, event_id: str, now: datetime, link: str | None
) -> Challenge:
    """
    Build the request that asks the endpoint of *subscription* for its consent.

    *link* is the validation link; ``None``: there is none. Static headers are included, because
    the endpoint may require them.

    Source: Event Grid "Webhook endpoint validation" with the Event Grid schema (2024-09-25) and
    the CloudEvents schema (2023-09-25); CloudEvents "Web hooks for event delivery", section 4.
    """
    if subscription.delivery_schema is DeliverySchema.CLOUD_EVENTS:
        headers = {"WebHook-Request-Origin": WEBHOOK_ORIGIN}
        if link:
            headers["WebHook-Request-Callback"] = link
        headers |= static_headers(subscription.headers)
        options = OutboundRequest(
            "OPTIONS", subscription.endpoint_url, headers, b"", subscription.destination.audience
        )
        return Challenge(options, "", has_link=link is not None)
    event = {
        "id": event_id,
        "eventType": "Microsoft.EventGrid.SubscriptionValidationEvent",
        "eventTime": timestamp(now),
        "data": {"validationCode": code} | ({"validationUrl": link} if link else {}),
    }
    post = event_grid_request(subscription, "SubscriptionValidation", event)
    return Challenge(post._replace(wants_body=True), code, has_link=link is not None)


def should_retry(exchange: Exchange) -> bool:
    """
    Tell whether the endpoint timed out, its only failure that is retried, or we failed.

    Source: "A request that gives no answer in 30 s is cancelled and retried after 5 s."
    """
    retried = (Failure.TIMED_OUT, Failure.SHORTAGE)
    return isinstance(exchange, NotAnswered) and exchange.failure in retried


def judge_answer(
    asked: Challenge, exchange: Exchange, now: datetime, activity_id: str
) -> Granted | None:
    """
    Return the consent in the answer to *asked*; ``None``: it can still come through the link.

    By *now* and *activity_id* the operator finds a failure in the log.

    Raises:
        HandshakeFailed: the endpoint does not consent, or could not be reached.
    """
    is_options = asked.request.method == "OPTIONS"
    judged = _judge_options(exchange) if is_options else _judge_post(asked.code, exchange)
    if judged is None and not asked.has_link:
        judged = "The endpoint answered without consenting."
    if not isinstance(judged, str):
        return judged
    help_page = "esvalidationcloudevent" if is_options else "esvalidation"
    raise HandshakeFailed(
        f"Webhook validation handshake failed for {base_url(asked.request.url)}. {judged} "
        f"For troubleshooting, visit https://aka.ms/{help_page}. "
        f"Activity id:{activity_id}, timestamp: {format_us_datetime(now)} (UTC)."
    )


def parse_allowed_rate(header: str | None) -> int | None:
    """
    Parse ``WebHook-Allowed-Rate``, in requests a minute; ``None``: no limit, as for ``*``.

    Source: CloudEvents web hooks, section 4.2: a positive whole number, or the asterisk.
    """
    text = (header or "").strip()
    return int(text) if _RATE.fullmatch(text) else None


def _judge_post(code: str, exchange: Exchange) -> Granted | str | None:
    """Judge the answer to POST: consent, the reason of a refusal, or ``None`` for neither."""
    # Other successes prove nothing: many servers accept every request.
    if isinstance(exchange, NotAnswered) or exchange.status != HTTPStatus.OK:
        return _refusal_reason("POST", exchange)
    returned = _validation_response(exchange.body)
    if returned is None:
        return None
    if returned.casefold() != code.casefold():
        return "The endpoint returned a validationResponse that is not the validationCode."
    return Granted()


def _judge_options(exchange: Exchange) -> Granted | str | None:
    """Judge the answer to OPTIONS in the same way."""
    if isinstance(exchange, NotAnswered):
        return _refusal_reason("OPTIONS", exchange)
    # The header alone expresses consent, whatever the status.
    allowed = exchange.headers.get("webhook-allowed-origin", "").strip()
    if allowed == "*" or allowed.casefold() == WEBHOOK_ORIGIN:
        return Granted(parse_allowed_rate(exchange.headers.get("webhook-allowed-rate")))
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
    if isinstance(exchange, NotAnswered) and exchange.failure in _NO_TOKEN:
        return f"{reason} The app's log has the answer of Entra ID."
    return reason


def _status_name(status: int) -> str:
    """Return the name of *status* as in Event Grid's messages: NotFound, InternalServerError."""
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
