"""Spreads the returns of deliveries that an endpoint can't take now."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import NamedTuple

from shared.delivery.furthest import LONGEST_PUT_BACK

AVERAGED_OVER = 20.0  # seconds


class Accepted(NamedTuple):
    """What an endpoint accepted lately: *weight* deliveries, older ones less, *at* some second."""

    weight: float = 0.0
    at: float = 0.0

    def with_more(self, count: int, now: float) -> Accepted:
        """Count deliveries that it has just accepted."""
        return Accepted(self.per_second(now) * AVERAGED_OVER + count, now)

    def per_second(self, now: float) -> float:
        """Return their rate."""
        return self.weight * math.exp((self.at - now) / AVERAGED_OVER) / AVERAGED_OVER


class Returns(NamedTuple):
    """
    The returns to one endpoint in this process: times up to *booked_until* are taken.

    They come back one after another at the endpoint's rate, so that they find it able to take
    them, and after `LONGEST_PUT_BACK` at the latest, to be checked again.
    """

    booked_until: datetime

    def book(
        self, count: int, soonest: datetime, rate: float, now: datetime
    ) -> tuple[Returns, datetime]:
        """Return when *count* deliveries come back together, *soonest* or later, at *rate*/s."""
        latest = now + LONGEST_PUT_BACK
        if soonest >= latest:
            return self, latest  # A hold may end sooner than that, and the next one be short.
        booked = self.booked_until if self.booked_until <= latest else now  # the clock was set back
        due = min(max(soonest, booked), latest)
        step = timedelta(seconds=count / rate)
        return Returns(min(due + step, latest)), due
