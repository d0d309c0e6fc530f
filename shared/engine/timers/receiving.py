"""Receives messages from the queues that have no trigger."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

from shared import telemetry
from shared.clock import Clock, Deadline
from shared.delivery.delivery import Delivery
from shared.delivery.messages.message import MessagePart, OtherVersion, ReplayStep
from shared.delivery.messages.message_reader import decode
from shared.engine.keeping.clock_records import ClockRecords
from shared.engine.keeping.payload_texts import with_texts
from shared.engine.keeping.poison_records import PoisonRecords
from shared.engine.keeping.requeue import OTHER_VERSION_AGAIN_IN
from shared.engine.ports import Metrics, PayloadStore, Queue, Received, Receiver
from shared.errors import (
    Conflict,
    FirstFault,
    MalformedMessage,
    StorageUnavailable,
    UnreadableDocument,
    is_transient,
)
from shared.metrics import Metric

HIDDEN_FOR = timedelta(minutes=5)  # longer than any run of a timer
BEGUN_WITHIN = HIDDEN_FOR / 2  # after that, what was taken is left: it must not come again midway
MAX_RECEIVES = 5  # of a message with a fault of its own, before it is recorded
MAX_INTAKE_MESSAGES = 1000  # so that what a run leaves at its deadline is little
MAX_INTAKE_EVENTS = 20_000  # in memory at once
MAX_INTAKE_BYTES = 64 * 1024 * 1024  # likewise


class LetterText(NamedTuple):
    """A dead letter, its event's type and subject, and whose it is."""

    text: str
    about: str
    delivery: Delivery


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadMessage:
    """A received message and its parts; of dead letters, with what its blob gets."""

    received: Received
    parts: tuple[MessagePart, ...]
    hidden_at: float  # seconds of a monotonic clock, before it was received or hidden anew
    number: int = 0  # among those that share blobs
    records: Sequence[LetterText] = ()
    missing: Sequence[Delivery] = ()  # those whose payload is

    @property
    def message(self) -> MessagePart:
        """The only part of a message of dead letters."""
        (part,) = self.parts
        return part


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    """Receives visible messages; one that can't be handled is recorded and blocks no other."""

    receiver: Receiver
    records: PoisonRecords
    payloads: PayloadStore
    clock: Clock
    monotonic: Callable[[], float]
    clock_records: ClockRecords
    end_replay: Callable[[ReplayStep], None]  # whose step the host has given up
    metrics: Metrics

    def take(self, queue: Queue, deadline: Deadline) -> list[ReadMessage]:
        """
        Receive messages until the queue is empty, a limit is reached, or half the time is over.

        The other half until *deadline* is for what is done with them.

        Raises:
            StorageUnavailable: nothing was received.
        """
        taken: list[ReadMessage] = []
        events = size = 0
        until = deadline.within(deadline.time_left / 2)
        while (
            len(taken) < MAX_INTAKE_MESSAGES
            and events < MAX_INTAKE_EVENTS
            and size < MAX_INTAKE_BYTES
            and not until.has_passed
        ):
            hidden_at = self.monotonic()
            try:
                batch = self.receiver.receive(queue, HIDDEN_FOR)
            except StorageUnavailable:
                if not taken:
                    raise
                break  # Handle what is hidden already.
            if not batch:
                break
            for received in batch:
                if parts := self._read(queue, received):
                    taken.append(ReadMessage(received=received, parts=parts, hidden_at=hidden_at))
                    deliveries = [each for part in parts for each in part.deliveries]
                    events += len(deliveries)
                    size += sum(len(each.text or "") for each in deliveries)
        return taken

    def delete_all(self, queue: Queue, messages: Sequence[ReadMessage]) -> None:
        """
        Delete messages that were replaced; one that can't be deleted keeps no other.

        Raises:
            StorageUnavailable: some are left, by whatever fault, or because they are not hidden any
                more. They come again, but what replaces them must not be stored again now.
        """
        first, deleted = FirstFault(), 0
        for each in messages:
            if self.monotonic() - each.hidden_at >= HIDDEN_FOR.total_seconds():
                continue
            with first:
                self.receiver.delete(queue, each.received)
                deleted += 1
        if left := len(messages) - deleted:
            why = first.fault or "they are visible again"
            message = f"{left} of {len(messages)} replaced messages of '{queue}' are left: {why!r}"
            raise StorageUnavailable(message) from first.fault

    def for_each(
        self,
        queue: Queue,
        groups: Iterable[list[ReadMessage]],
        act: Callable[[list[ReadMessage]], object],
        deadline: Deadline,
        cause: Exception | None = None,
    ) -> Exception | None:
        """
        Act on each group of messages on its own until *deadline*; return the first fault.

        What is left then, or by *act* in a group that fails, becomes visible again. Nor is a group
        begun later than `BEGUN_WITHIN`: another run must not receive what this one is about to
        store anew. Of several messages with a fault of their own, each is tried alone in that time;
        one that was received `MAX_RECEIVES` times is recorded. *cause* is the fault of all of them:
        it is returned if one is left.
        """
        first: Exception | None = None
        for group in groups:
            oldest = min(each.hidden_at for each in group)
            is_late = self.monotonic() - oldest >= BEGUN_WITHIN.total_seconds()
            if is_late or deadline.has_passed:
                return first or cause
            try:
                act(group)
            except Exception as fault:  # noqa: BLE001 - the others go on
                if len(group) > 1 and not is_transient(fault):
                    alone = [[each] for each in group]
                    left = self.for_each(queue, alone, act, deadline, fault)
                else:
                    left = self._unhandled(queue, group, fault)
                first = first or left
        return first

    def record(self, queue: Queue, message: ReadMessage, reason: str) -> None:
        """
        Record a message that can't be handled with its events, then delete it.

        Raises:
            StorageUnavailable: the message becomes visible again later.
        """
        self._write(queue, message.received.text, reason, message.parts)
        self.receiver.delete(queue, message.received)
        if queue is Queue.DEADLETTERS:
            self.count_gone(message.message)

    def give_up(self, queue: Queue, body: str, reason: str) -> None:
        """
        Record a message that its store hands over no more, with its events.

        A step of a replay ends its job.

        Raises:
            StorageUnavailable, Conflict: the message must not be deleted.
        """
        parts: tuple[MessagePart, ...] = ()
        with suppress(MalformedMessage):  # of what is not readable the text alone is recorded
            found = decode(body.encode(), self.clock_records.bounds())
            if isinstance(found, ReplayStep):
                self._end_replay_of(found)
            elif not isinstance(found, OtherVersion):
                parts = found
        self._write(queue, body, reason, parts)

    def count_gone(self, message: MessagePart) -> None:
        """Count that the events of a message of dead letters wait for their blob no more."""
        self.metrics.count(Metric.AWAITING_BLOB, *message.key, by=-len(message.deliveries))

    def _write(self, queue: Queue, body: str, reason: str, parts: Sequence[MessagePart]) -> None:
        deliveries = [each for part in parts for each in part.deliveries]
        with suppress(ValueError):  # a damaged blob
            deliveries = with_texts(deliveries, self.payloads)
        keys = [part.key for part in parts for _ in part.deliveries]
        self.records.write(queue, body, reason, [*zip(keys, deliveries, strict=True)])

    def _end_replay_of(self, step: ReplayStep) -> None:
        with suppress(UnreadableDocument):  # Such a job makes no steps and blocks no other.
            self.end_replay(step)

    def _unhandled(
        self, queue: Queue, group: list[ReadMessage], fault: Exception
    ) -> Exception | None:
        """Leave messages for a later run, or record what has a fault of its own too often."""
        telemetry.error("message.unhandled", queue=queue, detail=repr(fault))
        if is_transient(fault) or any(each.received.count < MAX_RECEIVES for each in group):
            return fault
        try:
            for each in group:
                self.record(queue, each, f"it can't be handled: {fault!r}")
        except StorageUnavailable as error:
            return error
        return None

    def _read(self, queue: Queue, received: Received) -> tuple[MessagePart, ...]:
        """Return the parts of a message; none if it is left where it is, or was recorded."""
        try:
            return self._decode(queue, received)
        except (Conflict, StorageUnavailable) as error:  # It comes again; the others go on.
            telemetry.error("message.unhandled", queue=queue, detail=str(error))
            return ()

    def _decode(self, queue: Queue, received: Received) -> tuple[MessagePart, ...]:
        try:
            bounds = self.clock_records.bounds()
            found = decode(received.text, bounds)
            if isinstance(found, OtherVersion):
                telemetry.warning("message.other_version", queue=queue, version=found.version)
                self.receiver.hide(queue, received, OTHER_VERSION_AGAIN_IN)
                return ()
            parts = self._deliveries(queue, found)
        except MalformedMessage as error:
            self.records.write(queue, received.text, str(error))
            self.receiver.delete(queue, received)
            return ()
        self.clock_records.record_all(bounds, parts[0].key)
        return parts

    def _deliveries(
        self, queue: Queue, found: tuple[MessagePart, ...] | ReplayStep
    ) -> tuple[MessagePart, ...]:
        """
        Return the parts of a message; a step of a replay failed too often, so it ends its job.

        Raises:
            MalformedMessage: the queue never gets such; its timer can't handle it.
        """
        if isinstance(found, ReplayStep):
            self._end_replay_of(found)
            raise MalformedMessage(f"a step of the replay '{found.job}', which failed too often")
        is_dead_letter = found[0].dead_letter is not None
        if is_dead_letter is not (queue is Queue.DEADLETTERS):
            raise MalformedMessage(f"not a message for the queue '{queue}'")
        return found
