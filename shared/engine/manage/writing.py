"""Changing documents that others may change at the same time: no update is ever lost silently."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ldexp
from typing import Any, NamedTuple

from shared.engine.ports import Resource, ResourceStore, Table
from shared.errors import Conflict

TRIES = 15  # how often a race for a document may be lost
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0  # seconds

Decide = Callable[[Resource | None], Mapping[str, Any]]
Check = Callable[[Resource], bool]
Rest = Callable[[int], None]  # waits after so many lost races


class Place(NamedTuple):
    """Where a document is stored."""

    table: Table
    partition: str
    name: str


def write(
    resources: ResourceStore,
    place: Place,
    decide: Decide,
    rest: Rest,
    can_stay: Check = lambda _: True,
) -> Resource:
    """
    Store what *decide* makes of the document that is there now.

    When somebody else was faster, it decides again on what is there then, after a *rest*. A new
    document that can't stay, beside what others have created meanwhile, is taken back: its race is
    lost, too.

    Raises:
        Conflict: somebody else was faster each time.
    """
    for lost in range(TRIES):
        if lost:
            rest(lost)
        existing = resources.get(*place)
        document = decide(existing)
        try:
            stored = resources.put(*place, document, existing.etag if existing else None)
        except Conflict:
            continue
        if existing or can_stay(stored):
            return stored
        resources.delete(*place, stored.etag)
    raise Conflict


def pause_after(lost: int, jitter: float) -> float:
    """
    Return how many seconds to wait after *lost* races; *jitter* is from 0 to below 1.

    Chance parts those who lose together, in a span that grows with how many they seem to be.
    """
    return jitter * min(ldexp(_FIRST_PAUSE, lost), _LONGEST_PAUSE)
