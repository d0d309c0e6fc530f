"""Validates endpoints: no event is sent before the endpoint has consented."""

from __future__ import annotations

from urllib.parse import urlsplit

from shared import telemetry
from shared.arm.consent import (
    VALID_FOR,
    Awaited,
    Consent,
    Granted,
    Link,
    allowed_rate,
    in_force,
)
from shared.arm.subscription_codec import to_subscription
from shared.engine.manage.call import ManagePorts
from shared.engine.ports import Document
from shared.errors import HandshakeFailed, InvalidDocument
from shared.http import Answered, Exchange
from shared.subscriptions.destination import Destination, EndpointType
from shared.subscriptions.endpoint_rules import is_on_loopback
from shared.subscriptions.handshake import (
    MAX_ATTEMPTS,
    RETRY_DELAY,
    TIME_LIMIT,
    FailureReference,
    build_challenge,
    judge_answer,
    should_retry,
)
from shared.subscriptions.subscription import EventSubscription

_URL_SAFE = str.maketrans("+/", "-_", "=")


class Consents:
    """
    Obtains the consents of one call; each endpoint is asked once, however often the call retries.

    *link_base* is the app's public URL, for validation links. ``None``: endpoints must consent at
    once and without a rate limit, as namespace topics require. *is_assumed*: no endpoint is asked,
    and each must be on loopback.
    """

    def __init__(
        self, ports: ManagePorts, link_base: str | None, *, is_assumed: bool = False
    ) -> None:
        self._ports = ports
        self._link_base = link_base
        self._is_assumed = is_assumed
        self._obtained: dict[Destination, Consent] = {}

    def obtain(self, stored: Document, before: Document | None) -> Consent:
        """
        Return the consent for what is to be *stored*; only a changed endpoint is asked.

        Raises:
            HandshakeFailed: it did not consent.
            InvalidDocument: its consent can't be assumed.
        """
        wanted = to_subscription(stored)
        if self._is_assumed:
            check_assumption(wanted.destination)
            return Granted()
        if wanted.destination.kind is not EndpointType.WEBHOOK:
            return Granted()
        known = before and in_force(before)
        endpoint = wanted.destination
        if known and to_subscription(known).destination == endpoint:
            return Granted(allowed_rate(known))
        if endpoint not in self._obtained:
            self._obtained[endpoint] = _perform_handshake(self._ports, wanted, self._link_base)
        return self._obtained[endpoint]


def check_assumption(destination: Destination) -> None:
    """
    Check that the consent of an endpoint can be assumed.

    Raises:
        InvalidDocument: it is a webhook that is not on loopback.
    """
    is_webhook = destination.kind is EndpointType.WEBHOOK
    if is_webhook and not is_on_loopback(destination.url):
        raise InvalidDocument(
            "Consent can be assumed only for endpoints on loopback, not for "
            f"{urlsplit(destination.url).hostname}."
        )


def _perform_handshake(
    ports: ManagePorts, subscription: EventSubscription, link_base: str | None
) -> Consent:
    """
    Send the handshake request; repeat it while the endpoint does not answer.

    Raises:
        HandshakeFailed: it did not consent.
    """
    secret = ports.new_key().translate(_URL_SAFE)
    link = Link(subscription.topic, subscription.name, secret)
    asked = build_challenge(
        subscription,
        code=ports.new_id().upper(),
        event_id=ports.new_id(),
        now=ports.clock.now(),
        link=link_base and f"{link_base}/validate/{link}",
    )
    exchange = ports.pusher.send(asked.request, TIME_LIMIT)
    for _ in range(MAX_ATTEMPTS - 1):
        if not should_retry(exchange):
            break
        ports.sleep(RETRY_DELAY.total_seconds())
        exchange = ports.pusher.send(asked.request, TIME_LIMIT)
    failed = FailureReference(at=ports.clock.now(), activity_id=ports.new_id())
    named = {"topic": subscription.topic, "subscription": subscription.name}
    try:
        verdict = judge_answer(asked, exchange, failed)
    except HandshakeFailed:
        activity_id = failed.activity_id
        outcome = _outcome(exchange)
        telemetry.info("handshake.failed", **named, activity_id=activity_id, **outcome)
        raise
    if not verdict.is_pending:
        telemetry.info("handshake.granted", **named)
        return Granted(verdict.rate if link_base else None)
    telemetry.info("handshake.awaited", **named)
    return Awaited(ports.clock.now() + VALID_FOR, secret)


def _outcome(exchange: Exchange) -> dict[str, telemetry.Field]:
    if isinstance(exchange, Answered):
        return {"status": exchange.status}
    return {"failure": exchange.failure, "detail": exchange.detail}
