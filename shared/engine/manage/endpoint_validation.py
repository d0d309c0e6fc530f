"""Asks an endpoint whether it wants events; nothing is sent to it before it does."""

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
    The consents that one call needs: however often it writes anew, each endpoint is asked once.

    *links_at* is the public URL of the app, which validation links lead to. ``None``: endpoints
    have to consent at once, and to as many requests as come, as the topics of namespaces want it.
    """

    def __init__(self, ports: ManagePorts, links_at: str | None) -> None:
        self._ports = ports
        self._links_at = links_at
        self._known: dict[tuple[str, Audience | None], Consent] = {}

    def of(self, stored: Document, before: Document | None) -> Consent:
        """
        Return the consent to what is to be *stored*; only a new endpoint has to be asked.

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
    """Return what has to consent anew when it changes."""
    return subscription.endpoint_url, subscription.audience


def _shake_hands(
    ports: ManagePorts, subscription: EventSubscription, links_at: str | None
) -> Consent:
    """
    Ask the endpoint for its consent; ask again while it keeps silent.

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
