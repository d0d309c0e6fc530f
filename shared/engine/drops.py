"""The one line about events that end without a dead letter."""

from __future__ import annotations

import json
from collections.abc import Sequence

from shared import telemetry
from shared.delivery.policy import EndReason

MAX_IDS = 20  # of one line


def dropped(
    topic: str, subscription: str, reason: EndReason, texts: Sequence[str | None], **fields: str
) -> None:
    """Say which events were dropped and why; *texts* are their JSON as far as it is known."""
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
