"""When the timers ran last: a row each, for whoever looks whether they run at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from shared import telemetry
from shared.clock import Clock, timestamp
from shared.engine.ports import ResourceStore, Table
from shared.errors import AppError, Conflict, StorageUnavailable

EVERY = timedelta(minutes=1)  # at most; but what has changed is written at once
_STATE = "state"


class LastRun(NamedTuple):
    """The end of a timer's last run, and which of its jobs failed."""

    at: datetime
    failed: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class TimerRuns:
    """Keeps the last runs in storage. One per process."""

    state: ResourceStore
    clock: Clock
    _noted: dict[str, LastRun] = field(default_factory=dict)

    def note(self, timer: str, failed: Sequence[str]) -> None:
        """Store that *timer* has run, unless that is known; where storage fails it is not."""
        run = LastRun(self.clock.now(), tuple(failed))
        known = self._noted.get(timer)
        if known and known.failed == run.failed and run.at - known.at < EVERY:
            return
        document = {"timer": timer, "lastRun": timestamp(run.at), "failed": list(run.failed)}
        key = Table.TOPICS, _STATE, f"timer-{timer}"
        try:
            stored = self.state.get(*key)
            self.state.put(*key, document, stored.etag if stored else None)
        except Conflict:
            pass  # Another instance has run it as well.
        except StorageUnavailable as error:
            telemetry.error("timer.unnoted", timer=timer, detail=str(error))
            return
        self._noted[timer] = run

    def last(self) -> Mapping[str, LastRun]:
        """
        Return the last runs by timer.

        Raises:
            StorageUnavailable: storage did not answer.
        """
        documents = [each.document for each in self.state.list(Table.TOPICS, _STATE)]
        return {
            each["timer"]: LastRun(datetime.fromisoformat(each["lastRun"]), tuple(each["failed"]))
            for each in documents
            if "timer" in each
        }


class JobsFailed(Exception):
    """These jobs of a timer failed; each has said why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """A timer's work, noted when it ends. *work* returns the names of jobs that failed, if any."""

    timer: str
    work: Callable[[], Sequence[str] | None]
    runs: TimerRuns

    def run(self) -> None:
        """
        Do the work; what it raises is noted as its failure, and raised.

        Raises:
            JobsFailed: some did: the host, too, is to see that the timer failed.
        """
        try:
            failed = self.work() or ()
        except AppError:
            self.runs.note(self.timer, [self.timer])
            raise
        self.runs.note(self.timer, failed)
        if failed:
            raise JobsFailed(", ".join(failed))
