"""How fast new events come, and when those that were held may follow beside them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate

AVERAGED_OVER = timedelta(seconds=20)
SLOWEST = 5.0  # events a second: a subscription that gets hardly any need not wait for long
SHARE = 1.0  # held events come back as fast as new ones: both are twice the usual rate


@dataclass(frozen=True, slots=True)
class Arrivals:
    """
    How many new events a subscription gets, the latest counting most.

    *weight* is their number, each worth less the longer ago it came, at the time *at*.
    """

    since: datetime
    at: datetime
    weight: float = 0.0

    def with_more(self, count: int, now: datetime) -> Arrivals:
        """Count events that came just now."""
        return Arrivals(self.since, now, self._faded(now) + count)

    def per_second(self, now: datetime) -> float:
        """Return the rate: fair from the first second on, and slowly forgetting what was."""
        known_for = max(now - self.since, timedelta(seconds=1))
        seen = 1 - math.exp(-(known_for / AVERAGED_OVER))  # of all that the average covers
        return self._faded(now) / (AVERAGED_OVER.total_seconds() * seen)

    def _faded(self, now: datetime) -> float:
        return self.weight * math.exp(-(max(now - self.at, timedelta()) / AVERAGED_OVER))


def due_times(
    first: datetime, taken_until: datetime | None, rate: float, sizes: Sequence[int]
) -> list[datetime]:
    """
    Return when held requests of so many events may come back; the last time is the next one's.

    They come one after the other from *first* on, and after those that already have a time
    (*taken_until*), as fast as new events, of which there are *rate* a second.
    """
    start = max(first, taken_until) if taken_until else first
    rate = SHARE * max(rate, SLOWEST)
    return [start + timedelta(seconds=before / rate) for before in accumulate(sizes, initial=0)]
