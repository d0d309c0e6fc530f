"""Measures the rate of new events, and spreads held deliveries at that rate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

AVERAGED_OVER = timedelta(seconds=20)
SLOWEST = 5.0  # events a second: so a quiet subscription does not wait long
SHARE = 1.0  # held events come back at the rate of new ones: together twice the usual rate


@dataclass(frozen=True, slots=True)
class Arrivals:
    """
    The exponentially weighted rate of a subscription's new events.

    *weight* is their number at the time *at*, older events counting less.
    """

    since: datetime
    at: datetime
    weight: float = 0.0

    def with_more(self, count: int, now: datetime) -> Arrivals:
        """Count events that have just come."""
        return Arrivals(self.since, now, self._faded(now) + count)

    def per_second(self, now: datetime) -> float:
        """Return the rate, corrected for the time that is not yet covered."""
        known_for = max(now - self.since, timedelta(seconds=1))
        seen = 1 - math.exp(-(known_for / AVERAGED_OVER))  # share of what the average covers
        return self._faded(now) / (AVERAGED_OVER.total_seconds() * seen)

    def _faded(self, now: datetime) -> float:
        return self.weight * math.exp(-(max(now - self.at, timedelta()) / AVERAGED_OVER))


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """
    The times at which held requests come back: assigned in order, up to *end*.

    A request that comes back before the hold ends is held again and needs another time: those from
    *again* to *kept* are reserved for it, so that later requests do not overtake it. *held_until*
    is when that hold ends.
    """

    end: datetime
    again: datetime
    kept: datetime
    held_until: datetime

    @classmethod
    def empty(cls, now: datetime) -> Line:
        return cls(end=now, again=now, kept=now, held_until=now)

    def during(self, until: datetime, now: datetime) -> Line:
        """Return the line in a hold; a new hold reserves times for what will be held again."""
        if now < self.held_until:
            return replace(self, held_until=max(self.held_until, until))
        start = max(self.end, until)
        kept = start + max(min(self.end, until) - now, timedelta())
        return Line(end=kept, again=start, kept=kept, held_until=until)

    def due_times(
        self, first: datetime, rate: float, sizes: Sequence[int], *, again: bool = False
    ) -> tuple[list[datetime], Line]:
        """
        Return when held requests of so many events come back, and the line with them.

        They come from *first* on, at *rate* events a second. *again*: they were held before.
        """
        step = timedelta(seconds=1) / (SHARE * max(rate, SLOWEST))
        found: list[datetime] = []
        free, end = max(first, self.again), max(first, self.end)
        for size in sizes:
            if again and free < self.kept:
                found.append(free)
                free += size * step
            else:
                found.append(end)
                end += size * step
        return found, replace(self, end=end, again=free if again else self.again)
