"""Measures the rate of new events, and spreads held deliveries at that rate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from shared.delivery.health.endpoint_health import Held, Hold

RECHECK = timedelta(minutes=5)  # the longest that a held delivery waits before it is checked again
AVERAGED_OVER = timedelta(seconds=20)
SLOWEST = 5.0  # events a second: so a quiet subscription does not wait long
SHARE = 1.0  # held events come back at the rate of new ones: together twice the usual rate


@dataclass(frozen=True, slots=True)
class EventRate:
    """
    The exponentially weighted rate of a subscription's new events.

    *weight* is their number at the time *at*, older events counting less.
    """

    since: datetime
    at: datetime
    weight: float = 0.0

    def with_more(self, count: int, now: datetime) -> EventRate:
        """Count events that have just come."""
        return EventRate(min(self.since, now), now, self._faded(now) + count)

    def per_second(self, now: datetime) -> float:
        """Return the rate, corrected for the time that is not yet covered."""
        known_for = max(now - self.since, timedelta(seconds=1))
        covered = 1 - math.exp(-(known_for / AVERAGED_OVER))  # share of what the average covers
        return self._faded(now) / (AVERAGED_OVER.total_seconds() * covered)

    def _faded(self, now: datetime) -> float:
        return self.weight * math.exp(-(max(now - self.at, timedelta()) / AVERAGED_OVER))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnTimes:
    """
    The times at which held requests come back: assigned in order, up to *end*.

    A request that comes back before the hold ends is held again and needs another time: those from
    *again_from* to *reserved_until* are reserved for it, so that later requests do not overtake it.
    *held_until* is when that hold ends.
    """

    end: datetime
    again_from: datetime
    reserved_until: datetime
    held_until: datetime

    @classmethod
    def empty(cls, now: datetime) -> ReturnTimes:
        return cls(end=now, again_from=now, reserved_until=now, held_until=now)

    def during(self, until: datetime, now: datetime) -> ReturnTimes:
        """Return the times in a hold; a new hold reserves times for what will be held again."""
        if now < self.held_until:
            return replace(self, held_until=max(self.held_until, until))
        start = max(self.end, until)
        end = start + max(min(self.end, until) - now, timedelta())
        return ReturnTimes(end=end, again_from=start, reserved_until=end, held_until=until)

    def due_times(
        self, first: datetime, rate: float, sizes: Sequence[int], *, was_held: bool = False
    ) -> tuple[list[datetime], ReturnTimes]:
        """
        Return when held requests of so many events come back, and the times with theirs taken.

        They come from *first* on, at *rate* events a second. *was_held*: they were held before.
        """
        step = timedelta(seconds=1) / (SHARE * max(rate, SLOWEST))
        found: list[datetime] = []
        free, end = max(first, self.again_from), max(first, self.end)
        for size in sizes:
            if was_held and free < self.reserved_until:
                found.append(free)
                free += size * step
            else:
                found.append(end)
                end += size * step
        return found, replace(self, end=end, again_from=free if was_held else self.again_from)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """One subscription's rate of new events, and the times of its held requests at *rate*."""

    new_events: EventRate
    return_times: ReturnTimes
    rate: float = 0.0

    @classmethod
    def new(cls, now: datetime) -> Pace:
        return cls(new_events=EventRate(now, now), return_times=ReturnTimes.empty(now))

    def with_new(self, count: int, now: datetime) -> Pace:
        """Count new events."""
        return replace(self, new_events=self.new_events.with_more(count, now))

    def due_times(
        self, held: Held, hold: Hold | None, sizes: Sequence[int], now: datetime, *, was_held: bool
    ) -> tuple[list[datetime], Pace]:
        """
        Return when held requests of so many events come back, and the pace with them.

        *held* keeps them from being sent: the *hold*, or a probe that follows it. They come back
        after `RECHECK` at the latest.
        """
        times, rate = self.return_times, self.new_events.per_second(now)
        if times.end > now + RECHECK:  # the clock was set back
            times = ReturnTimes.empty(now)
        # New events may have stopped while held ones still come back; in a pause, for long.
        if times.end > now and not held.by_hand:
            rate = max(rate, self.rate)
        if hold:
            rate = max(rate, hold.rate)
            if held.until == hold.until:  # otherwise it waits for a probe
                times = times.during(held.until, now)
        found, times = times.due_times(held.until, rate, sizes, was_held=was_held)
        recheck_at = now + RECHECK
        times = replace(times, end=min(times.end, recheck_at))
        pace = replace(self, return_times=times, rate=rate)
        return [min(each, recheck_at) for each in found], pace
