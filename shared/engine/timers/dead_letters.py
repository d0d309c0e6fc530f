"""Write the dead letters that have waited long enough: one blob per subscription and run."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from shared import telemetry
from shared.clock import Clock
from shared.deadletter.batching import batches, blob_body, dead_letter_path
from shared.deadletter.namespace_record import namespace_record
from shared.deadletter.record import record
from shared.delivery.delivery import Delivery
from shared.delivery.message import DeadLetterNote
from shared.delivery.policy import EndReason
from shared.engine.delivering.drops import dropped
from shared.engine.delivering.payloads import texts_of
from shared.engine.ports import DeadLetterStore, Metrics, PayloadStore, Queue, Receiver
from shared.engine.timers.receiving import Intake, Readable
from shared.errors import StorageUnavailable
from shared.events.topic import TopicName
from shared.metrics import Metric

AGAIN_IN = timedelta(minutes=1)  # until a destination that failed is tried again
DESTINATION_FOR = timedelta(minutes=1)  # of one run, so that no destination holds up the others


class _Place(NamedTuple):
    """Where a blob goes: dead letters of one subscription share one."""

    container: str
    topic: str
    subscription: str

    @property
    def folded(self) -> _Place:
        """What places have in common that are the same: names are, whatever their case."""
        return _Place(self.container, self.topic.lower(), self.subscription.lower())


class _Ready(NamedTuple):
    """A message with the records of its events, and those whose event is gone."""

    readable: Readable
    records: list[str]
    missing: list[Delivery]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteDeadLetters:
    """The timer's first job."""

    intake: Intake
    receiver: Receiver
    payloads: PayloadStore
    store: DeadLetterStore
    clock: Clock
    new_id: Callable[[], str]
    metrics: Metrics

    def run(self, deadline: datetime) -> None:
        """
        Write everything visible; delete messages only after their blob is stored.

        Raises:
            StorageUnavailable: queues failed; the rest stays where it is.
        """
        while taken := self.intake.take(Queue.DEADLETTERS, deadline):
            places: dict[_Place, list[Readable]] = defaultdict(list)
            for each in taken:
                places[_place(each).folded].append(each)
            for group in places.values():
                until = min(deadline, self.clock.now() + DESTINATION_FOR)
                self._write_place(_place(group[0]), group, until)

    def _write_place(self, place: _Place, group: list[Readable], deadline: datetime) -> None:
        """Write one subscription's blobs; what fails or comes too late stays for another run."""
        stored = 0
        leave = self._hide  # What comes too late was not even tried.
        try:
            for batch in batches(self._sized(group)):
                if self.clock.now() >= deadline:
                    break
                self._store(place, batch)
                stored += len(batch)
        except StorageUnavailable as error:
            leave = self._keep_or_drop
            telemetry.error("deadletter.failed", **_named(place), detail=str(error))
        for each in group[:stored]:
            self.receiver.delete(Queue.DEADLETTERS, each.received)
        for each in group[stored:]:
            leave(each)

    def _sized(self, group: list[Readable]) -> Iterable[tuple[_Ready, int, int]]:
        """Yield each message with its records, their number and their size."""
        for each in group:
            ready = _Ready(each, [], [])
            for delivery, text in texts_of(each.message.deliveries, self.payloads):
                if text is None:
                    ready.missing.append(delivery)
                else:
                    ready.records.extend(self._record(each, delivery, text))
            yield ready, len(ready.records), sum(map(len, ready.records))

    def _record(self, each: Readable, delivery: Delivery, text: str) -> Iterator[str]:
        """Yield the event's dead letter; where none can be made, that never harms the others."""
        try:
            form = namespace_record if TopicName.parse(each.message.topic) else record
            yield form(delivery, text, _note(each))
        except (ValueError, TypeError, LookupError, RecursionError) as error:
            reason = f"no dead letter can be made: {error!r}"
            self.intake.records.write(Queue.DEADLETTERS, each.received.text, reason, [text])

    def _store(self, place: _Place, batch: list[_Ready]) -> None:
        named = place.topic, place.subscription
        records = [
            ((text, _note(ready.readable).reason), 1, len(text))
            for ready in batch
            for text in ready.records
        ]
        for part in batches(records):
            texts = [text for text, _ in part]
            path = dead_letter_path(*named, self.clock.now(), self.new_id())
            stored = self.store.write(place.container, path, blob_body(texts))
            if stored:
                telemetry.warning("deadletter_batch", **_named(place), path=path, count=len(texts))
                for reason, count in Counter(reason for _, reason in part).items():
                    self.metrics.count(
                        Metric.DEAD_LETTERED, *named, by=count, DeadLetterReason=reason
                    )
            else:
                dropped(
                    self.metrics,
                    named,
                    EndReason.CONTAINER_NOT_FOUND,
                    texts,
                    container=place.container,
                )
        for ready in batch:
            if ready.missing:
                gone = [None] * len(ready.missing)
                dropped(self.metrics, named, EndReason.PAYLOAD_MISSING, gone)

    def _keep_or_drop(self, each: Readable) -> None:
        if self.clock.now() < _note(each).keep_until:
            self._hide(each)
        else:
            message = each.message
            texts = [delivery.text for delivery in message.deliveries]
            reason = EndReason.DESTINATION_UNAVAILABLE
            dropped(self.metrics, (message.topic, message.subscription), reason, texts)
            self.receiver.delete(Queue.DEADLETTERS, each.received)

    def _hide(self, each: Readable) -> None:
        self.receiver.hide(Queue.DEADLETTERS, each.received, AGAIN_IN)


def _place(each: Readable) -> _Place:
    message = each.message
    return _Place(_note(each).destination.container, message.topic, message.subscription)


def _named(place: _Place) -> dict[str, str]:
    """Return what names a place in the log."""
    return {
        "topic": place.topic,
        "subscription": place.subscription,
        "container": place.container,
    }


def _note(each: Readable) -> DeadLetterNote:
    note = each.message.dead_letter
    if note is None:  # pragma: no cover - the intake lets no other message through
        raise ValueError("a delivery among the dead letters")
    return note
