"""A clock for tests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

START = datetime(2026, 2, 9, 12, 0, tzinfo=UTC)


class Seconds:
    """A monotonic clock that stands still until *seconds* is set."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


class FakeClock:
    """A clock that stands still until it is advanced."""

    def __init__(self, start: datetime = START) -> None:
        self.start = start
        self._now = start

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        """Return seconds since some moment in the past, as `time.monotonic` does."""
        return (self._now - datetime(2000, 1, 1, tzinfo=UTC)).total_seconds()

    def advance(self, by: timedelta) -> None:
        self._now += by
