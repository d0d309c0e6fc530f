"""Counts and logs beginnings and ends of holds."""

from __future__ import annotations

from datetime import timedelta

from shared import telemetry
from shared.delivery.health.endpoint_health import HoldReason
from shared.engine.ports import Metrics
from shared.metrics import Metric
from shared.subscriptions.subscription import SubscriptionKey


def hold_began(
    metrics: Metrics,
    key: SubscriptionKey,
    reason: HoldReason,
    why: str,
    *,
    cause: str = "",
    **fields: telemetry.Field,
) -> None:
    """Record that a hold has begun: *until* when, or for a pause *by* whom."""
    metrics.count(Metric.HOLDS_BEGAN, *key, Reason=reason)
    telemetry.warning(
        "hold.began",
        topic=key.topic,  # by name: `make infra` compares them with the alert's query
        subscription=key.subscription,
        reason=reason,
        cause=cause or why,  # without its time: one for an alert
        why=why,
        **fields,
    )


def hold_ended(
    metrics: Metrics,
    key: SubscriptionKey,
    reason: HoldReason,
    because: str,
    *,
    lasted: timedelta,
    **fields: telemetry.Field,
) -> None:
    """Record that a hold has ended; *by* whom, if anybody ended it."""
    metrics.count(Metric.HOLDS_ENDED, *key, Reason=reason)
    telemetry.info(
        "hold.ended",
        **key._asdict(),
        reason=reason,
        because=because,
        seconds=round(lasted.total_seconds(), 3),
        **fields,
    )
