"""Validates endpoints: no event is sent before the endpoint has consented."""

from __future__ import annotations

from shared import telemetry
from shared.arm.consent import (
    VALID_FOR,
    Awaited,
    Consent,
    Document,
    Granted,
    Link,
    allowed_rate,
    in_force,
)
from shared.arm.subscription_codec import to_subscription
from shared.engine.manage.call import ManagePorts
from shared.errors import HandshakeFailed
from shared.http import Answered, Audience, Exchange
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

    *links_at* is the app's public URL, for validation links. ``None``: endpoints must consent at
    once and without a rate limit, as namespace topics require.
    """

    def __init__(self, ports: ManagePorts, links_at: str | None) -> None:
        self._ports = ports
        self._links_at = links_at
        self._known: dict[tuple[str, Audience | None], Consent] = {}

    def of(self, stored: Document, before: Document | None) -> Consent:
        """
        Return the consent for what is to be *stored*; only a changed endpoint is asked.

        Raises:
            HandshakeFailed: it did not consent.
        """
        wanted = to_subscription(stored)
        known = before and in_force(before)
        endpoint = _endpoint(wanted)
        if known and _endpoint(to_subscription(known)) == endpoint:
            return Granted(allowed_rate(known))
        if endpoint not in self._known:
            self._known[endpoint] = _shake_hands(self._ports, wanted, self._links_at)
        return self._known[endpoint]


def _endpoint(subscription: EventSubscription) -> tuple[str, Audience | None]:
    """Return the values whose change requires a new handshake."""
    return subscription.endpoint_url, subscription.audience


def _shake_hands(
    ports: ManagePorts, subscription: EventSubscription, links_at: str | None
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
        link=links_at and f"{links_at}/validate/{link}",
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
        return Granted(verdict.rate if links_at else None)
    telemetry.info("handshake.open", **named)
    return Awaited(ports.clock.now() + VALID_FOR, secret)


def _outcome(exchange: Exchange) -> dict[str, telemetry.Field]:
    if isinstance(exchange, Answered):
        return {"status": exchange.status}
    return {"failure": exchange.failure, "detail": exchange.detail}
