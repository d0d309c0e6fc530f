"""Runs the jobs of timers, and records each last run, so that health can tell whether they run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Protocol

from shared import telemetry
from shared.clock import Clock, Deadline, timestamp
from shared.engine.ports import STATE, Resource, ResourceStore, Table
from shared.errors import UNREADABLE, Conflict, StorageUnavailable

EVERY = timedelta(minutes=1)  # at most; a changed result is written at once


class LastRun(NamedTuple):
    """The end of a timer's last run, and which of its jobs failed."""

    at: datetime
    failed: tuple[str, ...]


def last_runs(rows: Iterable[Resource]) -> Mapping[str, LastRun]:
    found: dict[str, LastRun] = {}
    for each in rows:
        with suppress(*UNREADABLE):  # as if it had not run; the next run replaces the row
            at, failed = each.document["lastRun"], each.document["failed"]
            run = LastRun(datetime.fromisoformat(at).astimezone(UTC), tuple(failed))
            found[str(each.document["timer"])] = run
    return found


class Job(Protocol):
    """One job of a timer."""

    def run(self, deadline: Deadline) -> None:
        """
        Do the job; start nothing new after *deadline*.

        Raises:
            Exception: what failed is left for the next run, or became a record.
        """


class JobsFailed(Exception):
    """Jobs of a timer failed; each has logged why."""


@dataclass(slots=True, kw_only=True)
class Timer:
    """Runs the jobs of a timer in order, each with its share of the time, and records the run."""

    name: str
    jobs: Mapping[str, Job]
    state: ResourceStore
    clock: Clock
    monotonic: Callable[[], float]  # seconds
    run_for: timedelta = timedelta(minutes=2)  # and a put may be repeated for two more
    _under_way: list[str] = field(default_factory=list)  # jobs
    _recorded: tuple[tuple[str, ...], Deadline] | None = None  # what failed; until when it serves

    def run(self) -> None:
        """
        Run every job. A failure is logged, and the job runs again with the next run.

        Raises:
            JobsFailed: jobs failed; the host, too, must see that the timer failed.
        """
        failed = []
        for name, job in self.jobs.items():
            self._under_way.append(name)
            try:
                share = self.run_for / len(self.jobs)
                job.run(Deadline(share, self.monotonic))
            except Exception as error:  # noqa: BLE001 - an internal error must not stop the others
                failed.append(name)
                telemetry.error("timer.failed", job=name, detail=f"{type(error).__name__}: {error}")
            finally:
                self._under_way.remove(name)
        self.record(failed)
        if failed:
            raise JobsFailed(", ".join(failed))

    def leftovers(self) -> Iterator[str]:
        """Yield the jobs that have not ended."""
        for name in self._under_way:
            yield f"timer {self.name}: job {name}"

    def record(self, failed: Sequence[str]) -> None:
        """Store that the timer has run, unless that is known; best effort."""
        run = LastRun(self.clock.now(), tuple(failed))
        known = self._recorded
        if known and known[0] == run.failed and not known[1].has_passed:
            return
        document = {"timer": self.name, "lastRun": timestamp(run.at), "failed": list(run.failed)}
        key = Table.TOPICS, STATE, f"timer-{self.name}"
        try:
            stored = self.state.get(*key)
            self.state.put(*key, document, stored.etag if stored else None)
        except Conflict:
            pass  # Another instance ran it, too.
        except StorageUnavailable as error:
            telemetry.error("timer.unrecorded", timer=self.name, detail=str(error))
            return
        self._recorded = run.failed, Deadline(EVERY, self.monotonic)
