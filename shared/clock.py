"""Reads the clock, and formats times as Event Grid does and waits for people."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol

JUMP = timedelta(seconds=10)  # the least difference between two clocks that counts as a jump
SETTLES_IN = timedelta(minutes=10)  # after a jump


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> datetime:
        """Return the current time, aware, in UTC."""

    @property
    def is_settled(self) -> bool:
        """Whether it has not jumped of late; until it has settled, nothing ends because of age."""


class SystemClock:
    """The machine's clock."""

    is_settled = True

    def now(self) -> datetime:
        return datetime.now(UTC)


class WatchedClock:
    """
    A clock that notices when *wall* jumps: when it was set, or the machine slept.

    It compares each reading with the one before, by *monotonic* (seconds), and calls *jumped* with
    how far the wall clock has jumped, and its time now. Then it is not settled for ten minutes.
    Thread-safe.
    """

    def __init__(
        self,
        wall: Callable[[], datetime],
        monotonic: Callable[[], float],
        jumped: Callable[[timedelta, datetime], None],
    ) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._jumped = jumped
        self._jumped_at: float | None = None
        self._offset = wall().timestamp() - monotonic()

    def now(self) -> datetime:
        now, seconds = self._wall(), self._monotonic()
        offset = now.timestamp() - seconds
        by, self._offset = offset - self._offset, offset
        if abs(by) > JUMP.total_seconds():
            self._jumped_at = seconds
            self._jumped(timedelta(seconds=by), now)
        return now

    @property
    def is_settled(self) -> bool:
        at = self._jumped_at
        return at is None or self._monotonic() - at >= SETTLES_IN.total_seconds()


def is_pending(moment: datetime, now: datetime, longest: timedelta) -> bool:
    """Tell whether *moment* is still to come; if it is beyond *longest*, the clock has jumped."""
    return now < moment <= now + longest


def format_us_datetime(moment: datetime) -> str:
    """Format *moment* as in Event Grid's error messages: ``1/2/2025 3:04:05 AM``."""
    half = "AM" if moment.hour < 12 else "PM"  # noqa: PLR2004 - noon
    hour = moment.hour % 12 or 12
    return f"{moment.month}/{moment.day}/{moment.year} {hour}:{moment:%M:%S} {half}"


def timestamp(moment: datetime) -> str:
    """Format *moment* as Event Grid does: UTC, seven fractional digits, ``Z``."""
    at = moment.astimezone(UTC).replace(tzinfo=None)
    return f"{at.isoformat(timespec='microseconds')}0Z"


def optional_timestamp(moment: datetime | None) -> str | None:
    return timestamp(moment) if moment else None


def moment_of(text: str) -> datetime:
    """
    Return a time of ISO 8601.

    Raises:
        ValueError: it has no zone, or is no time.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("a time without its zone")
    return moment


def in_words(wait: timedelta) -> str:
    """Return a wait as text: 30 s, 5 min, 12 h."""
    seconds = wait.total_seconds()
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"
