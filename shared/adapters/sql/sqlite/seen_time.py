"""
Keeps the latest time that a store has seen, from which its clock begins at the next start.

A machine without a battery for its clock starts in the past.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from shared.adapters.sql.database import moment
from shared.clock import Clock

_SEEN_EVERY = timedelta(minutes=1)
_FAR, _FAR_LASTS = timedelta(days=30), 86400.0  # a leap of the time, and seconds until it is seen


class SeenTime:
    """
    The latest time that was stored, which *clock* tells; *told* hears of the time once a second.

    It knows nothing until `begin`.
    """

    def __init__(self, clock: Clock, monotonic: Callable[[], float]) -> None:
        self._clock = clock
        self._monotonic = monotonic
        self._seen: tuple[datetime, float] | None = None  # the time, and when
        self._far_since: float | None = None  # the clock is far ahead of that
        self._began: tuple[datetime, float] | None = None  # the time seen before this start, then
        self._told_at = -1.0
        self.told: Callable[[datetime, float], object] = lambda _, __: None

    def begin(self, seen: datetime) -> None:
        """Begin with the time that an earlier start has stored."""
        self._seen = self._began = seen, self._monotonic()

    def due(self) -> datetime | None:
        """
        Return the time now and then, to be stored with what is stored anyway.

        A clock that is far ahead may be wrong, and later starts would believe it: not on one day.
        """
        now, at = self._clock.now(), self._monotonic()
        if not self._seen or not self._clock.is_trusted:
            return None
        seen, seen_at = self._seen
        is_first = seen == moment(0)
        if is_first or now - seen - timedelta(seconds=at - seen_at) <= _FAR:
            self._far_since = None
        elif self._far_since is None:
            self._far_since = at
        is_believed = self._far_since is None or at - self._far_since >= _FAR_LASTS
        if not is_believed or now - seen < _SEEN_EVERY:
            return None
        self._seen, self._far_since = (now, at), None
        return now

    def tell(self) -> None:
        """Tell the time, once a second: the clock's, unless it is before what must have come."""
        at = self._monotonic()
        if self._began and at - self._told_at >= 1:
            self._told_at = at
            seen, began = self._began
            self.told(max(self._clock.now(), seen + timedelta(seconds=at - began)), 0.0)
