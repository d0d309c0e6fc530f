"""Taking messages off the queues that only timers look at."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from shared.clock import Clock
from shared.delivery.message import DeliveryMessage, NewerMessage
from shared.delivery.message_reader import decode
from shared.engine.poison_records import PoisonRecords
from shared.engine.ports import Queue, Received, Receiver
from shared.errors import MalformedMessage

HIDDEN_FOR = timedelta(minutes=10)  # longer than any run of a timer
NEWER_AGAIN_IN = timedelta(minutes=5)  # until an instance with the newer version may have it
MOST_EVENTS = 20_000  # of one intake: what is held in memory at once …
MOST_BYTES = 64 * 1024 * 1024  # … and how much of it


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
            StorageUnavailable: what was received is visible again when its time is over.
        """
        taken: list[Readable] = []
        events = size = 0
        while events < MOST_EVENTS and size < MOST_BYTES and self.clock.now() < deadline:
            batch = self.receiver.receive(queue, HIDDEN_FOR)
            if not batch:
                break
            for received in batch:
                if message := self._read(queue, received):
                    taken.append(Readable(received=received, message=message))
                    events += len(message.deliveries)
                    size += sum(len(each.text or "") for each in message.deliveries)
        return taken

    def _read(self, queue: Queue, received: Received) -> DeliveryMessage | None:
        try:
            message = decode(received.text)
        except MalformedMessage as error:
            self.records.write(queue, received.text, str(error), ())
            self.receiver.delete(queue, received)
            return None
        if isinstance(message, NewerMessage):
            self.receiver.hide(queue, received, NEWER_AGAIN_IN)
            return None
        return message
