"""Records jumps of the clock, and stored times that were bounded: in the log and for ``status``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from shared import telemetry
from shared.clock import JUMP, STORAGE, TRUSTED_AFTER, Clock, ClockNote, moment_of, timestamp
from shared.delivery.furthest import Bounds
from shared.engine.ports import STATE, Resource, ResourceStore, Table
from shared.errors import UNREADABLE, Conflict, StorageUnavailable
from shared.subscriptions.subscription import SubscriptionKey


@dataclass(slots=True, kw_only=True)
class ClockRecords:
    """
    Logs each kind of fault once in ten minutes of a process, and each jump. Safe in any thread.
    """

    state: ResourceStore
    clock: Clock
    monotonic: Callable[[], float]
    begin: Callable[[Callable[[], None]], object]  # begins work that may wait for storage
    _logged_at: dict[str, float] = field(default_factory=dict)

    def record(self, note: ClockNote, key: SubscriptionKey | None = None) -> None:
        """Record what was wrong with a clock: if a stored time, perhaps *key* says of what."""
        what, seconds = note.what, round(note.seconds, 3)
        if what != JUMP and not self._is_new(what):
            return
        if what in (JUMP, STORAGE):
            against = STORAGE if what == STORAGE else None
            telemetry.warning("clock.jumped", seconds=seconds, against=against)
        else:
            where = "/".join(key) if key else None
            telemetry.warning("clock.bounded", what=what, where=where, seconds=seconds)
        self.begin(partial(self._write, note))

    def bounds(self) -> Bounds:
        """
        Return what bounds stored times as they are read now.

        What is stored again has the time of publication that it came with, unless the clock is
        trusted: then it was another one that was wrong.
        """
        return Bounds(self.clock.now(), corrects=self.clock.is_trusted)

    def record_all(self, bounds: Bounds, key: SubscriptionKey) -> None:
        """Record which times of *key* were beyond their *bounds*; usually none."""
        for note in bounds.notes:
            self.record(note, key)

    def _is_new(self, what: str) -> bool:
        """Tell whether this kind was not logged for ten minutes; then it is now."""
        logged_at, now = self._logged_at.get(what), self.monotonic()
        if logged_at is not None and now - logged_at < TRUSTED_AFTER.total_seconds():
            return False
        self._logged_at[what] = now
        return True

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
