"""How fast new events come, and when those that were held may follow beside them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """
    The places in time of what is held: given out once, one after the other, up to *end*.

    What has a place before a hold ends meets it, and needs another: those from *again* to *kept*
    are for it, so that what came later is not before it. *held_until* is when that hold ends.
    """

    end: datetime
    again: datetime
    kept: datetime
    held_until: datetime

    @classmethod
    def empty(cls, now: datetime) -> Line:
        return cls(end=now, again=now, kept=now, held_until=now)

    def during(self, until: datetime, now: datetime) -> Line:
        """Return the line in a hold: if it has just begun, with room for what will come again."""
        if now < self.held_until:
            return replace(self, held_until=max(self.held_until, until))
        start = max(self.end, until)
        kept = start + max(min(self.end, until) - now, timedelta())
        return Line(end=kept, again=start, kept=kept, held_until=until)

    def places(
        self, first: datetime, rate: float, sizes: Sequence[int], *, again: bool = False
    ) -> tuple[list[datetime], Line]:
        """
        Return when held requests of so many events may come back, and the line with them.

        They come from *first* on as fast as new events, of which there are *rate* a second.
        *again*: they had a place before.
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
