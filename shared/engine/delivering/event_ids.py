"""What lines of the log call events: by the ids that their publishers gave them."""

from __future__ import annotations

import json
from collections.abc import Sequence

MAX_IDS = 20  # of one line


def event_id(text: str | None) -> str | None:
    """Return the id in an event's JSON; ``None`` if it is not known, or storage was damaged."""
    try:
        return str(json.loads(text or "")["id"])
    except (ValueError, TypeError, KeyError):
        return None


def event_ids(texts: Sequence[str | None]) -> list[str] | None:
    """Return the ids of many events: not all of very many, ``None`` for none."""
    return [known for text in texts[:MAX_IDS] if (known := event_id(text))] or None
