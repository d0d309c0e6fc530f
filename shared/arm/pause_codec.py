"""Records in a stored subscription that it is paused, since when and by whom."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.clock import moment_of, timestamp
from shared.subscriptions.subscription import Pause

_PAUSE = "pause"  # beside the properties: it is the operator's, and no part of the ARM document

Document = Mapping[str, Any]


def to_pause(stored: Document) -> Pause | None:
    """
    Return the pause of a stored subscription, if it is paused.

    Raises:
        ValueError, LookupError, TypeError: the member has another form.
    """
    pause = stored.get(_PAUSE)
    if pause is None:
        return None
    return Pause(moment_of(pause["since"]), str(pause["by"]))


def with_pause(stored: Document, pause: Pause) -> Document:
    """Return *stored* as it is paused; an earlier pause goes on."""
    if to_pause(stored):
        return stored
    return {**stored, _PAUSE: {"since": timestamp(pause.since), "by": pause.by}}


def without_pause(stored: Document) -> Document:
    """Return *stored* as it is resumed."""
    return {name: stored[name] for name in stored if name != _PAUSE}


def kept_pause(replaced: Document | None) -> Document:
    """Return the members that keep the pause of a document that is replaced."""
    return {_PAUSE: replaced[_PAUSE]} if replaced and _PAUSE in replaced else {}
