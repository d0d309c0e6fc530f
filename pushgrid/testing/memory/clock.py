"""A clock and chance for tests."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

START = datetime(2026, 2, 9, 12, 0, tzinfo=UTC)
_PAST = datetime(2000, 1, 1, tzinfo=UTC)


class Seconds:
    """A monotonic clock that stands still until *seconds* is set."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


class FakeClock:
    """
    A clock that stands still until it is advanced.

    *elsewhere* is that of another machine, such as storage: it shows the same until this one jumps.
    """

    is_trusted = True

    def __init__(self, start: datetime = START) -> None:
        self.start = start
        self._now = start
        self._jumped = timedelta()

    def now(self) -> datetime:
        return self._now + self._jumped

    @property
    def elsewhere(self) -> Elsewhere:
        return Elsewhere(lambda: self._now)

    def monotonic(self) -> float:
        """Return seconds since some moment in the past, as `time.monotonic` does."""
        return (self._now - _PAST).total_seconds()

    def advance(self, by: timedelta) -> None:
        self._now += by

    def jump(self, by: timedelta) -> None:
        """Set the clock, as no time passes."""
        self._jumped += by


class Elsewhere:
    """A clock that does not jump."""

    is_trusted = True

    def __init__(self, now: Callable[[], datetime]) -> None:
        self.now = now


class SeededChance:
    """
    Chance by a seed, the same in each run; without jitter, unless a test gives some.

    By its version a UUID tells whether it was asked for as a secret: 5, else 4.
    """

    def __init__(self, seed: str = "") -> None:
        self._ids = random.Random(seed)
        self.jitter: Callable[[], float] = lambda: 0.0

    def id(self) -> str:
        return self._uuid(4)

    def secret_id(self) -> str:
        return self._uuid(5)

    def secret(self, size: int) -> bytes:
        return self._ids.randbytes(size)

    def _uuid(self, version: int) -> str:
        return str(uuid.UUID(int=self._ids.getrandbits(128), version=version))
