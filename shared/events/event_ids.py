"""Reads the ids of events, for logs and records."""

from __future__ import annotations

import json
from collections.abc import Sequence

from shared.clip import clip

MAX_IDS = 20  # of one line of the log


def event_id(text: str | None) -> str | None:
    """Return the id in an event's JSON, clipped; ``None`` if the text is gone or damaged."""
    try:
        return clip(str(json.loads(text or "")["id"]))
    except (ValueError, TypeError, KeyError):
        return None


def event_ids(texts: Sequence[str | None]) -> list[str] | None:
    """Return the ids of the first `MAX_IDS` events; ``None`` if none is known."""
    return [known for text in texts[:MAX_IDS] if (known := event_id(text))] or None
