"""Which deliveries are due together, so that they can share a message."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from shared.delivery.delivery import Delivery

_SHARE = 0.1  # of a wait by which a delivery may be late for the sake of company …
_LEAST = timedelta(seconds=0.5)
_MOST = timedelta(seconds=3)  # … within these bounds


def due_together(
    waiting: Iterable[tuple[datetime, Delivery]], now: datetime
) -> Iterator[tuple[datetime, list[Delivery]]]:
    """
    Group deliveries by when they are due, the soonest first; a group is due with its last one.

    Nothing is ever early, and nothing later than a tenth of its wait, at most 3 s.
    """
    group: list[Delivery] = []
    first = last = now
    for due, delivery in sorted(waiting, key=lambda pair: pair[0]):
        leeway = min(max((first - now) * _SHARE, _LEAST), _MOST)
        if group and due - first > leeway:
            yield last, group
            group = []
        if not group:
            first = due
        group.append(delivery)
        last = due
    if group:
        yield last, group
