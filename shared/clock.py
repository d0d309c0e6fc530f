"""Reads the clock, and formats times as Event Grid does and waits for people."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Protocol

TRUSTED_AFTER = timedelta(minutes=10)  # after a jump
JUMP = "jump"
STORAGE = "storage"
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> datetime:
        """Return the current time, aware, in UTC."""

    @property
    def is_trusted(self) -> bool:
        """Whether it is known to be right; until then, nothing ends by age (`trusted_now`)."""


class SystemClock:
    """The machine's clock."""

    is_trusted = True

    def now(self) -> datetime:
        return datetime.now(UTC)


class Deadline:
    """The moment *wait* from now by *monotonic*, in seconds: setting a clock changes nothing."""

    def __init__(self, wait: timedelta, monotonic: Callable[[], float]) -> None:
        self._at = monotonic() + wait.total_seconds()
        self._monotonic = monotonic

    @classmethod
    def at(cls, moment: float, monotonic: Callable[[], float]) -> Deadline:
        """Return the *moment* of that clock itself."""
        deadline = cls.__new__(cls)
        deadline._at, deadline._monotonic = moment, monotonic  # noqa: SLF001 - of this class
        return deadline

    @property
    def has_passed(self) -> bool:
        return self._monotonic() >= self._at

    @property
    def time_left(self) -> timedelta:
        """How long it is until then; negative if it has passed."""
        return timedelta(seconds=self.seconds_left)

    @property
    def seconds_left(self) -> float:
        """The same in seconds."""
        return self._at - self._monotonic()

    def within(self, wait: timedelta) -> Deadline:
        """Return this moment, or the one *wait* from now if that is sooner."""
        return Deadline(min(self.time_left, wait), self._monotonic)

    def later(self, by: timedelta) -> Deadline:
        """Return the moment *by* after this one."""
        return Deadline(self.time_left + by, self._monotonic)


class ClockNote(NamedTuple):
    """What was wrong with a clock, and when. It names no subscription: anybody may read it."""

    what: str  # `JUMP`, `STORAGE`, or the kind of a stored time
    at: datetime  # of `STORAGE`: by storage's clock
    seconds: float  # ahead of the clock; of `STORAGE`: by which the clock was ahead of storage's

    @property
    def reason(self) -> str:
        """What an operator reads."""
        if self.what == JUMP:
            return f"a clock has jumped by {self.seconds:+.0f} s; events do not expire for now"
        if self.what == STORAGE:
            differs = f"a clock differs from storage's by {self.seconds:+.0f} s"
            return f"{differs}; events do not expire there for now"
        return f"a {self.what} was {self.seconds:.0f} s ahead of the clock"

    def is_recent(self, now: datetime, *, is_trusted: bool) -> bool:
        """
        Tell whether it was noted within ten minutes of *now*.

        That may be the time of the clock in question itself, which is not trusted then.
        """
        by_itself = self.at + timedelta(seconds=self.seconds)
        is_its_own = self.what == STORAGE and not is_trusted
        return abs(now - self.at) < TRUSTED_AFTER or (
            is_its_own and abs(now - by_itself) < TRUSTED_AFTER
        )


def trusted_now(clock: Clock) -> datetime:
    """Return the time by which age ends anything: long ago while *clock* is not trusted."""
    now = clock.now()  # which notices a jump
    return now if clock.is_trusted else _LONG_AGO


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
