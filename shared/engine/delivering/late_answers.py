"""Cancels what was stored for later when a success comes after the acknowledgement timeout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime

from shared.delivery.delivery import Delivery, DeliveryKey
from shared.delivery.messages.message import DeliveryMessage
from shared.delivery.outcome import DeliveryOutcome
from shared.delivery.requests.push_batch import PushBatch
from shared.engine.delivering.ledger import Ledger
from shared.engine.delivering.requeue import Queued, Requeue
from shared.errors import StorageUnavailable


@dataclass(slots=True, kw_only=True)
class LateAnswers:
    """
    The late answers to the requests of one part, and the messages that they can cancel.

    Deliveries whose success comes before they are stored for later are left out; after that, their
    message is deleted or shrunk. This works until the message is received: then the retry has
    begun, and is a duplicate. Source: contract §3.5, late response rule ("best effort").

    The *lock* is held while messages are stored, so that no success comes in between. *learn* tells
    the gate of a success that was sent then.
    """

    requeue: Requeue
    ledger: Ledger
    lock: AbstractContextManager[object]
    learn: Callable[[datetime], None]
    _delivered: set[DeliveryKey] = field(default_factory=set)
    _dropped: set[DeliveryKey] = field(default_factory=set)
    _stored: list[Queued] = field(default_factory=list)
    _is_abandoned: bool = False

    def abandon(self) -> None:
        """Cancel nothing any more: the message comes again."""
        with self.lock:
            self._is_abandoned = True

    def store(
        self, message: DeliveryMessage, put: Callable[[DeliveryMessage], Sequence[Queued]]
    ) -> int:
        """
        Let *put* store what was not delivered meanwhile; return how many deliveries were.

        Raises:
            StorageUnavailable: as *put* does.
        """
        with self.lock:
            left = tuple(each for each in message.deliveries if each.key not in self._delivered)
            if left:
                self._stored += put(replace(message, deliveries=left))
            return len(message.deliveries) - len(left)

    def drop(self, delivery: Delivery) -> bool:
        """Note that a delivery is to be dropped; ``False`` if it was delivered meanwhile."""
        with self.lock:
            if delivery.key in self._delivered:
                return False
            self._dropped.add(delivery.key)
            return True

    def succeeded(self, batch: PushBatch, outcome: DeliveryOutcome, sent_at: datetime) -> None:
        """Take a late success to deliveries that were pushed at *sent_at*; in any thread."""
        keys = {loaded.delivery.key for loaded in batch}
        with self.lock:
            self._delivered |= keys
            cancelled = self._cancel(keys) and keys.isdisjoint(self._dropped)
            cancelled = cancelled and not self._is_abandoned
        self.ledger.answered_late(batch, outcome, is_cancelled=cancelled)
        self.learn(sent_at)

    def _cancel(self, keys: set[DeliveryKey]) -> bool:
        """Remove deliveries from every message that has them; return whether all could be."""
        kept: list[Queued] = []
        cancelled = True
        for queued in self._stored:
            rest = [each for each in queued.message.deliveries if each.key not in keys]
            if len(rest) == len(queued.message.deliveries):
                kept.append(queued)
                continue
            shrunk = None
            with suppress(StorageUnavailable):  # It is logged as not cancelled; the retry goes on.
                shrunk = self.requeue.shrink(queued, rest)
            cancelled = cancelled and shrunk is not None
            kept.append(shrunk or queued)
        self._stored = kept
        return cancelled
