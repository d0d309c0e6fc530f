"""
Validates endpoints: no event is sent before the endpoint has consented.

It does in its answer to the handshake, or later: a person opens the link that it got, or it calls
that link itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from http import HTTPStatus
from urllib.parse import urlsplit

from shared import telemetry
from shared.arm.consent import (
    VALID_FOR,
    Awaited,
    Consent,
    Link,
    allowed_rate,
    has_expired,
    in_force,
    matches_secret,
    parse_link,
    with_consent_granted,
)
from shared.arm.subscription_codec import is_readable, to_subscription
from shared.clock import Clock
from shared.delivery.outcome import endpoint_answer
from shared.engine.manage.writing import DocumentKey, write
from shared.engine.ports import Document, Resource, ResourceStore, Table
from shared.errors import (
    AppError,
    Conflict,
    InvalidDocument,
    NotFound,
    StorageUnavailable,
    UnreadableDocument,
)
from shared.http import Answered, Exchange, HttpAnswer, HttpRequest, OutboundRequest
from shared.races import Backoff
from shared.subscriptions.destination import (
    Destination,
    EndpointType,
    base_url,
    is_on_loopback,
)
from shared.subscriptions.diagnosis import while_awaited
from shared.subscriptions.handshake import (
    LONGEST,
    MAX_ATTEMPTS,
    RETRY_DELAY,
    TIME_LIMIT,
    Challenge,
    Granted,
    build_challenge,
    judge_answer,
    may_follow,
    parse_allowed_rate,
    refusal,
    should_retry,
)
from shared.subscriptions.subscription import EventSubscription, SubscriptionKey
from shared.telemetry import Field

# Sends a request to an endpoint, and waits for the response headers for so long. Never raises.
Send = Callable[[OutboundRequest, timedelta], Exchange]

_URL_SAFE = str.maketrans("+/", "-_", "=")
_UNKNOWN = (
    "This validation link is not known. It works once, and only until the event subscription is "
    "changed or deleted. Its state shows whether its endpoint is validated."
)
_EXPIRED = (
    "This validation link has expired: it works for ten minutes. "
    "Create or update the event subscription again to get a new one."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Handshakes:
    """Asks endpoints for their consent."""

    send: Send
    clock: Clock
    new_key: Callable[[], str]
    new_id: Callable[[], str]
    sleep: Callable[[float], None]  # seconds
    keeps_answers: bool  # the log has what an endpoint says that refuses

    def perform(self, subscription: EventSubscription, link_base: str | None) -> Consent:
        """Ask for consent, again while there is no answer; `HandshakeFailed`: it is refused."""
        secret = self.new_key().translate(_URL_SAFE)
        link = Link(subscription.topic, subscription.name, secret)
        asked = build_challenge(
            subscription,
            code=self.new_id().upper(),
            event_id=self.new_id(),
            now=self.clock.now(),
            link=link_base and f"{link_base}/validate/{link}",
        )
        exchange = self._ask(asked, subscription.key)
        found, now = judge_answer(asked, exchange), self.clock.now()
        named = subscription.key._asdict()
        if isinstance(found, Granted):
            telemetry.info("handshake.granted", **named)
            return found if link_base else Granted()
        if may_follow(asked, found):
            told = while_awaited(found.reason, subscription).document
            telemetry.info("handshake.awaited", **named, **told)
            return Awaited(now + VALID_FOR, secret, found.reason)
        activity_id, words = self.new_id(), _words(exchange, subscription)
        kept = words if self.keeps_answers else ""
        outcome = {"activity_id": activity_id, **_outcome(exchange), "answer": kept or None}
        telemetry.info("handshake.failed", **named, **found.document, **outcome)
        raise refusal(asked, found, words, now, activity_id)

    def _ask(self, asked: Challenge, key: SubscriptionKey) -> Exchange:
        """Send the challenge, again while there is no answer."""
        exchange = self._try(1, asked, key, {})
        for number in range(2, MAX_ATTEMPTS + 1):
            if not should_retry(exchange):
                break
            self.sleep(RETRY_DELAY.total_seconds())
            exchange = self._try(number, asked, key, _outcome(exchange))
        return exchange

    def _try(
        self, number: int, asked: Challenge, key: SubscriptionKey, before: Mapping[str, Field]
    ) -> Exchange:
        """Send the challenge once; log that it begins, and what came of the try *before*."""
        telemetry.info(
            "handshake.asked",
            **key._asdict(),
            url=base_url(asked.request.url),
            attempt=number,
            attempts=MAX_ATTEMPTS,
            longest_seconds=LONGEST.total_seconds(),
            **before,
        )
        return self.send(asked.request, TIME_LIMIT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Consents:
    """Obtains the consents of one call; each endpoint is asked once, however often it retries."""

    handshakes: Handshakes
    # The app's public URL, for validation links. ``None``: endpoints must consent at once and
    # without a rate limit, as namespace topics require.
    link_base: str | None
    is_assumed: bool  # no endpoint is asked, and each must be on loopback
    is_import: bool = False  # or has consented elsewhere
    _obtained: dict[Destination, Consent] = field(default_factory=dict, init=False)

    def obtain(self, stored: Document, before: Document | None) -> Consent:
        """Return the consent for what is to be *stored*; only a changed endpoint is asked."""
        wanted = to_subscription(stored)
        if self.is_assumed:
            if not self.is_import:
                check_assumption(wanted.destination)
            return Granted()
        if wanted.destination.kind is not EndpointType.WEBHOOK:
            return Granted()
        known = before and in_force(before)
        endpoint = wanted.destination
        if known and to_subscription(known).destination == endpoint:
            return Granted(allowed_rate(known))
        if endpoint not in self._obtained:
            self._obtained[endpoint] = self.handshakes.perform(wanted, self.link_base)
        return self._obtained[endpoint]


def check_assumption(destination: Destination) -> None:
    """Refuse to assume the consent of a webhook that is not on loopback."""
    is_webhook = destination.kind is EndpointType.WEBHOOK
    if is_webhook and not is_on_loopback(destination.url):
        raise InvalidDocument(
            "Consent can be assumed only for endpoints on loopback, not for "
            f"{urlsplit(destination.url).hostname}."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Validate:
    """Answers requests to validation links and CloudEvents callback URLs."""

    resources: ResourceStore
    clock: Clock
    backoff: Backoff

    def run(self, request: HttpRequest) -> HttpAnswer:
        """Record the consent of *request* and the rate it grants; answer with a sentence."""
        try:
            status, words = HTTPStatus.OK, self._consent(request)
        except Conflict:  # a race lost each time: the link still works
            status, words = HTTPStatus.SERVICE_UNAVAILABLE, StorageUnavailable().message
        except AppError as error:
            status, words = HTTPStatus(error.status), error.message
        headers = {
            "Content-Type": "text/plain; charset=utf-8",
            "Cache-Control": "no-store",
            "Referrer-Policy": "no-referrer",
        }
        if status is HTTPStatus.SERVICE_UNAVAILABLE:
            headers["Retry-After"] = "5"
        return HttpAnswer(status=status, headers=headers, body=f"{words}\n".encode())

    def _consent(self, request: HttpRequest) -> str:
        """Store the consent; a link works once, while validation is pending."""
        link = parse_link(request.params["id"])
        if link is None:
            raise NotFound(_UNKNOWN)
        rate = parse_allowed_rate(request.headers.get("webhook-allowed-rate"))

        def grant(awaiting: Resource | None) -> Document:
            if awaiting and not is_readable(awaiting.document):
                raise UnreadableDocument
            if awaiting is None or not matches_secret(awaiting.document, link.secret):
                raise NotFound(_UNKNOWN)
            if has_expired(awaiting.document, self.clock.now()):
                raise InvalidDocument(_EXPIRED)
            return with_consent_granted(awaiting.document, rate)

        key = DocumentKey(Table.EVENT_SUBSCRIPTIONS, link.topic, link.name)
        name = write(self.resources, key, grant, self.backoff).document["name"]
        telemetry.info("handshake.granted", topic=link.topic, subscription=link.name)
        return (
            f"The endpoint of the event subscription {name} is validated: it gets events from "
            "now on."
        )


def _outcome(exchange: Exchange) -> dict[str, Field]:
    if isinstance(exchange, Answered):
        return {"status": exchange.status}
    return {
        "failure": exchange.failure,
        "detail": exchange.detail,
        "status": exchange.status or None,
    }


def _words(exchange: Exchange, subscription: EventSubscription) -> str:
    """Return in one line what the endpoint said, without secrets; nothing without an answer."""
    if not isinstance(exchange, Answered):
        return ""
    return endpoint_answer(exchange, subscription, "").words
