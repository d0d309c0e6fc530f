"""Asks an endpoint whether it wants events; an event subscription is stored only if it does."""

from __future__ import annotations

from shared import telemetry
from shared.engine.manage.call import ManagePorts
from shared.errors import HandshakeFailed
from shared.http import Answered, Exchange
from shared.subscriptions.handshake import (
    PAUSE,
    TIME_LIMIT,
    TRIES,
    Failed,
    challenge,
    is_worth_repeating,
    judge,
)
from shared.subscriptions.subscription import EventSubscription


def shake_hands(ports: ManagePorts, subscription: EventSubscription) -> None:
    """
    Ask the endpoint for its consent; ask again while it keeps silent.

    Raises:
        HandshakeFailed: it did not consent.
    """
    code, event_id = ports.new_id().upper(), ports.new_id()
    asked = challenge(subscription, code=code, event_id=event_id, now=ports.clock.now())
    exchange = ports.pusher.send(asked.request, TIME_LIMIT)
    for _ in range(TRIES - 1):
        if not is_worth_repeating(exchange):
            break
        ports.sleep(PAUSE.total_seconds())
        exchange = ports.pusher.send(asked.request, TIME_LIMIT)
    failed = Failed(at=ports.clock.now(), activity_id=ports.new_id())
    try:
        judge(asked, exchange, failed)
    except HandshakeFailed:
        telemetry.info(
            "handshake.failed",
            topic=subscription.topic,
            subscription=subscription.name,
            activity_id=failed.activity_id,
            **_outcome(exchange),
        )
        raise


def _outcome(exchange: Exchange) -> dict[str, telemetry.Field]:
    if isinstance(exchange, Answered):
        return {"status": exchange.status}
    return {"failure": exchange.failure, "detail": exchange.detail}
