"""Stores deliveries for later: chooses the queue, and how long they stay hidden."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from shared.clock import Clock
from shared.delivery.delivery import Delivery
from shared.delivery.messages.message import DeliveryMessage, encode_parts, encode_remaining
from shared.engine.ports import Queue, Receipt, Sender
from shared.errors import StorageUnavailable, Unstorable

LONG_WAIT = timedelta(minutes=10)  # longer waits must not make Azure scale out
LONG_HOLD = timedelta(minutes=1)  # likewise for held deliveries, of which there may be many
WAKE_AHEAD = timedelta(minutes=1)  # the period of the wake timer
NEWER_AGAIN_IN = timedelta(minutes=5)  # until an instance of the newer version receives it
PATIENCE = timedelta(minutes=2)  # with a failing put
_PAUSES = (0.2, 0.5, 1, 2, 5, 10)  # seconds between puts; the last one repeats


class Queued(NamedTuple):
    """A stored message, with what it takes to change it."""

    queue: Queue
    receipt: Receipt
    message: DeliveryMessage
    visible_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Requeue:
    """Stores messages for later; failing puts are repeated for up to two minutes."""

    sender: Sender
    clock: Clock
    sleep: Callable[[float], None]

    def at_due(
        self,
        message: DeliveryMessage,
        *,
        long: timedelta = LONG_WAIT,
        patience: timedelta = PATIENCE,
    ) -> list[Queued]:
        """
        Store deliveries so that they are received at ``message.due``, or now without one.

        Waits longer than *long* are spent on the queue without a trigger.

        Raises:
            StorageUnavailable: storage failed for as long; the put may or may not be stored.
        """
        wait = (message.due - self.clock.now()) if message.due else timedelta()
        if wait > long:
            return self._put_all(Queue.WAITING, message, wait - WAKE_AHEAD, patience)
        return self._put_all(Queue.RETRIES, message, max(wait, timedelta()), patience)

    def as_dead_letters(self, message: DeliveryMessage, visible_at: datetime) -> list[Queued]:
        """
        Store ended deliveries so that the next timer after *visible_at* writes their blob.

        Raises:
            StorageUnavailable: storage failed for two minutes; the put may or may not be stored.
        """
        wait = max(visible_at - self.clock.now(), timedelta())
        return self._put_all(Queue.DEADLETTERS, message, wait)

    def shrink(self, queued: Queued, deliveries: Sequence[Delivery]) -> Queued | None:
        """
        Leave only *deliveries* in a stored message; delete it if there are none.

        It stays hidden as long as before. ``None`` if it was received meanwhile: then it is
        unchanged.

        Raises:
            StorageUnavailable: it may or may not be changed.
        """
        queue, receipt = queued.queue, queued.receipt
        message = replace(queued.message, deliveries=tuple(deliveries))
        if not deliveries:
            gone = self.sender.take_back(queue, receipt)
            return queued._replace(message=message) if gone else None
        wait = max(queued.visible_at - self.clock.now(), timedelta())
        renewed = self.sender.replace(queue, receipt, encode_remaining(message), wait)
        return queued._replace(message=message, receipt=renewed) if renewed else None

    def put(
        self, queue: Queue, text: str, visible_in: timedelta, patience: timedelta = PATIENCE
    ) -> Receipt:
        """
        Put one message.

        Raises:
            Unstorable: it is too large.
            StorageUnavailable: puts failed for as long as *patience*.
        """
        give_up_at = self.clock.now() + patience
        failures = 0
        while True:
            try:
                return self.sender.put(queue, text, visible_in)
            except Unstorable:
                raise
            except StorageUnavailable:
                if self.clock.now() >= give_up_at:
                    raise
                self.sleep(_PAUSES[min(failures, len(_PAUSES) - 1)])
                failures += 1

    def _put_all(
        self,
        queue: Queue,
        message: DeliveryMessage,
        visible_in: timedelta,
        patience: timedelta = PATIENCE,
    ) -> list[Queued]:
        visible_at = self.clock.now() + visible_in
        return [
            Queued(queue, self.put(queue, text, visible_in, patience), part, visible_at)
            for part, text in encode_parts(message)
        ]
