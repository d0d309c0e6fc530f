"""Write the dead letters that have waited long enough: one blob per subscription and run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from shared import telemetry
from shared.clock import Clock
from shared.deadletter.batching import batches, blob_body, blob_path
from shared.deadletter.record import record
from shared.delivery.message import DeadLetterNote
from shared.delivery.policy import EndReason
from shared.engine.payloads import texts_of
from shared.engine.ports import DeadLetterStore, PayloadStore, Queue, Receiver
from shared.engine.progress import dropped
from shared.engine.receiving import Intake, Readable
from shared.errors import StorageUnavailable

AGAIN_IN = timedelta(minutes=1)  # until a destination that failed is tried again
DESTINATION_FOR = timedelta(minutes=1)  # of one run, so that no destination holds up the others


class _Place(NamedTuple):
    """Where a blob goes: dead letters of one subscription share one."""

    account: str
    container: str
    topic: str
    subscription: str


class _Ready(NamedTuple):
    """A message with the records of its events."""

    readable: Readable
    records: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteDeadLetters:
    """
    The timer's first job.

    *keep* is how long, from the end of an event, a failing write is tried before it is dropped.
    """

    intake: Intake
    receiver: Receiver
    payloads: PayloadStore
    store: DeadLetterStore
    clock: Clock
    new_id: Callable[[], str]
    keep: timedelta

    def run(self, deadline: datetime) -> None:
        """
        Write everything visible; delete messages only after their blob is stored.

        Raises:
            StorageUnavailable: queues failed; the rest stays where it is.
        """
        while taken := self.intake.take(Queue.DEADLETTERS, deadline):
            places: dict[_Place, list[Readable]] = defaultdict(list)
            for each in taken:
                destination = _note(each).destination
                message = each.message
                places[
                    _Place(
                        destination.account,
                        destination.container,
                        message.topic.lower(),
                        message.subscription.lower(),
                    )
                ].append(each)
            for place, group in places.items():
                self._write_place(place, group, min(deadline, self.clock.now() + DESTINATION_FOR))

    def _write_place(self, place: _Place, group: list[Readable], deadline: datetime) -> None:
        """Write one subscription's blobs; what fails or comes too late stays for another run."""
        pending = list(group)
        try:
            for batch in batches(self._sized(group)):
                if self.clock.now() >= deadline:
                    break
                self._write_batch(place, batch)
                del pending[: len(batch)]
        except StorageUnavailable as error:
            telemetry.error(
                "deadletter.failed",
                topic=place.topic,
                subscription=place.subscription,
                container=place.container,
                detail=str(error),
            )
        for each in pending:
            self._keep_or_drop(each)

    def _sized(self, group: list[Readable]) -> Iterable[tuple[_Ready, int, int]]:
        """Yield each message with its records, their number and their size."""
        for each in group:
            note = _note(each)
            records = []
            for delivery, text in texts_of(each.message.deliveries, self.payloads):
                if text is None:
                    dropped(each.message, [delivery], EndReason.PAYLOAD_MISSING)
                else:
                    records.append(record(delivery, text, note))
            yield _Ready(each, records), len(records), sum(map(len, records))

    def _write_batch(self, place: _Place, batch: list[_Ready]) -> None:
        records = [(text, 1, len(text)) for ready in batch for text in ready.records]
        for texts in batches(records):
            path = blob_path(place.subscription, self.clock.now(), self.new_id())
            stored = self.store.write(place.account, place.container, path, blob_body(texts))
            telemetry.warning(
                "deadletter_batch" if stored else "delivery.dropped",
                topic=place.topic,
                subscription=place.subscription,
                container=place.container,
                path=path if stored else None,
                reason=None if stored else EndReason.CONTAINER_NOT_FOUND,
                count=len(texts),
            )
        for ready in batch:
            self.receiver.delete(Queue.DEADLETTERS, ready.readable.received)

    def _keep_or_drop(self, each: Readable) -> None:
        if self.clock.now() - _note(each).ended_at < self.keep:
            self.receiver.hide(Queue.DEADLETTERS, each.received, AGAIN_IN)
        else:
            dropped(each.message, each.message.deliveries, EndReason.DESTINATION_UNAVAILABLE)
            self.receiver.delete(Queue.DEADLETTERS, each.received)


def _note(each: Readable) -> DeadLetterNote:
    note = each.message.dead_letter
    if note is None:  # pragma: no cover - nobody else writes to this queue
        raise ValueError("a delivery among the dead letters")
    return note
