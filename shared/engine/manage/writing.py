"""Changing documents that others may change at the same time: no update is ever lost silently."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from shared.engine.ports import Resource, ResourceStore, Table
from shared.errors import Conflict

TRIES = 5  # how often a race for a document may be lost

Decide = Callable[[Resource | None], Mapping[str, Any]]


class Place(NamedTuple):
    """Where a document is stored."""

    table: Table
    partition: str
    name: str


def write(resources: ResourceStore, place: Place, decide: Decide) -> Resource:
    """
    Store what *decide* makes of the document that is there now.

    When somebody else was faster, it decides again on what is there then.

    Raises:
        Conflict: somebody else was faster each time.
    """
    for _ in range(TRIES):
        existing = resources.get(*place)
        document = decide(existing)
        try:
            return resources.put(*place, document, existing.etag if existing else None)
        except Conflict:
            continue
    raise Conflict
