"""
Carries out replays, a step for each message.

The order of writes in a step: the batch under way is noted in the job, then put as deliveries, then
recorded with its blob. A step that is killed repeats at most that batch, and only if it was not
recorded. The message of the next step is stored before this one's is deleted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from math import ceil

from shared import telemetry
from shared.clock import Clock
from shared.deadletter.reader import MAX_BLOB, TOO_LARGE, DeadLetter, UnreadableBlob, read_blob
from shared.delivery.messages.message import ReplayStep, encode_step
from shared.delivery.requests.replays import replay_publish_id
from shared.engine.delivering.requeue import Requeue
from shared.engine.ports import (
    DeadLetterReader,
    NoContainer,
    Queue,
    StoredBlob,
    SubscriptionReader,
    TopicReader,
)
from shared.engine.replaying.batches import Batch, BlobBatches, Records
from shared.engine.replaying.job import (
    FINISHED,
    Fault,
    Note,
    Position,
    Progress,
    ReplayJob,
    Skipped,
    Source,
    State,
)
from shared.engine.replaying.jobs import JobEnded, ReplayJobs, StoredJob, log
from shared.engine.replaying.marks import Mark, Marks
from shared.engine.replaying.putting import PutEvents, Target
from shared.engine.replaying.walk import Walk
from shared.errors import Conflict, StorageUnavailable
from shared.events.topic import Topic
from shared.subscriptions.subscription import SubscriptionKey

SPAN = 10  # seconds of deliveries that a step puts
RUN_FOR = timedelta(seconds=60)  # of a step, at most
MAX_BLOBS = 500  # that a step reads
AGAIN_IN = timedelta(minutes=1)  # after a failure of storage
GIVE_UP_AFTER = timedelta(hours=1)  # with an account of dead letters that does not answer


class _SourceEnded(Exception):
    """Nothing more of a source can be replayed; the message says why."""


class _Away(Exception):
    """The account of a source does not answer now."""


@dataclass(slots=True)
class _Lead:
    """The job in this step, and what the step has done."""

    stored: StoredJob
    ends_at: datetime
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
class Replay:
    """The use case of the messages that ask for a step."""

    jobs: ReplayJobs
    marks: Marks
    events: PutEvents
    reader: DeadLetterReader
    topics: TopicReader
    subscriptions: SubscriptionReader
    requeue: Requeue
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
            if stored is None or stored.job.state is not State.RUNNING:
                return
            if step.number < stored.job.number:
                return  # A later step goes on.
            self._lead(stored, step)
        except JobEnded:
            return
        except Conflict as error:  # Another process leads, or another job runs.
            telemetry.warning("replay.left", job=step.job, number=step.number, detail=str(error))
        except StorageUnavailable as error:
            telemetry.error("replay.delayed", job=step.job, number=step.number, detail=str(error))
            self.requeue.put(Queue.RETRIES, encode_step(step), AGAIN_IN)

    def _lead(self, stored: StoredJob, step: ReplayStep) -> None:
        if step.number == 1:
            self.jobs.claim(stored.job)
        lead = _Lead(stored, self.clock.now() + RUN_FOR)
        lead.job = replace(stored.job, number=step.number)
        wait = timedelta()
        try:
            self._advance(lead)
        except _Away as error:
            wait = self._away(lead, str(error))
        if lead.job.source is None:
            self._end(lead)
            return
        pace = timedelta(seconds=0 if lead.job.is_dry_run else ceil(lead.put / lead.job.rate))
        following = replace(step, number=step.number + 1)
        self.requeue.put(Queue.RETRIES, encode_step(following), max(wait, pace))
        lead.job = replace(lead.job, number=following.number)
        self.jobs.save(*lead.stored)

    def _end(self, lead: _Lead) -> None:
        state = State.FAILED if lead.job.why else State.DONE
        lead.job = lead.job.ended(state, self.clock.now())
        self.jobs.save(*lead.stored)
        log("replay.ended", lead.job)

    def _away(self, lead: _Lead, why: str) -> timedelta:
        """Wait for an account; after an hour its source is given up."""
        now = self.clock.now()
        since = lead.job.away_since or now
        telemetry.error("replay.delayed", job=lead.job.id, detail=why)
        if now - since < GIVE_UP_AFTER:
            lead.job = replace(lead.job, away_since=since)
            return AGAIN_IN
        self._leave_source(lead, why)
        return timedelta()

    def _advance(self, lead: _Lead) -> None:
        """Go on through the sources until the step has done its share."""
        while (source := lead.job.source) and not lead.is_full:
            try:
                target = self._target(lead.job.to or source.key)
                for blob in self._blobs(lead.job, source):
                    self._replay_blob(lead, source, target, blob)
                    if lead.is_full or lead.blobs >= MAX_BLOBS or self.clock.now() >= lead.ends_at:
                        return
                lead.job = lead.job.at_next_source()
            except _SourceEnded as error:
                self._leave_source(lead, str(error))

    def _leave_source(self, lead: _Lead, why: str) -> None:
        if source := lead.job.source:
            job = lead.job.with_faults(Fault(f"{source.topic}/{source.subscription}", why))
            lead.job = replace(job.at_next_source(), why=job.why or why)

    def _target(self, key: SubscriptionKey) -> Target:
        found, topic = self.subscriptions.read_uncached(key), self.topics.topic(key.topic)
        named = f"event subscription '{key.subscription}' of topic '{key.topic}'"
        if found is None or topic is None:
            raise _SourceEnded(f"There is no {named}.")
        if not found.has_consented or found.is_expired(self.clock.now()):
            raise _SourceEnded(f"The {named} gets no events: it has not consented, or has expired.")
        return Target(found, topic)

    def _blobs(self, job: ReplayJob, source: Source) -> Iterator[StoredBlob]:
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
        except StorageUnavailable as error:
            raise _Away(str(error)) from None

    def _replay_blob(self, lead: _Lead, source: Source, target: Target, blob: StoredBlob) -> None:
        lead.blobs += 1
        found = self._read(source, blob)
        if not isinstance(found, Sequence) or isinstance(found, str):
            then = Position(lead.job.position.source, blob.path, FINISHED)
            faults = (Fault(blob.path, found),) if found else ()  # None: it was deleted meanwhile.
            self._found(lead, Batch((), (), Progress(blobs=len(faults)), faults, then))
            return
        mark = self.marks.read(source, blob.path, target.subscription.key)
        batches = BlobBatches(
            path=blob.path,
            topic=target.topic,
            most=lead.job.rate,
            replayed=self._replayed(lead.job, mark, blob.path),
            left_out=partial(self._left_out, lead.job, source),
        )
        for batch in batches.of(found, lead.job.position):
            if batch.texts and not lead.has_room(len(batch.texts)):
                lead.is_full = True
                return
            if batch.texts and not lead.job.is_dry_run:
                mark = self._put(lead, target, batch, mark)
            self._found(lead, batch)

    def _read(self, source: Source, blob: StoredBlob) -> Records | str | None:
        """Return the records of a blob, or why it has none; ``None``: there is no such blob."""
        if blob.size > MAX_BLOB:
            return TOO_LARGE
        try:
            body = self.reader.read(source.destination, blob.path, MAX_BLOB + 1)
        except StorageUnavailable as error:
            raise _Away(str(error)) from None
        try:
            return None if body is None else read_blob(body)
        except UnreadableBlob as error:
            return str(error)

    def _replayed(self, job: ReplayJob, mark: Mark, path: str) -> frozenset[int]:
        """Return the records to leave out; those of the batch under way are not among them."""
        if job.again:
            return frozenset()
        note = job.under_way
        if note and note.path == path and mark.is_last(job.id, note):
            return mark.records.difference(note.records)
        return mark.records

    def _left_out(self, job: ReplayJob, source: Source, letter: DeadLetter) -> Skipped | None:
        reason = job.selection.reason
        if reason is not None and letter.reason.casefold() != reason.casefold():
            return Skipped.REASON
        return Skipped.TOPIC if self._is_of_another_topic(source, letter) else None

    def _is_of_another_topic(self, source: Source, letter: DeadLetter) -> bool:
        """Tell whether the event names another topic of ours: equal names share a folder."""
        named = letter.event.get("topic")
        if not isinstance(named, str) or not source.topic:
            return False
        name = named.rpartition("/")[2]
        if name.casefold() == source.topic.casefold():
            return False
        topic: Topic | None = self.topics.topic(name) if name else None
        return topic is not None and topic.arm_id.casefold() == named.casefold()

    def _put(self, lead: _Lead, target: Target, batch: Batch, mark: Mark) -> Mark:
        """Put a batch, unless it is known that a step which was killed has put it."""
        path = batch.then.path
        note, job = lead.job.under_way, lead.job
        delay = timedelta(seconds=lead.put / job.rate)
        lead.put += len(batch.texts)
        if note and (note.path, note.records) == (path, batch.records):
            if mark.is_last(job.id, note):
                return mark
            lead.job = replace(
                job, progress=job.progress.plus(Progress(repeated=len(batch.records)))
            )
        else:
            note = Note(job.batches + 1, path, batch.records)
            lead.job = replace(job, under_way=note, batches=note.number)
        lead.stored = self.jobs.save(*lead.stored)
        self.events.put(target, replay_publish_id(job.id, note.number), batch.texts, delay)
        return self.marks.add(mark, job.id, note)

    def _found(self, lead: _Lead, batch: Batch) -> None:
        put = Progress(put=len(batch.texts))
        lead.job = replace(
            lead.job.with_faults(*batch.faults),
            position=batch.then,
            progress=lead.job.progress.plus(batch.found).plus(put),
            under_way=None if batch.texts else lead.job.under_way,
            away_since=None,
        )
