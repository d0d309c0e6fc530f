"""Stores replay jobs: starts, finds, saves and cancels them. At most one runs at a time."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

from shared import telemetry
from shared.clock import Clock
from shared.delivery.messages.message import ReplayStep
from shared.delivery.messages.message_writer import encode_step
from shared.engine.ports import OnLoop, Queue, Resource, ResourceStore, Sender, Table
from shared.engine.replaying.job import JobState, ReplayJob, to_document, to_job
from shared.errors import UNREADABLE, Conflict, NotFound, StorageUnavailable, UnreadableDocument
from shared.races import Backoff, tries

KEPT = 50  # jobs; the oldest of those that have ended are deleted
_JOBS = "job"  # partitions of the table
_STATE = "state"
_CURRENT = "current"


class StoredJob(NamedTuple):
    """A job as stored."""

    job: ReplayJob
    etag: str  # changes with every write


class JobEnded(Exception):
    """The job was cancelled meanwhile; what it has done is stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayJobs:
    """The jobs in the table ``replays``."""

    rows: ResourceStore
    sender: Sender
    on_loop: OnLoop
    clock: Clock
    backoff: Backoff

    def start(self, job: ReplayJob) -> ReplayJob:
        """
        Store a job with the message of its first step.

        Raises:
            Conflict: another job is running.
        """
        self._check_running(job.id)
        job = self.save(job, None).job
        step = encode_step(ReplayStep(job=job.id, number=job.step))
        self.on_loop(self.sender.put(Queue.RETRIES, step))
        try:
            self.claim(job)
        except Conflict:
            self.rows.delete(Table.REPLAYS, _JOBS, job.id)
            raise
        log_job("replay.started", job)
        with suppress(StorageUnavailable):  # The next start does it.
            self._delete_old(job)
        return job

    def claim(self, job: ReplayJob) -> None:
        """
        Make *job* the one that runs; no effect if it is.

        Who starts it and who does its first step both do so, at about the same time.

        Raises:
            Conflict: another job is running, or every try lost its race.
        """
        for _ in tries(self.backoff):
            known = self._check_running(job.id)
            if known and known.document.get("job") == job.id:
                return
            etag = known.etag if known else None
            with suppress(Conflict):
                self.rows.put(Table.REPLAYS, _STATE, _CURRENT, {"job": job.id}, etag)
                return
        raise Conflict

    def find(self, name: str) -> StoredJob | None:
        """
        Return a job.

        Raises:
            UnreadableDocument: its row can't be read.
        """
        row = self.rows.get(Table.REPLAYS, _JOBS, name)
        return _stored(row) if row else None

    def list(self) -> list[ReplayJob]:
        """Return all jobs whose rows can be read, the latest first."""
        found = []
        for row in self.rows.list(Table.REPLAYS, _JOBS):
            try:
                found.append(_stored(row).job)
            except UnreadableDocument:
                telemetry.error("replay.unreadable", job=row.name)
        return sorted(found, key=lambda each: each.started_at, reverse=True)

    def save(self, job: ReplayJob, etag: str | None) -> StoredJob:
        """
        Store a job over the row of *etag*; ``None``: it is new.

        Raises:
            JobEnded: it was cancelled; its progress is stored.
            Conflict: another process has made a step of it.
        """
        job = replace(job, updated_at=self.clock.now())
        try:
            row = self._put(job, etag)
        except Conflict:
            stored = self.find(job.id)
            if stored is None or stored.job.state is not JobState.CANCELLED:
                raise
            cancelled = replace(job, state=JobState.CANCELLED, ended_at=stored.job.ended_at)
            self._put(cancelled, stored.etag)
            raise JobEnded from None
        return StoredJob(job, row.etag)

    def cancel(self, name: str, by: str) -> ReplayJob:
        """
        End a job now; no effect if it has ended. What was put before is delivered.

        Raises:
            NotFound: there is no such job.
            Conflict: every try lost its race.
        """
        for _ in tries(self.backoff):
            stored = self.find(name)
            if stored is None:
                raise NotFound(f"There is no replay '{name}'.")
            if stored.job.state is not JobState.RUNNING:
                return stored.job
            cancelled = stored.job.ended(JobState.CANCELLED, self.clock.now())
            with suppress(Conflict):
                self._put(cancelled, stored.etag)
                log_job("replay.ended", cancelled, by)
                return cancelled
        raise Conflict

    def fail(self, step: ReplayStep) -> None:
        """
        End the job of a step that the host has given up; no effect if a later step goes on.

        Raises:
            Conflict: every try lost its race.
        """
        for _ in tries(self.backoff):
            stored = self.find(step.job)
            if stored is None or stored.job.state is not JobState.RUNNING:
                return
            if step.number < stored.job.step:
                return
            failed = stored.job.ended(JobState.FAILED, self.clock.now())
            failed = replace(failed, why=f"Its step {step.number} failed again and again.")
            with suppress(Conflict):
                self._put(failed, stored.etag)
                log_job("replay.ended", failed)
                return
        raise Conflict

    def _put(self, job: ReplayJob, etag: str | None) -> Resource:
        return self.rows.put(Table.REPLAYS, _JOBS, job.id, to_document(job), etag)

    def _check_running(self, name: str) -> Resource | None:
        """
        Return the row that names the current job; raise Conflict if that is another's and runs.

        One that can't be read makes no steps, and does not keep others from starting.
        """
        row = self.rows.get(Table.REPLAYS, _STATE, _CURRENT)
        current = str(row.document.get("job", "")) if row else ""
        if current and current != name:
            stored = None
            with suppress(UnreadableDocument):
                stored = self.find(current)
            if stored and stored.job.state is JobState.RUNNING:
                raise Conflict(
                    f"The replay '{current}' is running; wait for it to finish, or cancel it."
                )
        return row

    def _delete_old(self, current: ReplayJob) -> None:
        """Delete the oldest, and those whose start has failed halfway: only *current* runs."""
        for place, each in enumerate(self.list()):
            has_begun = each.id == current.id or each.state is not JobState.RUNNING
            if place >= KEPT or not has_begun:
                self.rows.delete(Table.REPLAYS, _JOBS, each.id)


def log_job(event: str, job: ReplayJob, by: str | None = None) -> None:
    """Write the line of the log that says who has started or ended a job, and what it did."""
    progress, to = job.progress, job.to
    telemetry.info(
        event,
        job=job.id,
        by=by or job.by,
        state=job.state,
        topics=sorted({each.topic for each in job.sources} - {""})[:20],
        subscriptions=sorted({each.subscription for each in job.sources} - {""})[:20],
        containers=sorted({each.container for each in job.sources})[:20],
        to=f"{to.topic}/{to.subscription}" if to else None,
        dry_run=job.is_dry_run or None,
        again=job.again or None,
        events=progress.events,
        replayed=progress.put,
        repeated=progress.repeated,
        skipped=sum(progress.skipped.values()),
        faults=len(job.faults) + job.more_faults,
        detail=job.why or None,
    )


def _stored(row: Resource) -> StoredJob:
    try:
        return StoredJob(to_job(row.document), row.etag)
    except UNREADABLE as error:
        raise UnreadableDocument(f"The replay '{row.name}' can't be read: {error!r}") from None
