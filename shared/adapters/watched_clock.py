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
    ahead: float = 0.0  # seconds by which the other time is ahead of the wall clock's
    is_from_storage: bool = False  # else the other time is as before a jump; it counts for a while
    awaits_storage: bool = False  # there was no answer of storage yet

    def is_over(self, at: float) -> bool:
        return not self.is_from_storage and at - self.since >= SETTLES_IN.total_seconds()


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
        self._doubt = _Doubt(monotonic(), awaits_storage=True) if awaits_storage else None

    def now(self) -> datetime:
        wall, at = self._wall(), self._monotonic()
        offset = wall.timestamp() - at
        if abs(offset - self._offset) > _JUMP:
            self._notice_jump(offset, at, wall)
        self._offset = offset
        ahead, doubt = self._ahead, self._doubt
        if doubt and not doubt.is_over(at):
            ahead = max(ahead, doubt.ahead)
        return wall + timedelta(seconds=ahead) if ahead else wall

    @property
    def is_settled(self) -> bool:
        doubt = self._doubt
        return doubt is None or doubt.is_over(self._monotonic())

    def storage_answered(self, date: str | None, took: float) -> None:
        """
        Compare with an answer of storage: its header ``Date``; the exchange took *took* seconds.

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
            if doubt and not doubt.is_from_storage and doubt.since > received - took:
                return  # The clock has jumped meanwhile.
            # The answer was made while the request was under way, within the second that it names.
            least = (said - wall).total_seconds()
            self._compare(least, least + took + 1, received, wall)

    def _notice_jump(self, offset: float, at: float, wall: datetime) -> None:
        with self._changes:
            by, self._offset = offset - self._offset, offset
            if abs(by) <= _JUMP:
                return  # Another thread was first.
            doubt, before = self._doubt, self._ahead
            if doubt and doubt.is_from_storage:
                before = doubt.ahead
            elif doubt and not doubt.is_over(at):
                before = max(before, doubt.ahead)
            ahead = before - by
            self._ahead = 0.0
            self._doubt = _Doubt(at, ahead if abs(ahead) > _JUMP else 0.0)
        self._jumped(Jump(timedelta(seconds=by), wall))

    def _compare(self, least: float, most: float, at: float, wall: datetime) -> None:
        """Learn that storage's time is ahead of the wall clock's by *least* to *most* seconds."""

        def agree(ahead: float) -> bool:
            return least - _JUMP <= ahead <= most + _JUMP

        doubt, middle = self._doubt, (least + most) / 2
        if doubt and doubt.is_over(at):
            doubt = self._doubt = None
        if agree(self._ahead):
            if doubt:
                self._doubt = None if doubt.awaits_storage else _Doubt(doubt.since)
        elif doubt and doubt.ahead and agree(doubt.ahead):
            self._doubt = doubt._replace(is_from_storage=True)
            if at - doubt.since >= SETTLES_IN.total_seconds():
                self._ahead, self._doubt = doubt.ahead, None
        elif abs(middle) <= _FURTHEST:
            by, storages = self._ahead - middle, wall + timedelta(seconds=middle)
            self._doubt = _Doubt(at, middle, is_from_storage=True)
            self._jumped(Jump(timedelta(seconds=by), storages, is_from_storage=True))
