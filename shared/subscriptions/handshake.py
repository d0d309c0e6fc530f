"""Builds the challenge of the validation handshake, and judges the endpoint's answer."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import NamedTuple

from shared.clock import format_us_datetime, timestamp
from shared.errors import Fault, HandshakeFailed
from shared.http import MAX_ANSWER, Answered, Exchange, Failure, NotAnswered, OutboundRequest
from shared.subscriptions.destination import base_url
from shared.subscriptions.diagnosis import (
    ALLOWED_ORIGIN,
    AWAITED,
    Diagnosis,
    Reason,
    diagnosis,
    of_failure,
    of_status,
)
from shared.subscriptions.header_rules import static_headers
from shared.subscriptions.subscription import WEBHOOK_ORIGIN, DeliverySchema, EventSubscription
from shared.subscriptions.system_event import event_grid_request

TIME_LIMIT = timedelta(seconds=30)
RETRY_DELAY = timedelta(seconds=5)
MAX_ATTEMPTS = 3  # the real number is not published
LONGEST = MAX_ATTEMPTS * TIME_LIMIT + (MAX_ATTEMPTS - 1) * RETRY_DELAY
_RATE = re.compile(r"0*[1-9][0-9]{0,8}", re.ASCII)
_GZIP = b"\x1f\x8b"  # how it begins, whatever the header says
_OF_CORS = "access-control-"


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
            "OPTIONS",
            subscription.endpoint_url,
            headers,
            b"",
            subscription.destination.audience,
            wants_body=True,  # for its words
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


def judge_answer(asked: Challenge, exchange: Exchange) -> Granted | Diagnosis:
    """Return the consent in the answer to *asked*, or why there is none."""
    if asked.request.method == "OPTIONS":
        return _judge_options(asked, exchange)
    return _judge_post(asked, exchange)


def may_follow(asked: Challenge, found: Diagnosis) -> bool:
    """Tell whether the consent can still come through the link, after what was *found*."""
    return asked.has_link and found.reason in AWAITED


def refusal(
    asked: Challenge, found: Diagnosis, words: str, now: datetime, activity_id: str
) -> HandshakeFailed:
    """
    Return the error that tells whoever subscribes that there is no consent.

    Its details have the *words* of the endpoint, if there are any. By *now* and *activity_id* the
    operator finds it in the log.
    """
    help_page = "esvalidationcloudevent" if asked.request.method == "OPTIONS" else "esvalidation"
    message = (
        f"Webhook validation handshake failed for {base_url(asked.request.url)}. {found.why} "
        f"{found.remedy} For troubleshooting, visit https://aka.ms/{help_page}. "
        f"Activity id:{activity_id}, timestamp: {format_us_datetime(now)} (UTC)."
    )
    said = Fault(code="EndpointAnswer", message=f"The endpoint answered: {words}")
    faults = (Fault(code=HandshakeFailed.code, message=message), said) if words else ()
    return HandshakeFailed(message, faults=faults)


def parse_allowed_rate(header: str | None) -> int | None:
    """
    Parse ``WebHook-Allowed-Rate``, in requests a minute; ``None``: no limit, as for ``*``.

    Source: CloudEvents web hooks, section 4.2: a positive whole number, or the asterisk.
    """
    text = (header or "").strip()
    return int(text) if _RATE.fullmatch(text) else None


def _judge_post(asked: Challenge, exchange: Exchange) -> Granted | Diagnosis:
    # Other successes prove nothing: many servers accept every request.
    if isinstance(exchange, NotAnswered) or exchange.status != HTTPStatus.OK:
        return _not_granted(asked, exchange)
    answer = _json(exchange.body)
    returned = _validation_response(answer)
    if returned is None:
        return diagnosis(_where_the_code_is(asked.code, answer, exchange))
    is_ours = returned.casefold() == asked.code.casefold()
    return Granted() if is_ours else diagnosis(Reason.OTHER_CODE)


def _judge_options(asked: Challenge, exchange: Exchange) -> Granted | Diagnosis:
    if isinstance(exchange, NotAnswered):
        return _not_granted(asked, exchange)
    # The header alone expresses consent, whatever the status.
    allowed = exchange.headers.get(ALLOWED_ORIGIN.lower(), "").strip()
    if allowed == "*" or allowed.casefold() == WEBHOOK_ORIGIN:
        return Granted(parse_allowed_rate(exchange.headers.get("webhook-allowed-rate")))
    if allowed:
        return diagnosis(Reason.OTHER_ORIGIN)
    if exchange.status >= HTTPStatus.MULTIPLE_CHOICES:
        return _not_granted(asked, exchange)
    is_of_cors = any(name.startswith(_OF_CORS) for name in exchange.headers)
    return diagnosis(Reason.CORS if is_of_cors else Reason.NO_ORIGIN)


def _not_granted(asked: Challenge, exchange: Exchange) -> Diagnosis:
    method, url = asked.request.method, asked.request.url
    if isinstance(exchange, Answered):
        return of_status(method, url, exchange.status, _status_name(exchange.status))
    return of_failure(method, exchange)


def _status_name(status: int) -> str:
    """Return the name of *status* as in Event Grid's messages: NotFound, InternalServerError."""
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        return str(status)
    return "".join(filter(str.isalpha, phrase))


def _json(body: bytes) -> object:
    """Return what is in *body*; ``None``: no JSON."""
    try:
        return json.loads(body.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return None


def _validation_response(answer: object) -> str | None:
    members = answer.items() if isinstance(answer, dict) else ()
    for name, value in members:
        # An early sample of the documentation wrote ValidationResponse.
        if name.casefold() == "validationresponse" and isinstance(value, str):
            return value
    return None


def _where_the_code_is(code: str, answer: object, exchange: Answered) -> Reason:
    """Return why no ``validationResponse`` was read in the *answer*, a body of 200."""
    coding = exchange.headers.get("content-encoding", "identity").strip().lower()
    if answer is None and (coding != "identity" or exchange.body.startswith(_GZIP)):
        return Reason.COMPRESSED
    if answer is None and len(exchange.body) >= MAX_ANSWER:
        return Reason.TOO_LARGE
    if code.casefold() not in exchange.body.decode(errors="replace").casefold():
        return Reason.NO_CODE
    if isinstance(answer, list):
        # Who echoes the request returns an array as well, with the code as it was sent.
        echoes = b'"validationcode"' in exchange.body.lower()
        return Reason.NO_CODE if echoes else Reason.IN_ARRAY
    return Reason.OTHER_MEMBER if isinstance(answer, dict) else Reason.BARE
