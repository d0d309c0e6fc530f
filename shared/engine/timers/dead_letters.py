"""Writes due dead letters to blobs, one blob per subscription and run."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cache, partial
from itertools import count
from typing import Any

from shared import telemetry
from shared.clock import Clock, Deadline, trusted_now
from shared.deadletter.paths import dead_letter_path, numbered_path
from shared.deadletter.record import batches, blob_body, namespace_record, record
from shared.delivery.delivery import Delivery
from shared.delivery.messages.message_writer import with_blob
from shared.delivery.policy import EndReason, EndState
from shared.engine.keeping.ends import Ends
from shared.engine.keeping.payload_texts import with_texts
from shared.engine.ports import (
    DeadLetterStore,
    KeyedCounts,
    Metrics,
    OnLoop,
    PayloadStore,
    Queue,
    Receiver,
    Sender,
)
from shared.engine.ports.settling import Ended
from shared.engine.timers.blob_contents import (
    BlobTarget,
    note_of,
    parts_of,
    path_of_several,
    summary_of,
)
from shared.engine.timers.receiving import HIDDEN_FOR, Intake, LetterText, ReadMessage
from shared.engine.timers.source_events import BlobNotices, is_news
from shared.errors import StorageUnavailable, StorageUnreachable
from shared.events.event import distinct, event_names
from shared.events.notices import WrittenBlob
from shared.events.topic import Topic, TopicName
from shared.metrics import Metric, Series, Sum
from shared.subscriptions.subscription import SubscriptionKey

AGAIN_IN = timedelta(minutes=1)  # until a failed destination is tried again
TIME_PER_TARGET = timedelta(minutes=1)  # of one run: no container delays the others
TIME_TO_DEFER = timedelta(minutes=1)  # after a run's deadline, what it leaves

_TopicOf = Callable[[str], Topic | None]  # of a storage account, if it has subscribers
_Left = dict[int, ReadMessage]  # the messages of a group that are still to be handled, by number


class _DestinationFailed(Exception):
    """A dead-letter destination can't be written to."""


@contextmanager
def _destination() -> Iterator[None]:
    try:
        yield
    except StorageUnavailable as error:
        raise _DestinationFailed(str(error)) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteDeadLetters:
    """The dead-letter timer's first job."""

    intake: Intake
    receiver: Receiver
    sender: Sender
    on_loop: OnLoop
    payloads: PayloadStore
    store: DeadLetterStore
    clock: Clock
    new_id: Callable[[], str]
    metrics: Metrics
    ends: Ends
    notices: BlobNotices
    _away: set[str] = field(default_factory=set)  # accounts that failed; they come last

    def run(self, deadline: Deadline) -> None:
        """
        Write all visible dead letters; delete messages only after their blob is stored.

        Before that, too, the notice for subscribers of the blob's account is stored.
        """
        fault, away = None, set[str]()
        leave_at = deadline.later(TIME_TO_DEFER)
        topic_of = cache(self.notices.topic)  # It reads subscriptions: once a run.
        while taken := self.intake.take(Queue.DEADLETTERS, deadline):
            groups: dict[BlobTarget, list[ReadMessage]] = defaultdict(list)
            for each in taken:
                groups[BlobTarget.of(each.message).folded].append(each)
            write = partial(self._write_group, deadline, leave_at, topic_of, away)
            # Accounts that did not answer come last, and are asked once a run: each takes seconds.
            ordered = sorted(groups.values(), key=lambda group: _account_of(group) in self._away)
            failed = self.intake.for_each(Queue.DEADLETTERS, ordered, write, leave_at)
            fault = fault or failed
        if fault:
            raise fault

    def _write_group(
        self,
        deadline: Deadline,
        leave_at: Deadline,
        topic_of: _TopicOf,
        away: set[str],
        group: list[ReadMessage],
    ) -> None:
        """
        Write one subscription's blobs until *deadline*.

        What fails or is not reached is deferred until *leave_at*, for the next run.
        """
        target, account = BlobTarget.of(group[0].message), _account_of(group)
        until = deadline.within(TIME_PER_TARGET)
        if account in away:
            self._defer(group, self._keep_or_drop, leave_at)
            return
        left = dict(enumerate(group))
        defer = self._hide  # Not reached in time is not a failure.
        try:
            self._delete_written(target, left, topic_of)
            for batch in batches(self._sized(left)):
                if until.has_passed:
                    break
                self._write_batch(target, batch, left, topic_of, until)
        except _DestinationFailed as error:
            defer = self._keep_or_drop
            if isinstance(error.__cause__, StorageUnreachable):
                away.add(account)
                self._away.add(account)
            telemetry.error("deadletter.failed", **target.log_fields, detail=str(error))
        finally:
            group[:] = left.values()  # A fault concerns only these.
        self._defer(group, defer, leave_at)

    def _defer(
        self, group: list[ReadMessage], defer: Callable[[ReadMessage], None], leave_at: Deadline
    ) -> None:
        """Defer messages; those that are not reached in time become visible again by themselves."""
        for each in group:
            if leave_at.has_passed:
                break
            defer(each)

    def _delete_written(self, target: BlobTarget, left: _Left, topic_of: _TopicOf) -> None:
        """
        Delete messages whose blob a run has written that ended before it could delete them.

        It may not have announced the blob: it is announced again.
        """
        numbers: dict[str, list[int]] = defaultdict(list)
        for number, each in left.items():
            numbers[each.message.blob].append(number)
        numbers.pop("", None)
        for path, its in numbers.items():
            with _destination():
                blob = self.store.find(target.destination, path)
            if blob is None:
                continue
            deliveries = [each for number in its for each in left[number].message.deliveries]
            texts = (each.text for each in with_texts(deliveries, self.payloads))
            topic = topic_of(target.destination.account)
            if topic and is_news(target.subscription.topic, texts):
                self.notices.publish(topic, [*self._before(target, path), blob])
            self._delete(its, left)

    def _before(self, target: BlobTarget, last_path: str) -> Iterator[WrittenBlob]:
        """Yield the other blobs of a message that fills several."""
        with _destination():
            for number in count(1):
                blob = self.store.find(target.destination, numbered_path(last_path, number))
                if blob is None:
                    return
                yield blob

    def _delete(self, numbers: Iterable[int], left: _Left) -> None:
        self.intake.delete_all(Queue.DEADLETTERS, [left.pop(each) for each in numbers])

    def _sized(self, left: _Left) -> Iterable[tuple[ReadMessage, int, int]]:
        """Yield each message with its records, their number and their size in characters."""
        for number, each in [*left.items()]:
            try:
                deliveries = with_texts(each.message.deliveries, self.payloads)
            except StorageUnavailable as error:
                telemetry.error(
                    "deadletter.failed", **BlobTarget.of(each.message).log_fields, detail=str(error)
                )
                self._keep_or_drop(left.pop(number))
                continue
            missing = [delivery for delivery in deliveries if delivery.text is None]
            records = [
                record
                for delivery in deliveries
                if delivery.text is not None
                for record in self._record(each, delivery, delivery.text)
            ]
            size = sum(len(record.text) for record in records)
            ready = replace(each, number=number, records=records, missing=missing)
            yield ready, len(records), size

    def _record(self, each: ReadMessage, delivery: Delivery, text: str) -> Iterator[LetterText]:
        """Yield the event's record; if none can be made, write the event to ``poison``."""
        try:
            form = namespace_record if TopicName.parse(each.message.topic) else record
            dead = form(delivery, text, note_of(each.message))
            yield LetterText(dead, event_names(text).about, delivery)
        except (ValueError, TypeError, LookupError, RecursionError) as error:
            reason = f"the dead letter can't be built: {error!r}"
            its = [(each.message.key, delivery)]
            self.intake.records.write(Queue.DEADLETTERS, each.received.text, reason, its)

    def _write_batch(
        self,
        target: BlobTarget,
        batch: list[ReadMessage],
        left: _Left,
        topic_of: _TopicOf,
        until: Deadline,
    ) -> None:
        """
        Write those messages to a blob that can be reserved in time; notify, and delete them.

        Each message stores the path first, so a run that ends half-way repeats nothing: the next
        one finds the blob there. A path is used only if every message that has it is in the blob.
        """
        path, reserved, is_whole = self._reserve_path(target, batch, left, until)
        while not is_whole:
            path, reserved, is_whole = self._reserve_path(target, reserved, left, until)
        with _destination():
            blobs = self._store(target, reserved, path)
        if blobs and (topic := topic_of(target.destination.account)):
            self.notices.publish(topic, blobs)
        self._delete((ready.number for ready in reserved), left)

    def _reserve_path(
        self, target: BlobTarget, batch: list[ReadMessage], left: _Left, until: Deadline
    ) -> tuple[str, list[ReadMessage], bool]:
        """
        Return the path of a new blob, which messages of the batch store it, and if no other may.

        None but the first is asked after *until*.
        """
        named = target.subscription
        path = path_of_several(batch) or dead_letter_path(*named, self.clock.now(), self.new_id())
        reserved: list[ReadMessage] = []
        is_whole = True
        for ready in batch:
            if reserved and until.has_passed:
                break
            if self._reserve_message(ready.number, path, left):
                reserved.append(ready)
            else:
                is_whole = False
        return path, reserved, is_whole

    def _reserve_message(self, number: int, path: str, left: _Left) -> bool:
        """
        Store the path with a message.

        ``False`` if another run has received it, or if the path was stored and the answer lost.
        """
        each, hidden_at = left[number], self.intake.monotonic()
        text = with_blob(each.received.text, path)
        receipt = each.received.receipt
        renewed = self.on_loop(self.sender.replace(Queue.DEADLETTERS, receipt, text, HIDDEN_FOR))
        if renewed is None:
            del left[number]
            return False
        received = replace(each.received, text=text, receipt=renewed)
        left[number] = replace(each, received=received, hidden_at=hidden_at)
        return True

    def _store(
        self, target: BlobTarget, batch: list[ReadMessage], last_path: str
    ) -> list[WrittenBlob]:
        """
        Write the records of a batch; that of *last_path* is the last blob.

        Return the blobs that subscribers are notified of.
        """
        named, blobs = target.subscription, []
        parts = parts_of(batch)
        for number, part in enumerate(parts, 1):
            texts = [each.text for each, _ in part]
            deliveries = [each.delivery for each, _ in part]
            traces: dict[str, Any] = {"trace_ids": distinct(each.trace_id for each in deliveries)}
            path = last_path if number == len(parts) else numbered_path(last_path, number)
            reasons = Counter(reason for _, reason in part)
            summary = summary_of(target, batch, reasons)._replace(first=part[0][0].about)
            counts = {_series(reason): Sum.of([times]) for reason, times in reasons.items()}
            written = blob_body(texts), summary, KeyedCounts(named, counts)
            stored = self.store.write(target.destination, path, *written)
            if stored:
                if is_news(named.topic, texts):
                    blobs.append(stored)
                causes = Counter(each.last.cause for each in deliveries if each.last)
                telemetry.warning(
                    "deadletter_batch",
                    topic=named.topic,
                    subscription=named.subscription,
                    **target.destination_fields,
                    path=path,
                    count=len(texts),
                    cause=causes.most_common(1)[0][0] if causes else None,
                    **traces,
                )
                for each, sum_ in () if stored.is_counted else counts.items():
                    self.metrics.count(each.metric, *named, by=sum_, **dict(each.dimensions))
            else:
                self.ends.dropped(
                    _dropped(named, EndReason.CONTAINER_NOT_FOUND, deliveries),
                    **target.destination_fields,
                    **traces,
                )
        for ready in batch:
            self.intake.count_gone(ready.message)
            if ready.missing:
                gone = _dropped(named, EndReason.PAYLOAD_MISSING, ready.missing)
                self.ends.dropped(gone)
        return blobs

    def _keep_or_drop(self, each: ReadMessage) -> None:
        message = each.message
        if trusted_now(self.clock) < note_of(message).keep_until:
            self._hide(each)
            return
        where, reason = BlobTarget.of(message).destination_fields, EndReason.DESTINATION_UNAVAILABLE
        self.ends.dropped(_dropped(message.key, reason, message.deliveries), **where)
        self.intake.count_gone(message)
        self.receiver.delete(Queue.DEADLETTERS, each.received)

    def _hide(self, each: ReadMessage) -> None:
        self.receiver.hide(Queue.DEADLETTERS, each.received, AGAIN_IN)


def _series(reason: EndReason) -> Series:
    return Series(Metric.DEAD_LETTERED, (("DeadLetterReason", str(reason)),))


def _account_of(group: list[ReadMessage]) -> str:
    return BlobTarget.of(group[0].message).destination.account


def _dropped(
    key: SubscriptionKey, reason: EndReason, deliveries: Iterable[Delivery]
) -> list[Ended]:
    return [Ended(key, each, reason, EndState.DROPPED) for each in deliveries]
