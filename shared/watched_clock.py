"""Notices that the machine's clock is wrong: it jumps, or differs from storage's."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from threading import RLock
from typing import NamedTuple

from shared.clock import JUMP, STORAGE, TRUSTED_AFTER, ClockNote

_DIFFERS = 10.0  # seconds: two clocks that differ by more are not both right
_FURTHEST = 100 * 365 * 86400.0  # seconds: no clock is set so far off, and sums stay in range


class _Doubt(NamedTuple):
    """The wall clock may be wrong: there is another time."""

    since: float  # by the monotonic clock, in seconds
    ahead: float = 0.0  # seconds by which the other time is ahead of the wall clock's
    is_from_storage: bool = False  # else the other time is as before a jump
    awaits_storage: bool = False  # storage has not told its time yet

    def has_lasted(self, at: float) -> bool:
        return at - self.since >= TRUSTED_AFTER.total_seconds()


class WatchedClock:
    """
    A clock that notices when *wall* is wrong: it jumps, or differs from storage's.

    It compares each reading with the one before, by *monotonic* (seconds), and each answer of
    storage with its time. A difference of over ten seconds is told to *jumped*. Then the clock is
    not trusted, and reads the later of both times: so nothing that is stored will look older than
    it is. Trust comes with an answer of storage alone, the first one after ten minutes: then it has
    storage's time if that is still the other one, or else the wall clock's. If *awaits_storage*, it
    is not trusted from the start, but from the first answer with a time, if both agree.
    Thread-safe.
    """

    def __init__(
        self,
        wall: Callable[[], datetime],
        monotonic: Callable[[], float],
        jumped: Callable[[ClockNote], object] = lambda _: None,
        *,
        awaits_storage: bool = False,
    ) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self.jumped = jumped
        self._changes = RLock()
        self._told: datetime | None = None  # the latest that was compared
        self._ahead = 0.0  # seconds to add to the wall clock's time
        self._offset = wall().timestamp() - monotonic()
        self._doubt = _Doubt(monotonic(), awaits_storage=True) if awaits_storage else None

    def now(self) -> datetime:
        wall, at = self._wall(), self._monotonic()
        offset = wall.timestamp() - at
        if abs(offset - self._offset) > _DIFFERS:
            self._notice_jump(offset, at, wall)
        self._offset = offset
        ahead, doubt = self._ahead, self._doubt
        if doubt:
            ahead = max(ahead, doubt.ahead)
        return wall + timedelta(seconds=ahead) if ahead else wall

    def follow(self, wall: Callable[[], datetime]) -> None:
        """Take *wall* for the wall clock from now on, which is no jump."""
        with self._changes:
            self._wall, self._offset = wall, wall().timestamp() - self._monotonic()

    @property
    def is_trusted(self) -> bool:
        return self._doubt is None

    def storage_answered(self, told: datetime | None, took: float) -> None:
        """
        Compare with an answer of storage: the time that it *told*, perhaps cut to seconds.

        The exchange took *took* seconds. What is told again is not compared again. An answer
        without a time, or with an impossible one, only makes the clock trusted after ten minutes:
        nothing contradicts it.
        """
        if told and told == self._told:
            return
        with self._changes:
            self.now()
            received, wall = self._monotonic(), self._wall()
            doubt = self._doubt
            if doubt and not doubt.is_from_storage and doubt.since > received - took:
                return  # The clock has jumped meanwhile.
            least = _seconds_ahead(told, wall)
            if least is not None:
                self._told = told
                # The answer was made while the request was under way, in the second that it names.
                self._compare(least, least + took + 1, received, wall)
            elif doubt and not doubt.is_from_storage and doubt.has_lasted(received):
                self._doubt = None

    def _notice_jump(self, offset: float, at: float, wall: datetime) -> None:
        with self._changes:
            by, self._offset = offset - self._offset, offset
            if abs(by) <= _DIFFERS:
                return  # Another thread was first.
            doubt, before = self._doubt, self._ahead
            if doubt and doubt.is_from_storage:
                before = doubt.ahead
            elif doubt:
                before = max(before, doubt.ahead)
            ahead = before - by
            self._ahead = 0.0
            self._doubt = _Doubt(at, ahead if abs(ahead) > _DIFFERS else 0.0)
        self.jumped(ClockNote(JUMP, wall, by))

    def _compare(self, least: float, most: float, at: float, wall: datetime) -> None:
        """Learn that storage's time is ahead of the wall clock's by *least* to *most* seconds."""

        def agree(ahead: float) -> bool:
            return least - _DIFFERS <= ahead <= most + _DIFFERS

        doubt, middle = self._doubt, (least + most) / 2
        is_over = doubt is not None and doubt.has_lasted(at)
        if agree(self._ahead):
            if doubt:
                ends = doubt.awaits_storage or is_over
                self._doubt = None if ends else _Doubt(doubt.since)
        elif doubt and doubt.ahead and agree(doubt.ahead):
            self._doubt = doubt._replace(is_from_storage=True)
            if is_over:
                self._ahead, self._doubt = doubt.ahead, None
        else:
            by, storages = self._ahead - middle, wall + timedelta(seconds=middle)
            self._doubt = _Doubt(at, middle, is_from_storage=True)
            self.jumped(ClockNote(STORAGE, storages, by))


def _seconds_ahead(told: datetime | None, wall: datetime) -> float | None:
    """Return by how much a time is ahead of *wall*; ``None``: there is none, or it can't be."""
    ahead = (told - wall).total_seconds() if told else _FURTHEST
    return ahead if abs(ahead) < _FURTHEST else None
