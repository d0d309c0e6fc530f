"""The one place for events that end without a dead letter."""

from __future__ import annotations

import json
from collections.abc import Sequence

from shared import telemetry
from shared.delivery.policy import EndReason
from shared.engine.ports import Metrics
from shared.metrics import Metric

MAX_IDS = 20  # of one line


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
    ids = [known for text in texts[:MAX_IDS] if text and (known := event_id(text))]
    telemetry.warning(
        "delivery.dropped",
        topic=topic,
        subscription=subscription,
        reason=reason,
        count=len(texts),
        event_ids=ids or None,
        **fields,
    )


def event_id(text: str) -> str | None:
    """Return the id that the publisher gave an event; ``None`` if storage was damaged."""
    try:
        return str(json.loads(text)["id"])
    except (ValueError, TypeError, KeyError):
        return None
