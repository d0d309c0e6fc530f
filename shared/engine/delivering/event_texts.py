"""Reads the texts of deliveries' events, and the ids in them."""

from __future__ import annotations

import json
from collections.abc import Sequence

from shared.delivery.delivery import Delivery
from shared.engine.ports import PayloadStore

MAX_IDS = 20  # of one line of the log


def texts_of(
    deliveries: Sequence[Delivery], payloads: PayloadStore
) -> list[tuple[Delivery, str | None]]:
    """
    Return each delivery with its event's text; ``None`` if its payload blob is missing.

    Raises:
        StorageUnavailable: a blob can't be read now.
    """
    names = {each.origin.payload for each in deliveries if each.text is None}
    blobs = {name: payloads.read(name) for name in names if name}
    return [
        (each, each.text if each.text is not None else _line(blobs, each)) for each in deliveries
    ]


def event_id(text: str | None) -> str | None:
    """Return the id in an event's JSON; ``None`` if the text is gone or damaged."""
    try:
        return str(json.loads(text or "")["id"])
    except (ValueError, TypeError, KeyError):
        return None


def event_ids(texts: Sequence[str | None]) -> list[str] | None:
    """Return the ids of the first `MAX_IDS` events; ``None`` if none is known."""
    return [known for text in texts[:MAX_IDS] if (known := event_id(text))] or None


def _line(blobs: dict[str, Sequence[str] | None], delivery: Delivery) -> str | None:
    lines = blobs.get(delivery.origin.payload or "") or ()
    line = delivery.origin.first_line + delivery.position
    return (lines[line] or None) if line < len(lines) else None
