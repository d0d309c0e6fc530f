"""Records jumps of the clock, and stored times that were bounded: in the log and for ``status``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from shared import telemetry
from shared.clock import SETTLES_IN, moment_of, timestamp
from shared.delivery.furthest import Bounds
from shared.engine.ports import STATE, Resource, ResourceStore, Table
from shared.errors import UNREADABLE, Conflict, StorageUnavailable
from shared.subscriptions.subscription import SubscriptionKey

JUMP = "jump"


class ClockNote(NamedTuple):
    """What was wrong with a clock, and when. It names no subscription: anybody may read it."""

    what: str  # `JUMP`, or the kind of a stored time
    at: datetime
    seconds: float  # ahead of the clock

    @property
    def reason(self) -> str:
        """What an operator reads."""
        if self.what == JUMP:
            return f"a clock has jumped by {self.seconds:+.0f} s; events do not expire for now"
        return f"a {self.what} was {self.seconds:.0f} s ahead of the clock, and was cut back"

    def is_recent(self, now: datetime) -> bool:
        """Tell whether it was noted within ten minutes, by any of the clocks."""
        return abs(now - self.at) < SETTLES_IN


@dataclass(slots=True, kw_only=True)
class ClockRecords:
    """Logs each kind of fault once in ten minutes of a process. Safe in any thread."""

    state: ResourceStore
    monotonic: Callable[[], float]
    begin: Callable[[Callable[[], None]], object]  # begins work that may wait for storage
    _logged_at: dict[str, float] = field(default_factory=dict)

    def jumped(self, by: timedelta, now: datetime) -> None:
        """Record a jump of this process's clock; each one is logged."""
        telemetry.warning("clock.jumped", seconds=round(by.total_seconds(), 3))
        self._store(ClockNote(JUMP, now, by.total_seconds()))

    def bounded(self, bounds: Bounds, key: SubscriptionKey | None = None) -> None:
        """Record what was bounded, if anything: of which subscription, if of one."""
        where = "/".join(key) if key else ""
        for what, ahead in bounds.ahead.items():
            logged_at, now = self._logged_at.get(what), self.monotonic()
            if logged_at is not None and now - logged_at < SETTLES_IN.total_seconds():
                continue
            self._logged_at[what] = now
            seconds = ahead.total_seconds()
            telemetry.warning("clock.bounded", what=what, where=where or None, seconds=seconds)
            self._store(ClockNote(what, bounds.now, seconds))

    def _store(self, note: ClockNote) -> None:
        self.begin(lambda: self._write(note))

    def _write(self, note: ClockNote) -> None:
        """Store a note over the last of its kind; best effort: the log has it."""
        key = Table.TOPICS, STATE, f"clock-{note.what.replace(' ', '-')}"
        at = timestamp(note.at)
        document: dict[str, Any] = {"clock": note.what, "at": at, "seconds": note.seconds}
        with suppress(Conflict, StorageUnavailable):
            stored = self.state.get(*key)
            self.state.put(*key, document, stored.etag if stored else None)


def clock_notes(rows: Iterable[Resource]) -> list[ClockNote]:
    """Return the notes among the rows of the partition `STATE`, by kind."""
    found = []
    for each in rows:
        with suppress(*UNREADABLE):
            what, at, seconds = (each.document[name] for name in ("clock", "at", "seconds"))
            found.append(ClockNote(str(what), moment_of(at), float(seconds)))
    return found
