"""Reads what a store must know of a message: what waits in it, and which payloads it names."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from shared.delivery.messages.message import EPOCH, VERSION
from shared.delivery.messages.run_length import positions_of
from shared.events.data_plane import MAX_REQUEST_EVENTS

_DAMAGED = (ValueError, TypeError, LookupError, OverflowError, RecursionError)


class PartOutline(NamedTuple):
    """How many events a message has for a subscription, and when the oldest was published."""

    topic: str
    subscription: str
    events: int
    oldest: datetime


class Outline(NamedTuple):
    """What is known of a message without unpacking its events."""

    parts: Sequence[PartOutline] = ()
    payloads: Collection[str] = ()  # names of the blobs that have its events
    is_dead_letter: bool = False


def outline_of(text: str) -> Outline:
    """Return the outline of a queue message; an empty one if it has no events, or is damaged."""
    try:
        wire = json.loads(text)
        if wire["pushgrid"] != VERSION or "job" in wire:
            return Outline()
        published = [
            wire["origins"][origin][1]
            for origin, spans in wire["events"]
            for _ in positions_of(spans, MAX_REQUEST_EVENTS)
        ]
        parts = [
            PartOutline(f"{topic}", f"{subscription}", len(places), _moment(published, places))
            for topic, subscription, _, _, spans, *_ in wire["parts"]
            for places in [list(positions_of(spans, MAX_REQUEST_EVENTS))]
        ]
        payloads = {f"{payload}" for _, _, payload, *_ in wire["origins"] if payload}
    except _DAMAGED:
        return Outline()
    return Outline(parts, payloads, "note" in wire)


def _moment(published: Sequence[int], places: Sequence[int]) -> datetime:
    """Return when the oldest of some events was published."""
    return EPOCH + timedelta(microseconds=min(published[place] for place in places))
