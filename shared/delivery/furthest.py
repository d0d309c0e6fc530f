"""
Bounds times as they are read by what any rule could make them: clocks jump, what they wrote stays.

The limits are those of all editions together, unscaled: a reader need not know which one has
written, and *time_scale* only shortens waits.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from functools import cache

from shared.clock import ClockNote
from shared.delivery.outcome import Outcome
from shared.delivery.policy import MAX_TIMES
from shared.delivery.profiles import PROFILES

SKEW = timedelta(minutes=1)  # by which the clocks of two machines may differ
LONGEST_IN_LINE = timedelta(minutes=1)  # after which what waits for its endpoint is requeued
LONGEST_REQUEUE = timedelta(minutes=5)  # no delivery that is requeued uncounted waits longer

_EDITIONS = tuple(PROFILES.values())
LONGEST_PROBE = max(each.acknowledgement_timeout for each in _EDITIONS)  # and its margin


class StoredTime(StrEnum):
    """The stored times that can be further away than any rule puts them."""

    HOLD = "hold"
    DUE = "due time"
    PUBLISHED = "publish time"


class Bounds:
    """
    Bounds times as they are read at *now*, and remembers in *ahead* how far they were ahead of it.

    What is stored again is corrected only where the clock is known to be right (*corrects*).
    """

    def __init__(self, now: datetime, *, corrects: bool = True) -> None:
        self.now = now
        self.corrects = corrects
        self.ahead: dict[StoredTime, timedelta] = {}

    def __call__(
        self, what: StoredTime, moment: datetime, furthest: timedelta = timedelta()
    ) -> datetime:
        """Return *moment*, or *furthest* from now if it is further; by default, what has passed."""
        if moment <= self.now + furthest + SKEW:
            return moment
        self.ahead[what] = max(moment - self.now, self.ahead.get(what, timedelta()))
        return self.now + furthest

    @property
    def notes(self) -> list[ClockNote]:
        """What was too far ahead, of each kind the furthest."""
        ahead = self.ahead.items()
        return [ClockNote(what, self.now, by.total_seconds()) for what, by in ahead]


@cache
def longest_wait(attempts: int) -> timedelta:
    """Return how long a delivery with so many attempts can have to wait, without jitter."""
    waits = [LONGEST_REQUEUE]
    for each in _EDITIONS if attempts else ():
        schedule, (_, _, time_to_live) = each.schedule, each.limits.time_to_live
        if attempts <= len(schedule.steps):
            waits.append(schedule.steps[attempts - 1])
        else:
            waits.append(schedule.tail or time_to_live)
        waits += each.probation.values()
        for rules in each.endpoints.values():
            waits += [rules.other_minimum_delay, *rules.minimum_delay.values()]
    return max(waits) * MAX_TIMES if attempts else max(waits)


@cache
def longest_hold(probation: Outcome | None, delays: int) -> timedelta:
    """Return the longest hold for this probation, and after so many of delayed delivery."""
    holds = [timedelta()]
    for each in _EDITIONS:
        if probation:
            holds.append(each.probation.get(probation, timedelta()))
        if delays and each.delayed_delivery:
            holds.append(each.delayed_delivery.hold_after(delays - 1))
    return max(holds)
