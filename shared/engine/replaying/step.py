"""
Carries out replays, a step for each message.

The order of writes in a step: the batch under way is noted in the job, then put as deliveries, then
recorded with its blob. A step that is killed repeats at most that batch, and only if it was not
recorded. The message of the next step is stored before this one's is deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from traceback import extract_tb
from typing import NamedTuple

from shared import telemetry
from shared.clip import clip
from shared.clock import Clock, trusted_now
from shared.deadletter.reader import MAX_BLOB, TOO_LARGE, Element, UnreadableBlob, elements
from shared.delivery.delivery import Origin, replay_publish_id
from shared.delivery.messages.message import MessagePart, ReplayStep
from shared.delivery.messages.message_writer import encode_step
from shared.delivery.messages.packing import fits_inline
from shared.delivery.messages.publication import first_deliveries
from shared.engine.keeping.deployment_terms import DeploymentTerms
from shared.engine.keeping.requeue import Requeue
from shared.engine.ports import (
    DeadLetterReader,
    NoContainer,
    OnLoop,
    PayloadStore,
    Queue,
    ResourceStore,
    StoredBlob,
    SubscriptionReader,
    TopicReader,
)
from shared.engine.replaying.batches import BlobBatches, ReplayBatch, left_out
from shared.engine.replaying.job import FINISHED, JobState, Position, ReplayFault, ReplaySource
from shared.engine.replaying.jobs import JobEnded, ReplayJobs, StoredJob, log_job
from shared.engine.replaying.marks import Mark
from shared.engine.replaying.walk import SourceEnded, Walk
from shared.errors import Conflict, is_transient
from shared.events.topic import Topic
from shared.subscriptions.subscription import EventSubscription, SubscriptionKey

SPAN = 10  # seconds of deliveries that a step puts
RUN_FOR = timedelta(seconds=60)  # of a step, at most
MAX_BLOBS = 500  # that a step reads
AGAIN_IN = timedelta(minutes=1)  # after a failure of storage
GIVE_UP_AFTER = timedelta(hours=1)  # with a source whose storage does not answer


class ReplayTarget(NamedTuple):
    """The subscription that gets the events, and its topic."""

    subscription: EventSubscription
    topic: Topic


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSteps:
    """The use case of the messages that ask for a step."""

    jobs: ReplayJobs
    rows: ResourceStore
    payloads: PayloadStore
    reader: DeadLetterReader
    topics: TopicReader
    subscriptions: SubscriptionReader
    requeue: Requeue
    on_loop: OnLoop
    terms: DeploymentTerms
    message_size: int  # bytes
    clock: Clock
    monotonic: Callable[[], float]  # seconds

    def run(self, message: ReplayStep) -> None:
        """
        Do a step of a job, and store the message of the next one.

        A failure of storage, or a shortage of this process, delays the job; any other error ends it
        with a fault that names the blob.

        Raises:
            StorageUnavailable: not even that can be stored; the host repeats the message.
        """
        try:
            stored = self.jobs.find(message.job)
            if stored is None or stored.job.state is not JobState.RUNNING:
                return
            if message.number < stored.job.step:
                return  # A later step goes on.
            if message.number == 1:
                self.jobs.claim(stored.job)
            job = replace(stored.job, step=message.number)
            _StepRun(self, stored._replace(job=job)).run()
        except JobEnded:
            return
        except Conflict as error:  # Another process leads, or another job runs; it may end early.
            telemetry.warning(
                "replay.deferred", job=message.job, number=message.number, detail=str(error)
            )
            self.on_loop(self.requeue.put(Queue.RETRIES, encode_step(message), AGAIN_IN))
        except Exception as error:
            if not is_transient(error):
                raise
            detail = str(error) or repr(error)
            telemetry.error("replay.delayed", job=message.job, number=message.number, detail=detail)
            self.on_loop(self.requeue.put(Queue.RETRIES, encode_step(message), AGAIN_IN))


class _StepRun:
    """A run of one step: the job as it is by now, and what the step has done."""

    def __init__(self, use_case: RunSteps, stored: StoredJob) -> None:
        self._use_case = use_case
        self._job, self._stored = stored.job, stored
        self._began_at = use_case.monotonic()
        self._put_count = self._blob_count = 0
        self._is_over = False
        self._place = ""  # the blob that is read, or the source whose blobs are listed

    def run(self) -> None:
        """Go on through the sources until the step has done its share; store what follows."""
        try:
            self._run()
        except Exception as error:
            if isinstance(error, (JobEnded, Conflict)) or is_transient(error):
                raise
            self._end_by(error)

    def _run(self) -> None:
        wait = timedelta()
        while (source := self._job.source) and not self._is_over:
            try:
                self._replay_source(source)
            except (SourceEnded, NoContainer) as error:
                self._leave(source, str(error))
            except Exception as error:
                if not is_transient(error):
                    raise
                self._is_over, wait = True, self._wait(source, str(error) or repr(error))
        if self._job.source is None:
            self._end(JobState.FAILED if self._job.why else JobState.DONE)
            return
        following = replace(self._job, step=self._job.step + 1)
        message = encode_step(ReplayStep(job=following.id, number=following.step))
        use_case, wait = self._use_case, max(wait, self._pace())
        use_case.on_loop(use_case.requeue.put(Queue.RETRIES, message, wait))
        self._job = following
        self._save()

    def _end_by(self, error: Exception) -> None:
        """End the job by an error that nobody foresaw: the same step would meet it again."""
        place, fault = self._place, f"{type(error).__name__}: {error}"
        raised = extract_tb(error.__traceback__)[-1]
        line = f"{raised.filename}:{raised.lineno}"
        telemetry.error("replay.failed", job=self._job.id, blob=place, detail=fault, line=line)
        # Faults that were not saved yet may be what can't be saved.
        job, saved = self._job, self._stored.job.faults
        more = job.more_faults + len(job.faults) - len(saved)
        job = replace(job, faults=saved, more_faults=more).with_faults(ReplayFault(place, fault))
        self._job = replace(job, why=f"An internal error ended it at '{place}'; the log has it.")
        self._end(JobState.FAILED)

    def _end(self, state: JobState) -> None:
        self._job = self._job.ended(state, self._use_case.clock.now())
        self._save()
        log_job("replay.ended", self._job)

    def _save(self) -> None:
        self._stored = self._use_case.jobs.save(self._job, self._stored.etag)
        self._job = self._stored.job

    def _pace(self) -> timedelta:
        """Return how long the next step has to wait, so that the job keeps its rate."""
        if self._job.is_dry_run:
            return timedelta()
        next_at = self._began_at + self._put_count / self._job.rate
        return timedelta(seconds=max(next_at - self._use_case.monotonic(), 0))

    def _wait(self, source: ReplaySource, why: str) -> timedelta:
        """Wait for storage that does not answer, or for memory; after an hour leave the source."""
        since = self._job.away_since or self._use_case.clock.now()
        telemetry.error("replay.delayed", job=self._job.id, detail=why)
        if trusted_now(self._use_case.clock) - since < GIVE_UP_AFTER:
            self._job = replace(self._job, away_since=since)
            return AGAIN_IN
        self._leave(source, why)
        return timedelta()

    def _leave(self, source: ReplaySource, why: str) -> None:
        job = self._job.with_faults(ReplayFault(source.title, why))
        self._job = replace(job.at_next_source(), why=job.why or clip(why))

    def _replay_source(self, source: ReplaySource) -> None:
        self._place = source.title
        target = self._target(self._job.to or source.key)
        walk = Walk(
            reader=self._use_case.reader,
            source=source,
            selection=self._job.selection,
            written_before=self._job.started_at,
        )
        for blob in walk.blobs_from(self._job.position):
            self._place = blob.path
            self._replay_blob(source, target, blob)
            self._place = source.title
            self._is_over = self._is_over or self._is_late or self._blob_count >= MAX_BLOBS
            if self._is_over:
                return
        self._job = self._job.at_next_source()

    @property
    def _is_late(self) -> bool:
        return self._use_case.monotonic() >= self._began_at + RUN_FOR.total_seconds()

    def _target(self, key: SubscriptionKey) -> ReplayTarget:
        found = self._use_case.subscriptions.read_uncached(key)
        topic = self._use_case.topics.topic(key.topic)
        named = f"event subscription '{key.subscription}' of topic '{key.topic}'"
        if found is None or topic is None:
            raise SourceEnded(f"There is no {named}.")
        is_expired = found.is_expired(trusted_now(self._use_case.clock))
        if not found.has_consented or is_expired:
            raise SourceEnded(f"The {named} gets no events: it has not consented, or has expired.")
        return ReplayTarget(found, topic)

    def _replay_blob(self, source: ReplaySource, target: ReplayTarget, blob: StoredBlob) -> None:
        self._blob_count += 1
        job, to, found, faults = self._job, target.subscription.key, None, []
        try:
            found = self._elements(source, blob)
        except UnreadableBlob as error:
            faults = [ReplayFault(blob.path, str(error))]
        if found is None:
            # A blob that was deleted meanwhile has no fault, and is not counted.
            end = Position(job.position.source, blob.path, FINISHED)
            self._pass(to, ReplayBatch(end, blobs=1 if faults else 0, faults=faults))
            return
        mark = Mark(source=source, path=blob.path, to=to)
        mark = mark.stored(self._use_case.rows)
        batches = BlobBatches(
            path=blob.path,
            topic=target.topic,
            most=job.rate,
            replayed=mark.replayed(job),
            left_out=partial(left_out, self._use_case.topics, job, source, blob),
            was_put=(lambda text: self._job.was_put(to, text)) if job.selection.event else None,
        )
        for batch in batches.of(found, job.position):
            count = len(batch.texts)
            is_enough = self._put_count + count > job.rate * SPAN
            if count and (is_enough or (self._put_count and self._is_late)):
                self._is_over = True
                return
            if count and not job.is_dry_run:
                mark = self._put_batch(target, batch, mark)
            self._pass(to, batch)

    def _elements(self, source: ReplaySource, blob: StoredBlob) -> Iterable[Element] | None:
        """
        Return the elements of a blob that are not passed yet; ``None`` if it was deleted meanwhile.

        Raises:
            UnreadableBlob: it is too large, or no list.
        """
        if blob.size > MAX_BLOB:
            raise UnreadableBlob(TOO_LARGE)
        body = self._use_case.reader.read(source.destination, blob.path, MAX_BLOB + 1)
        return None if body is None else elements(body, self._job.position.record_in(blob.path))

    def _put_batch(self, target: ReplayTarget, batch: ReplayBatch, mark: Mark) -> Mark:
        """Put a batch, unless it is known that a step which was killed has put it."""
        path, records = batch.then.path, tuple(batch.records)
        delay = timedelta(seconds=self._put_count / self._job.rate)
        self._put_count += len(batch.texts)
        if self._job.has_under_way(path, records) and mark.has_last(self._job):
            return mark
        self._job = self._job.with_batch(path, records)
        self._save()
        publish_id = replay_publish_id(self._job.id, self._job.latest_batch)
        self._put_events(target, publish_id, batch.texts, delay)
        return mark.with_latest(self._job, records, self._use_case.rows)

    def _put_events(
        self, target: ReplayTarget, publish_id: str, texts: Sequence[str], delay: timedelta
    ) -> None:
        """
        Store first deliveries of events, due after *delay*; their time to live begins now.

        The same *publish_id* and events give deliveries with the same ``aeg-output-event-id``. The
        subscription's filter is not asked.
        """
        use_case, subscription = self._use_case, target.subscription
        now = use_case.clock.now()
        origin = Origin(publish_id, now, None)
        parked = [
            "" if fits_inline(text, origin, use_case.message_size) else text for text in texts
        ]
        if any(parked):
            keep_until = now + delay + use_case.terms.payloads_kept_for(target.topic)
            payload = use_case.payloads.write(publish_id, keep_until, parked)
            origin = origin._replace(payload=payload)
        message = MessagePart(
            topic=subscription.topic,
            subscription=subscription.name,
            generation=subscription.generation,
            deliveries=tuple(first_deliveries(origin, texts, parked)),
            due=now + delay if delay else None,
            batch_size=subscription.batching.max_events,
        )
        # Tried once: the next step counts a repeat.
        use_case.on_loop(use_case.requeue.at_due(message, repeat_for=timedelta()))

    def _pass(self, to: SubscriptionKey, batch: ReplayBatch) -> None:
        """Note in the job what was found and put, and that it goes on after the batch."""
        self._job = replace(
            self._job.with_faults(*batch.faults).with_put(to, batch.texts),
            position=batch.then,
            progress=self._job.progress.plus(batch.found),
            # Nothing was put: the batch that a killed step has left under way may still come.
            under_way=None if batch.texts else self._job.under_way,
            away_since=None,
        )
