"""Paces the requests to one endpoint: how many are under way, its allowed rate, and returns."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import NamedTuple

from shared.delivery.furthest import LONGEST_PUT_BACK

FIRST = 16  # requests to an endpoint of which nothing is known
MOST = 256  # to any endpoint, unless a setting says otherwise

_WINDOW = timedelta(seconds=61)  # a minute, and a second of difference in transit
AVERAGED_OVER = 20.0  # seconds


class Limit(NamedTuple):
    """
    The limit of one endpoint, a whole number of requests.

    It grows by one for each success, however slow, if at least half of it was in use when the
    request started or ended: so it doubles each round trip, to the last of a burst. A failure
    halves it, once a round trip: failures of requests that were sent before the latest halving say
    nothing new.
    """

    value: int = FIRST
    most: int = MOST
    halved_at: float = float("-inf")  # in seconds

    @classmethod
    def up_to(cls, most: int) -> Limit:
        """Return the limit of an endpoint of which nothing is known."""
        return cls(min(FIRST, most), most)

    def is_half_used(self, under_way: int) -> bool:
        """Tell whether at least half of it is in use with so many requests under way."""
        return 2 * under_way >= self.value

    def after_success(self) -> Limit:
        """Return the limit after a success of a request for which half of it was in use."""
        return self if self.value >= self.most else self._replace(value=self.value + 1)

    def after_failure(self, sent_at: float, now: float) -> Limit:
        """Return the limit after the failure of a request."""
        if sent_at < self.halved_at:
            return self
        return self._replace(value=max(1, self.value // 2), halved_at=now)


class Allowance(NamedTuple):
    """The state of one endpoint's limit."""

    even_at: datetime  # when the next request would be due if all came evenly
    line_until: datetime  # those that were refused have times up to then


def ask(before: Allowance | None, rate: int, now: datetime) -> tuple[Allowance, datetime | None]:
    """
    Ask for one more request at *rate* a minute; return the new state, and when to ask again.

    ``None`` as that time: the request may go now. Otherwise requests get times one after the other.
    No minute has more than *rate* requests: a tenth may come at once, the others evenly spread.
    Nobody is told to ask again after more than `LONGEST_PUT_BACK`.

    Source: CloudEvents web hooks, section 4.2 (``WebHook-Allowed-Rate``); the pace is ours.
    """
    at_once = 1 + rate // 10
    step = _WINDOW / (rate - at_once + 1)
    even_at, line_until = before or Allowance(now, now)
    # Neither is ever further ahead, unless the clock has jumped.
    even_at, line_until = (
        min(even_at, now + at_once * step),
        min(line_until, now + LONGEST_PUT_BACK),
    )
    soonest = even_at - (at_once - 1) * step
    if soonest <= now:
        return Allowance(max(even_at, now) + step, line_until), None
    again_at = max(soonest, line_until)
    return Allowance(even_at, again_at + step), again_at


class Accepted(NamedTuple):
    """How many deliveries an endpoint accepted lately."""

    weight: float = 0.0  # older ones count less
    at: float = 0.0  # seconds

    def with_more(self, count: int, now: float) -> Accepted:
        """Count deliveries that it has just accepted."""
        return Accepted(self.per_second(now) * AVERAGED_OVER + count, now)

    def per_second(self, now: float) -> float:
        """Return their rate."""
        return self.weight * math.exp((self.at - now) / AVERAGED_OVER) / AVERAGED_OVER


class Returns(NamedTuple):
    """
    The returns to one endpoint in this process.

    They come back one after another at the endpoint's rate, so that they find it able to take them,
    and after `LONGEST_PUT_BACK` at the latest, to be checked again.
    """

    booked_until: datetime  # times up to then are taken

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
