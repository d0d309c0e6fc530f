"""Where what comes next is stored, and until when it stays hidden."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from shared.clock import Clock
from shared.delivery.message import DeliveryMessage, encode
from shared.engine.ports import Queue, Sender
from shared.errors import StorageUnavailable

LONG_WAIT = timedelta(minutes=10)  # what waits longer must not make Azure scale out
WAKE_AHEAD = timedelta(minutes=1)  # the period of the timer that looks at the long waits
NEWER_AGAIN_IN = timedelta(minutes=5)  # until an instance with the newer version may have it
PATIENCE = timedelta(minutes=2)  # how long a failing put is repeated
_PAUSES = (0.2, 0.5, 1, 2, 5, 10)  # seconds between those puts; the last one repeats


@dataclass(frozen=True, slots=True, kw_only=True)
class Requeue:
    """Stores messages for later, and does not give up at the first failure."""

    sender: Sender
    clock: Clock
    sleep: Callable[[float], None]

    def at_due(self, message: DeliveryMessage) -> None:
        """
        Store deliveries so that they are received at ``message.due``, or now without one.

        Raises:
            StorageUnavailable: storage failed for two minutes; nothing is promised.
        """
        wait = (message.due - self.clock.now()) if message.due else timedelta()
        if wait > LONG_WAIT:
            self._put_all(Queue.WAITING, message, wait - WAKE_AHEAD)
        else:
            self._put_all(Queue.RETRIES, message, max(wait, timedelta()))

    def as_dead_letters(self, message: DeliveryMessage, visible_at: datetime) -> None:
        """
        Store ended deliveries so that the next timer after *visible_at* writes their blob.

        Raises:
            StorageUnavailable: storage failed for two minutes; nothing is promised.
        """
        wait = max(visible_at - self.clock.now(), timedelta())
        self._put_all(Queue.DEADLETTERS, message, wait)

    def put(self, queue: Queue, text: str, visible_in: timedelta) -> None:
        """Put one message, patiently. Raises StorageUnavailable after two minutes of failures."""
        give_up_at = self.clock.now() + PATIENCE
        failures = 0
        while True:
            try:
                self.sender.put(queue, text, visible_in)
            except StorageUnavailable:
                if self.clock.now() >= give_up_at:
                    raise
                self.sleep(_PAUSES[min(failures, len(_PAUSES) - 1)])
                failures += 1
            else:
                return

    def _put_all(self, queue: Queue, message: DeliveryMessage, visible_in: timedelta) -> None:
        for text in encode(message):
            self.put(queue, text, visible_in)
