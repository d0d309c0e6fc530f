"""Records jumps of the clock, and stored times that were bounded: in the log and for ``status``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from shared import telemetry
from shared.clock import SETTLES_IN, Clock, Jump, moment_of, timestamp
from shared.delivery.furthest import Bounds
from shared.delivery.messages.message import MessagePart, bounded_message
from shared.engine.ports import STATE, Resource, ResourceStore, Table
from shared.errors import UNREADABLE, Conflict, StorageUnavailable
from shared.subscriptions.subscription import SubscriptionKey

JUMP = "jump"
STORAGE = "storage"


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

    def is_recent(self, now: datetime, *, is_settled: bool) -> bool:
        """
        Tell whether it was noted within ten minutes of *now*.

        That may be the time of the clock in question itself, which is not settled then.
        """
        by_itself = self.at + timedelta(seconds=self.seconds)
        is_its_own = self.what == STORAGE and not is_settled
        return abs(now - self.at) < SETTLES_IN or (is_its_own and abs(now - by_itself) < SETTLES_IN)


@dataclass(slots=True, kw_only=True)
class ClockRecords:
    """
    Logs each kind of fault once in ten minutes of a process, and each jump. Safe in any thread.
    """

    state: ResourceStore
    monotonic: Callable[[], float]
    begin: Callable[[Callable[[], None]], object]  # begins work that may wait for storage
    _logged_at: dict[str, float] = field(default_factory=dict)

    def jumped(self, jump: Jump) -> None:
        """Record a jump of this process's clock, or that it differs from storage's."""
        seconds, what = jump.by.total_seconds(), STORAGE if jump.is_from_storage else JUMP
        if what == JUMP or self._is_new(what):
            against = "storage" if jump.is_from_storage else None
            telemetry.warning("clock.jumped", seconds=round(seconds, 3), against=against)
            self._store(ClockNote(what, jump.at, seconds))

    def bounded(self, bounds: Bounds, key: SubscriptionKey | None = None) -> None:
        """Record what was too far ahead, if anything: of which subscription, if of one."""
        where = "/".join(key) if key else ""
        for what, ahead in bounds.ahead.items():
            if self._is_new(what):
                seconds = ahead.total_seconds()
                telemetry.warning("clock.bounded", what=what, where=where or None, seconds=seconds)
                self._store(ClockNote(what, bounds.now, seconds))

    def as_read(self, parts: Iterable[MessagePart], clock: Clock) -> tuple[MessagePart, ...]:
        """
        Return the parts of a message as they were stored, but what is impossible by *clock*.

        What is stored again has the time of publication that it came with, unless the clock is
        settled: then it was another one that was wrong.
        """
        bounds = Bounds(clock.now())
        is_settled = clock.is_settled
        found = tuple(bounded_message(each, bounds, corrects=is_settled) for each in parts)
        self.bounded(bounds, found[0].key)
        return found

    def _is_new(self, what: str) -> bool:
        """Tell whether this kind was not logged for ten minutes; then it is now."""
        logged_at, now = self._logged_at.get(what), self.monotonic()
        if logged_at is not None and now - logged_at < SETTLES_IN.total_seconds():
            return False
        self._logged_at[what] = now
        return True

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
