"""
Carries out replays, a step for each message.

The order of writes in a step: the batch under way is noted in the job, then put as deliveries, then
recorded with its blob. A step that is killed repeats at most that batch, and only if it was not
recorded. The message of the next step is stored before this one's is deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from math import ceil

from shared import telemetry
from shared.clock import Clock
from shared.deadletter.reader import (
    MAX_BLOB,
    TOO_LARGE,
    Element,
    UnreadableBlob,
    elements,
)
from shared.delivery.messages.message import ReplayStep
from shared.delivery.messages.message_writer import encode_step
from shared.delivery.requests.replay_header import replay_publish_id
from shared.engine.delivering.requeue import BlockingRequeue
from shared.engine.ports import (
    DeadLetterReader,
    NoContainer,
    Queue,
    StoredBlob,
    SubscriptionReader,
    TopicReader,
)
from shared.engine.replaying.batches import Batch, BlobBatches
from shared.engine.replaying.job import (
    FINISHED,
    JobState,
    Position,
    Progress,
    ReplayFault,
    ReplayJob,
    ReplaySource,
)
from shared.engine.replaying.jobs import JobEnded, ReplayJobs, StoredJob, log_job
from shared.engine.replaying.left_out import left_out
from shared.engine.replaying.marks import Mark, Marks
from shared.engine.replaying.putting import PutEvents, ReplayTarget
from shared.engine.replaying.walk import TooManyFolders, Walk
from shared.errors import Conflict, StorageUnavailable
from shared.subscriptions.subscription import SubscriptionKey

SPAN = 10  # seconds of deliveries that a step puts
RUN_FOR = timedelta(seconds=60)  # of a step, at most
MAX_BLOBS = 500  # that a step reads
AGAIN_IN = timedelta(minutes=1)  # after a failure of storage
GIVE_UP_AFTER = timedelta(hours=1)  # with an account of dead letters that does not answer


class _SourceEnded(Exception):
    """Nothing more of a source can be replayed; the message says why."""


class _Unavailable(Exception):
    """The account of a source does not answer now."""


@dataclass(slots=True)
class _StepRun:
    """The job in this step, and what the step has done."""

    stored: StoredJob
    began_at: datetime
    put: int = 0
    blobs: int = 0
    is_full: bool = False

    @property
    def job(self) -> ReplayJob:
        return self.stored.job

    @job.setter
    def job(self, job: ReplayJob) -> None:
        self.stored = self.stored._replace(job=job)

    def has_room(self, events: int) -> bool:
        """Tell whether more events belong to this step."""
        return self.put == 0 or self.put + events <= self.job.rate * SPAN


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySteps:
    """The use case of the messages that ask for a step."""

    jobs: ReplayJobs
    marks: Marks
    events: PutEvents
    reader: DeadLetterReader
    topics: TopicReader
    subscriptions: SubscriptionReader
    requeue: BlockingRequeue
    clock: Clock

    def run(self, step: ReplayStep) -> None:
        """
        Do a step of a job, and store the message of the next one.

        A failure of storage delays the job.

        Raises:
            StorageUnavailable: not even that can be stored; the host repeats the message.
        """
        try:
            stored = self.jobs.find(step.job)
            if stored is None or stored.job.state is not JobState.RUNNING:
                return
            if step.number < stored.job.number:
                return  # A later step goes on.
            self._run_step(stored, step)
        except JobEnded:
            return
        except Conflict as error:  # Another process leads, or another job runs; it may end early.
            telemetry.warning(
                "replay.deferred", job=step.job, number=step.number, detail=str(error)
            )
            self.requeue.put(Queue.RETRIES, encode_step(step), AGAIN_IN)
        except StorageUnavailable as error:
            telemetry.error("replay.delayed", job=step.job, number=step.number, detail=str(error))
            self.requeue.put(Queue.RETRIES, encode_step(step), AGAIN_IN)

    def _run_step(self, stored: StoredJob, step: ReplayStep) -> None:
        if step.number == 1:
            self.jobs.claim(stored.job)
        run = _StepRun(stored, self.clock.now())
        run.job = replace(stored.job, number=step.number)
        wait = timedelta()
        try:
            self._advance(run)
        except _Unavailable as error:
            wait = self._wait_for_account(run, str(error))
        if run.job.source is None:
            self._end(run)
            return
        following = replace(step, number=step.number + 1)
        self.requeue.put(Queue.RETRIES, encode_step(following), max(wait, self._pace(run)))
        run.job = replace(run.job, number=following.number)
        self.jobs.save(*run.stored)

    def _pace(self, run: _StepRun) -> timedelta:
        """Return how long the next step has to wait, so that the job keeps its rate."""
        if run.job.is_dry_run:
            return timedelta()
        next_at = run.began_at + timedelta(seconds=run.put / run.job.rate)
        return timedelta(seconds=ceil(max((next_at - self.clock.now()).total_seconds(), 0)))

    def _end(self, run: _StepRun) -> None:
        state = JobState.FAILED if run.job.why else JobState.DONE
        run.job = run.job.ended(state, self.clock.now())
        self.jobs.save(*run.stored)
        log_job("replay.ended", run.job)

    def _wait_for_account(self, run: _StepRun, why: str) -> timedelta:
        """Wait for an account; after an hour its source is given up."""
        now = self.clock.now()
        since = run.job.away_since or now
        telemetry.error("replay.delayed", job=run.job.id, detail=why)
        if now - since < GIVE_UP_AFTER:
            run.job = replace(run.job, away_since=since)
            return AGAIN_IN
        self._leave_source(run, why)
        return timedelta()

    def _advance(self, run: _StepRun) -> None:
        """Go on through the sources until the step has done its share."""
        ends_at = run.began_at + RUN_FOR
        while (source := run.job.source) and not run.is_full:
            try:
                target = self._target(run.job.to or source.key)
                for blob in self._blobs(run.job, source):
                    self._replay_blob(run, source, target, blob)
                    if run.is_full or run.blobs >= MAX_BLOBS or self.clock.now() >= ends_at:
                        return
                run.job = run.job.at_next_source()
            except _SourceEnded as error:
                self._leave_source(run, str(error))

    def _leave_source(self, run: _StepRun, why: str) -> None:
        if source := run.job.source:
            job = run.job.with_faults(ReplayFault(source.title, why))
            run.job = replace(job.at_next_source(), why=job.why or why)

    def _target(self, key: SubscriptionKey) -> ReplayTarget:
        found, topic = self.subscriptions.read_uncached(key), self.topics.topic(key.topic)
        named = f"event subscription '{key.subscription}' of topic '{key.topic}'"
        if found is None or topic is None:
            raise _SourceEnded(f"There is no {named}.")
        if not found.has_consented or found.is_expired(self.clock.now()):
            raise _SourceEnded(f"The {named} gets no events: it has not consented, or has expired.")
        return ReplayTarget(found, topic)

    def _blobs(self, job: ReplayJob, source: ReplaySource) -> Iterator[StoredBlob]:
        walk = Walk(
            reader=self.reader,
            source=source,
            selection=job.selection,
            written_before=job.started_at,
        )
        try:
            yield from walk.blobs_from(job.position)
        except NoContainer as error:
            raise _SourceEnded(error.message) from None
        except TooManyFolders as error:
            raise _SourceEnded(str(error)) from None
        except StorageUnavailable as error:
            raise _Unavailable(str(error)) from None

    def _replay_blob(
        self, run: _StepRun, source: ReplaySource, target: ReplayTarget, blob: StoredBlob
    ) -> None:
        run.blobs += 1
        found, faults = self._read(source, blob, run.job.position.record_in(blob.path))
        if found is None:
            then = Position(run.job.position.source, blob.path, FINISHED)
            self._found(run, Batch((), (), Progress(blobs=len(faults)), faults, then))
            return
        mark = self.marks.read(source, blob.path, target.subscription.key)
        batches = BlobBatches(
            path=blob.path,
            topic=target.topic,
            most=run.job.rate,
            replayed=self._replayed(run.job, mark, blob.path),
            left_out=partial(left_out, self.topics, run.job, source, blob),
        )
        for batch in batches.of(found, run.job.position):
            if batch.texts and not run.has_room(len(batch.texts)):
                run.is_full = True
                return
            if batch.texts and not run.job.is_dry_run:
                mark = self._put(run, target, batch, mark)
            self._found(run, batch)

    def _read(
        self, source: ReplaySource, blob: StoredBlob, first: int
    ) -> tuple[Iterable[Element] | None, tuple[ReplayFault, ...]]:
        """
        Return the elements of a blob from the *first* on.

        Without any, return its fault unless it was deleted meanwhile.
        """
        if blob.size > MAX_BLOB:
            return None, (ReplayFault(blob.path, TOO_LARGE),)
        try:
            body = self.reader.read(source.destination, blob.path, MAX_BLOB + 1)
            return None if body is None else elements(body, first), ()
        except UnreadableBlob as error:
            return None, (ReplayFault(blob.path, str(error)),)
        except StorageUnavailable as error:
            raise _Unavailable(f"{blob.path}: {error}") from None

    def _replayed(self, job: ReplayJob, mark: Mark, path: str) -> frozenset[int]:
        """Return the records to leave out; those of the batch under way are not among them."""
        if job.again:
            return frozenset()
        batch = job.under_way
        if batch and batch.path == path and mark.has_last(job):
            return mark.records.difference(batch.records)
        return mark.records

    def _put(self, run: _StepRun, target: ReplayTarget, batch: Batch, mark: Mark) -> Mark:
        """Put a batch, unless it is known that a step which was killed has put it."""
        path, delay = batch.then.path, timedelta(seconds=run.put / run.job.rate)
        run.put += len(batch.texts)
        if run.job.has_under_way(path, batch.records) and mark.has_last(run.job):
            return mark
        run.job = job = run.job.with_batch(path, batch.records)
        run.stored = self.jobs.save(*run.stored)
        self.events.put(target, replay_publish_id(job.id, job.batches), batch.texts, delay)
        return self.marks.add(mark, job, batch.records)

    def _found(self, run: _StepRun, batch: Batch) -> None:
        put = Progress(put=len(batch.texts))
        run.job = replace(
            run.job.with_faults(*batch.faults),
            position=batch.then,
            progress=run.job.progress.plus(batch.found).plus(put),
            under_way=None if batch.texts else run.job.under_way,
            away_since=None,
        )
