"""Taking messages off the queues that only timers look at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from shared import telemetry
from shared.clock import Clock
from shared.delivery.message import DeliveryMessage, NewerMessage
from shared.delivery.message_reader import decode
from shared.engine.delivering.requeue import NEWER_AGAIN_IN
from shared.engine.ports import Queue, Received, Receiver
from shared.engine.timers.poison_records import PoisonRecords
from shared.errors import MalformedMessage, StorageUnavailable

HIDDEN_FOR = timedelta(minutes=5)  # no run of a timer is longer
MAX_MESSAGES = 1000  # of one intake: each is deleted one by one, and deadlines lie between
MAX_EVENTS = 20_000  # … what is held in memory at once …
MAX_BYTES = 64 * 1024 * 1024  # … and how much of it


@dataclass(frozen=True, slots=True, kw_only=True)
class Readable:
    """A received message that could be read."""

    received: Received
    message: DeliveryMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    """Receives what is visible; what can't be read becomes a record and never blocks the rest."""

    receiver: Receiver
    records: PoisonRecords
    clock: Clock

    def take(self, queue: Queue, deadline: datetime) -> list[Readable]:
        """
        Receive messages until there are no more, they hold very many events, or *deadline*.

        Raises:
            StorageUnavailable: nothing was received.
        """
        taken: list[Readable] = []
        events = size = 0
        while (
            len(taken) < MAX_MESSAGES
            and events < MAX_EVENTS
            and size < MAX_BYTES
            and self.clock.now() < deadline
        ):
            try:
                batch = self.receiver.receive(queue, HIDDEN_FOR)
            except StorageUnavailable:
                if not taken:
                    raise
                break  # What is hidden already should not have to wait.
            if not batch:
                break
            for received in batch:
                if message := self._read(queue, received):
                    taken.append(Readable(received=received, message=message))
                    events += len(message.deliveries)
                    size += sum(len(each.text or "") for each in message.deliveries)
        return taken

    def set_aside(
        self, queue: Queue, received: Received, reason: str, events: Sequence[str | None] = ()
    ) -> None:
        """
        Make a record of a message that can't be handled, and only then delete it.

        Raises:
            StorageUnavailable: it is visible again when its time is over.
        """
        self.records.write(queue, received.text, reason, events)
        self.receiver.delete(queue, received)

    def _read(self, queue: Queue, received: Received) -> DeliveryMessage | None:
        try:
            message = self._decode(queue, received)
            if isinstance(message, NewerMessage):
                self.receiver.hide(queue, received, NEWER_AGAIN_IN)
                return None
        except StorageUnavailable as error:  # It comes again, and the others need not wait for it.
            telemetry.error("message.unhandled", queue=queue, detail=str(error))
            return None
        return message

    def _decode(self, queue: Queue, received: Received) -> DeliveryMessage | NewerMessage | None:
        try:
            message = decode(received.text)
            if isinstance(message, DeliveryMessage):
                _check_place(queue, message)
        except MalformedMessage as error:
            self.set_aside(queue, received, str(error))
            return None
        return message


def _check_place(queue: Queue, message: DeliveryMessage) -> None:
    """Raise MalformedMessage where deliveries lie among dead letters, or these among deliveries."""
    if (message.dead_letter is None) is (queue is Queue.DEADLETTERS):
        raise MalformedMessage(f"not a message for the queue '{queue}'")
