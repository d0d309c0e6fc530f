"""Notices that the machine's clock is wrong: it jumps, or differs from storage's."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from threading import RLock
from typing import NamedTuple

from shared.clock import SETTLES_IN, Jump

_JUMP = 10.0  # seconds: two clocks that differ by more are not both right
_FURTHEST = 100 * 365 * 86400.0  # seconds: no clock is set so far off, and sums stay in range
_DATE = "%a, %d %b %Y %H:%M:%S GMT"  # RFC 9110, 5.6.7


class _Doubt(NamedTuple):
    """The wall clock may be wrong: there is another time."""

    since: float  # by the monotonic clock, in seconds
    other: float = 0.0  # seconds by which the other time is ahead of the wall clock's
    is_storages: bool = False  # else the other time is as before a jump; it counts for a while
    is_first: bool = False  # there was no answer of storage yet

    def is_over(self, seconds: float) -> bool:
        return not self.is_storages and seconds - self.since >= SETTLES_IN.total_seconds()


class WatchedClock:
    """
    A clock that notices when *wall* is wrong: it jumps, or differs from storage's.

    It compares each reading with the one before, by *monotonic* (seconds), and each answer of
    storage with its time. A difference of over ten seconds is told to *jumped*. Then the clock is
    not settled, and reads the later of both times: so nothing that is stored will look older than
    it is. It settles after ten minutes: by storage's time, once storage has said so for that long,
    or else by the wall clock. If *awaits_storage*, it is not settled either before the first
    answer, ten minutes at most. Thread-safe.
    """

    def __init__(
        self,
        wall: Callable[[], datetime],
        monotonic: Callable[[], float],
        jumped: Callable[[Jump], None],
        *,
        awaits_storage: bool = False,
    ) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._jumped = jumped
        self._changes = RLock()
        self._date: str | None = None  # the latest that was compared
        self._ahead = 0.0  # seconds to add to the wall clock's time
        self._offset = wall().timestamp() - monotonic()
        self._doubt = _Doubt(monotonic(), is_first=True) if awaits_storage else None

    def now(self) -> datetime:
        wall, seconds = self._wall(), self._monotonic()
        offset = wall.timestamp() - seconds
        if abs(offset - self._offset) > _JUMP:
            self._notice_jump(offset, seconds, wall)
        self._offset = offset
        ahead, doubt = self._ahead, self._doubt
        if doubt and not doubt.is_over(seconds):
            ahead = max(ahead, doubt.other)
        return wall + timedelta(seconds=ahead) if ahead else wall

    @property
    def is_settled(self) -> bool:
        doubt = self._doubt
        return doubt is None or doubt.is_over(self._monotonic())

    def storage_answered(self, date: str | None, seconds: float) -> None:
        """
        Compare with an answer of storage: its header ``Date``, and how long the exchange has taken.

        Each second of storage is compared once. What is no such time says nothing.
        """
        if date == self._date:
            return
        self._date = date
        with suppress(ValueError), self._changes:
            said = datetime.strptime(date or "", _DATE).replace(tzinfo=UTC)
            self.now()
            received, wall = self._monotonic(), self._wall()
            doubt = self._doubt
            if doubt and not doubt.is_storages and doubt.since > received - seconds:
                return  # The clock has jumped meanwhile.
            # The answer was made while the request was under way, within the second that it names.
            least = (said - wall).total_seconds()
            self._compare(least, least + seconds + 1, received, wall)

    def _notice_jump(self, offset: float, seconds: float, wall: datetime) -> None:
        with self._changes:
            by, self._offset = offset - self._offset, offset
            if abs(by) <= _JUMP:
                return  # Another thread was first.
            doubt, before = self._doubt, self._ahead
            if doubt and doubt.is_storages:
                before = doubt.other
            elif doubt and not doubt.is_over(seconds):
                before = max(before, doubt.other)
            other = before - by
            self._ahead = 0.0
            self._doubt = _Doubt(seconds, other if abs(other) > _JUMP else 0.0)
        self._jumped(Jump(timedelta(seconds=by), wall))

    def _compare(self, least: float, most: float, seconds: float, wall: datetime) -> None:
        """Learn that storage's time is ahead of the wall clock's by so many seconds."""

        def agree(ahead: float) -> bool:
            return least - _JUMP <= ahead <= most + _JUMP

        doubt, middle = self._doubt, (least + most) / 2
        if doubt and doubt.is_over(seconds):
            doubt = self._doubt = None
        if agree(self._ahead):
            if doubt:
                self._doubt = None if doubt.is_first else _Doubt(doubt.since)
        elif doubt and doubt.other and agree(doubt.other):
            self._doubt = doubt._replace(is_storages=True)
            if seconds - doubt.since >= SETTLES_IN.total_seconds():
                self._ahead, self._doubt = doubt.other, None
        elif abs(middle) <= _FURTHEST:
            by, at = self._ahead - middle, wall + timedelta(seconds=middle)
            self._doubt = _Doubt(seconds, middle, is_storages=True)
            self._jumped(Jump(timedelta(seconds=by), at, is_from_storage=True))
