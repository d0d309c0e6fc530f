"""Counts and logs events that end without a dead letter."""

from __future__ import annotations

from collections.abc import Sequence

from shared import telemetry
from shared.delivery.policy import EndReason
from shared.engine.delivering.event_texts import event_ids
from shared.engine.ports import Metrics
from shared.metrics import Metric
from shared.subscriptions.subscription import SubscriptionKey


def dropped(
    metrics: Metrics,
    key: SubscriptionKey,
    reason: EndReason,
    texts: Sequence[str | None],
    **fields: str,
) -> None:
    """
    Count dropped events of one subscription, and log which and why.

    *texts* are their JSON, ``None`` where it is gone.
    """
    metrics.count(Metric.DROPPED, *key, by=len(texts), DropReason=reason)
    telemetry.warning(
        "delivery.dropped",
        topic=key.topic,
        subscription=key.subscription,
        reason=reason,
        count=len(texts),
        event_ids=event_ids(texts),
        **fields,
    )
