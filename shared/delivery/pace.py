"""Paces one endpoint: how many requests at a time, how many a second, and what comes back when."""

from __future__ import annotations

import math
from collections.abc import Collection
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import NamedTuple

from shared.delivery.furthest import LONGEST_REQUEUE
from shared.subscriptions.request_limits import RequestLimits

FIRST = 16  # requests to an endpoint of which nothing is known
MOST = 256  # to any endpoint, unless a setting says otherwise
_REMEMBERED = 8  # halvings: 256 halved eight times is 1; earlier ones are forgotten

_QUICK = 1.0  # seconds: a push that takes more is slow
_BRIEF = 0.25  # seconds of a push after which a place is soon free
_LONGEST_TURN = 1.0  # seconds until the last of a line has its turn, likewise
_SHORTEST = 0.1  # seconds that a push is taken to last
_SPREAD_OVER = 1.05  # seconds for the requests of a second: clocks and networks differ
_EARLY = 0.001  # seconds by which a timer of the loop may come before its time
_WINDOW = timedelta(seconds=61)  # a minute, and a second of difference in transit
AVERAGED_OVER = 20.0  # seconds


class Halving(NamedTuple):
    """A halving of a limit, and the failures of its round trip, which it stands for together."""

    before: int  # the limit
    at: float  # seconds
    failures: int = 1


class Limit(NamedTuple):
    """
    The limit of one endpoint, a whole number of requests.

    It grows by one for each success, however slow, if at least half of it was in use when the
    request started or ended: so it doubles each round trip, to the last of a burst. A failure
    halves it, once a round trip: failures of requests that were sent before the latest halving say
    nothing new. A timeout whose late success takes the retry back was no failure: when none of a
    halving's failures was one, the limit is what it would be without that halving.
    """

    value: int = FIRST
    most: int = MOST
    halvings: tuple[Halving, ...] = ()  # the latest ones, in order

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
        if self.halvings and sent_at < (latest := self.halvings[-1]).at:
            again = latest._replace(failures=latest.failures + 1)
            return self._replace(halvings=(*self.halvings[:-1], again))
        halvings = (*self.halvings, Halving(self.value, now))[-_REMEMBERED:]
        return self._replace(value=_half(self.value), halvings=halvings)

    def after_late_success(self, failed_at: float, *, half_used: bool) -> Limit:
        """
        Return the limit after a late success of a request whose timeout was at *failed_at*.

        It is a success as well: if half of the limit was in use, it lets a limit grow that is
        below what endpoints begin with, and no further: whoever answers late is no faster by more.
        """
        limit = self._without_failure(failed_at)
        return limit.after_success() if half_used and limit.value < FIRST else limit

    def _without_failure(self, failed_at: float) -> Limit:
        earlier = [each for each in self.halvings if each.at <= failed_at]
        if not earlier:
            return self  # It is long ago, and its halving is forgotten.
        *before, own = earlier
        after = self.halvings[len(earlier) :]
        if own.failures > 1:
            own = own._replace(failures=own.failures - 1)
            return self._replace(halvings=(*before, own, *after))
        value, kept = own.before, []  # what the halvings that followed would have found
        for each in after:
            kept.append(each._replace(before=max(each.before, value)))
            value = _half(kept[-1].before)
        return self._replace(value=max(self.value, value), halvings=(*before, *kept))


def _half(limit: int) -> int:
    return max(1, limit // 2)


class Speed(Enum):
    """How fast an endpoint's latest pushes were."""

    UNKNOWN = auto()  # none has ended yet
    QUICK = auto()
    SLOW = auto()


class PushTimes(NamedTuple):
    """
    How long the pushes to one endpoint take, in seconds.

    The oldest under way has lasted for *hangs*: it counts as soon as it takes longer than others.
    """

    average: float | None = None  # a moving one; ``None``: none has ended

    def with_another(self, seconds: float) -> PushTimes:
        before = seconds if self.average is None else self.average
        return PushTimes(before + (seconds - before) / 4)

    def speed(self, hangs: float) -> Speed:
        if max(self.average or 0, hangs) > _QUICK:
            return Speed.SLOW
        return Speed.UNKNOWN if self.average is None else Speed.QUICK

    def rate(self, at_a_time: int, hangs: float) -> float:
        """Return how many requests a second the endpoint can take, with so many under way."""
        average = _QUICK if self.average is None else self.average
        return at_a_time / max(average, hangs, _SHORTEST)

    def free_soon(self, waiting: int, at_a_time: int, hangs: float) -> bool:
        """Tell whether so many that wait soon have their turn, as far as is known."""
        takes = max(self.average or 0, hangs)
        return takes <= _BRIEF and takes * waiting <= _LONGEST_TURN * at_a_time


class Allowance(NamedTuple):
    """The state of one endpoint's limit."""

    even_at: datetime  # when the next request would be due if all came evenly
    line_until: datetime  # those that were refused have times up to then


def ask(before: Allowance | None, rate: int, now: datetime) -> tuple[Allowance, datetime | None]:
    """
    Ask for one more request at *rate* a minute; return the new state, and when to ask again.

    ``None`` as that time: the request may go now. Otherwise requests get times one after the other.
    No minute has more than *rate* requests: a tenth may come at once, the others evenly spread.
    Nobody is told to ask again after more than `LONGEST_REQUEUE`.

    Source: CloudEvents web hooks, section 4.2 (``WebHook-Allowed-Rate``); the pace is ours.
    """
    at_once = 1 + rate // 10
    step = _WINDOW / (rate - at_once + 1)
    even_at, line_until = before or Allowance(now, now)
    # Neither is ever further ahead, unless the clock has jumped.
    even_at, line_until = (
        min(even_at, now + at_once * step),
        min(line_until, now + LONGEST_REQUEUE),
    )
    soonest = even_at - (at_once - 1) * step
    if soonest <= now:
        return Allowance(max(even_at, now) + step, line_until), None
    again_at = max(soonest, line_until)
    return Allowance(even_at, again_at + step), again_at


class Share(NamedTuple):
    """
    The place of a process, from 0 on, among all that have a row.

    The shares of processes of which each counts all others never exceed a limit together, even if
    some count more than there are.
    """

    place: int
    processes: int

    def of(self, whole: int) -> int:
        """Return its share of a limit; all shares together are the limit, so some may be 0."""
        share, rest = divmod(whole, self.processes)
        return share + (self.place < rest)


ALONE = Share(0, 1)


def share_of(process: str, others: Collection[str]) -> Share:
    """Return the share of *process* beside *others*."""
    return Share(sum(each < process for each in others), len(others) + 1)


_UNLIMITED = None, None, None


class Pacing(NamedTuple):
    """
    One process's pace of requests to an endpoint, by its shares of the limits of the subscription.

    ``None``: there is no such limit. 0: other processes use the whole of it.
    """

    at_once: int | None = None
    a_second: int | None = None
    a_minute: int | None = None  # as the endpoint allows
    next_at: float = 0.0  # when the next request may begin, in seconds
    allowance: Allowance | None = None

    def with_share(self, share: Share, limits: RequestLimits, a_minute: int | None) -> Pacing:
        """Return the pace by a share of these limits."""
        wholes = (*limits, a_minute)
        if wholes == self[:3] == _UNLIMITED:  # as it mostly is: asked for each push
            return self
        at_once, a_second, a_minute = [each and share.of(each) for each in wholes]
        return Pacing(at_once, a_second, a_minute, self.next_at, self.allowance)

    @property
    def is_stopped(self) -> bool:
        """Whether nothing may be sent."""
        return 0 in (self.at_once, self.a_second, self.a_minute)

    @property
    def most_a_second(self) -> float:
        """The most requests a second, evenly spread."""
        return self.a_second / _SPREAD_OVER if self.a_second else math.inf

    def is_early(self, now: float) -> bool:
        """Tell whether a request would exceed the limit a second."""
        return now + _EARLY < self.next_at

    def has_room(self, under_way: int) -> bool:
        """Tell whether one more than so many may be under way."""
        return self.at_once is None or under_way < self.at_once

    def after_request(self, now: float) -> Pacing:
        return self._replace(next_at=now + 1 / self.most_a_second) if self.a_second else self

    def ask(self, now: datetime) -> tuple[Pacing, datetime | None]:
        """Do as `ask` by the rate that the endpoint allows, if it has named one."""
        if self.a_minute is None:
            return self, None
        allowance, again_at = ask(self.allowance, self.a_minute, now)
        return self._replace(allowance=allowance), again_at


class Accepted(NamedTuple):
    """How many full requests an endpoint accepted lately; one with room for more counts less."""

    weight: float = 0.0  # older ones count less
    at: float = 0.0  # seconds

    def with_more(self, requests: float, now: float) -> Accepted:
        return Accepted(self.per_second(now) * AVERAGED_OVER + requests, now)

    def per_second(self, now: float) -> float:
        return self.weight * math.exp((self.at - now) / AVERAGED_OVER) / AVERAGED_OVER


class Returns(NamedTuple):
    """
    The returns to one endpoint in this process.

    They come back one after another at the endpoint's rate, so that they find it able to take them,
    and after `LONGEST_REQUEUE` at the latest, to be checked again.
    """

    booked_until: datetime  # times up to then are taken

    def book(
        self, requests: float, soonest: datetime, requests_a_second: float, now: datetime
    ) -> tuple[Returns, datetime]:
        """Return when deliveries for so many requests come back together, *soonest* or later."""
        latest = now + LONGEST_REQUEUE
        if soonest >= latest:
            return self, latest  # A hold may end sooner than that, and the next one be short.
        booked = self.booked_until if self.booked_until <= latest else now  # the clock was set back
        due = min(max(soonest, booked), latest)
        step = timedelta(seconds=requests / requests_a_second)
        return Returns(min(due + step, latest)), due
