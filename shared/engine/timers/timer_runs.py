"""Runs the jobs of timers, and records each last run, so that health can tell whether they run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Protocol

from shared import telemetry
from shared.clock import Clock, is_pending, timestamp
from shared.engine.ports import STATE, Resource, ResourceStore, Table
from shared.errors import UNREADABLE, AppError, Conflict, StorageUnavailable

EVERY = timedelta(minutes=1)  # at most; a changed result is written at once


class LastRun(NamedTuple):
    """The end of a timer's last run, and which of its jobs failed."""

    at: datetime
    failed: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class TimerRuns:
    """Stores and reads the last runs. One per process."""

    state: ResourceStore
    clock: Clock
    _recorded: dict[str, LastRun] = field(default_factory=dict)

    def record(self, timer: str, failed: Sequence[str]) -> None:
        """Store that *timer* has run, unless that is known; best effort."""
        run = LastRun(self.clock.now(), tuple(failed))
        known = self._recorded.get(timer)
        is_known = known is not None and is_pending(known.at + EVERY, run.at, EVERY)
        if known and is_known and known.failed == run.failed:
            return
        document = {"timer": timer, "lastRun": timestamp(run.at), "failed": list(run.failed)}
        key = Table.TOPICS, STATE, f"timer-{timer}"
        try:
            stored = self.state.get(*key)
            self.state.put(*key, document, stored.etag if stored else None)
        except Conflict:
            pass  # Another instance ran it, too.
        except StorageUnavailable as error:
            telemetry.error("timer.unrecorded", timer=timer, detail=str(error))
            return
        self._recorded[timer] = run

    def rows(self) -> Sequence[Resource]:
        """
        Return the rows that have the last runs, among others.

        Raises:
            StorageUnavailable: storage did not answer.
        """
        return self.state.list(Table.TOPICS, STATE)


def last_runs(rows: Iterable[Resource]) -> Mapping[str, LastRun]:
    """Return the last runs by timer."""
    found: dict[str, LastRun] = {}
    for each in rows:
        with suppress(*UNREADABLE):  # as if it had not run; the next run replaces the row
            at, failed = each.document["lastRun"], each.document["failed"]
            run = LastRun(datetime.fromisoformat(at).astimezone(UTC), tuple(failed))
            found[str(each.document["timer"])] = run
    return found


class Job(Protocol):
    """One job of a timer."""

    def run(self, deadline: datetime) -> None:
        """Do the job; start nothing new after *deadline*."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerJobs:
    """Runs its jobs in order, each with its share of the time."""

    jobs: Mapping[str, Job]
    clock: Clock
    run_for: timedelta = timedelta(minutes=2)  # and a put may be repeated for two more

    def run(self) -> list[str]:
        """
        Run every job; return the names of those that failed.

        A failure is logged, and the job runs again with the next run.
        """
        failed = []
        for name, job in self.jobs.items():
            try:
                job.run(self.clock.now() + self.run_for / len(self.jobs))
            except Exception as error:  # noqa: BLE001 - an internal error must not stop the others
                failed.append(name)
                telemetry.error("timer.failed", job=name, detail=f"{type(error).__name__}: {error}")
        return failed


class JobsFailed(Exception):
    """Jobs of a timer failed; each has logged why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedTimer:
    """A timer whose runs are recorded."""

    timer: str
    work: Callable[[], Sequence[str] | None]  # returns the names of failed jobs, if any
    runs: TimerRuns

    def run(self) -> None:
        """
        Do the work and record the run; a failure is recorded and raised.

        Raises:
            JobsFailed: jobs failed; the host, too, must see that the timer failed.
        """
        try:
            failed = self.work() or ()
        except AppError:
            self.runs.record(self.timer, [self.timer])
            raise
        self.runs.record(self.timer, failed)
        if failed:
            raise JobsFailed(", ".join(failed))
