"""Writes documents that others may change at the same time: no update is ever lost silently."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from shared.engine.ports import Document, Resource, ResourceStore, Table
from shared.errors import Conflict
from shared.races import Backoff, tries


class DocumentKey(NamedTuple):
    """Identifies a stored document."""

    table: Table
    partition: str
    name: str


def write(
    resources: ResourceStore,
    key: DocumentKey,
    decide: Callable[[Resource | None], Document],
    backoff: Backoff,
    may_stay: Callable[[Resource], bool] = lambda _: True,
) -> Resource:
    """
    Store what *decide* makes of the current document.

    After a lost race it waits for *backoff*, reads again and decides again. *may_stay* judges a new
    document beside what others created meanwhile: one that may not stay is deleted again, and
    counts as a lost race.

    Raises:
        Conflict: every try lost its race.
    """
    for _ in tries(backoff):
        existing = resources.get(*key)
        document = decide(existing)
        try:
            stored = resources.put(*key, document, existing.etag if existing else None)
        except Conflict:
            continue
        if existing or may_stay(stored):
            return stored
        resources.delete(*key, stored.etag)
    raise Conflict
