"""The one place for events that end without a dead letter."""

from __future__ import annotations

from collections.abc import Sequence

from shared import telemetry
from shared.delivery.policy import EndReason
from shared.engine.delivering.event_texts import event_ids
from shared.engine.ports import Metrics
from shared.metrics import Metric


def dropped(
    metrics: Metrics,
    place: tuple[str, str],
    reason: EndReason,
    texts: Sequence[str | None],
    **fields: str,
) -> None:
    """
    Count events that were dropped, and say which and why.

    *place* is their topic and subscription; *texts* are their JSON as far as it is known.
    """
    topic, subscription = place
    metrics.count(Metric.DROPPED, topic, subscription, by=len(texts), DropReason=reason)
    telemetry.warning(
        "delivery.dropped",
        topic=topic,
        subscription=subscription,
        reason=reason,
        count=len(texts),
        event_ids=event_ids(texts),
        **fields,
    )
