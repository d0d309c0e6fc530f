"""Cancels what was stored for later when a success comes after the acknowledgement timeout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from functools import partial

from shared import telemetry
from shared.delivery.delivery import Delivery, DeliveryKey
from shared.delivery.delivery_profile import DeliveryProfile
from shared.delivery.messages.message import DeliveryMessage
from shared.delivery.outcome import Outcome, classify
from shared.delivery.requests.push_batch import PushBatch
from shared.engine.delivering.attempt_history import MessageHistory
from shared.engine.delivering.event_texts import event_ids
from shared.engine.delivering.requeue import Queued, Requeue
from shared.engine.ports import Metrics
from shared.errors import StorageUnavailable
from shared.http import Answered, LateAnswerHandler
from shared.metrics import Metric


@dataclass(slots=True, kw_only=True)
class LateAnswers:
    """
    The late answers to one invocation's requests, and the messages that they can cancel.

    Deliveries whose success comes before they are stored for later are left out; after that, their
    message is deleted or shrunk. This works until the message is received: then the retry has
    begun, and is a duplicate. Source: contract §3.5, late response rule ("best effort").

    The *lock* is held while messages are stored, so that no success comes in between.
    """

    message: DeliveryMessage
    profile: DeliveryProfile
    requeue: Requeue
    history: MessageHistory
    lock: AbstractContextManager[object]
    metrics: Metrics
    _delivered: set[DeliveryKey] = field(default_factory=set)
    _dropped: set[DeliveryKey] = field(default_factory=set)
    _stored: list[Queued] = field(default_factory=list)

    def handler(self, batch: PushBatch, succeeded: Callable[[], None]) -> LateAnswerHandler | None:
        """
        Return the handler of a late answer to *batch*; ``None`` if the profile has no such rule.

        *succeeded* is called after a late success, in any thread.
        """
        until = self.profile.late_answers_for
        return (
            LateAnswerHandler(until, partial(self._answered, batch, succeeded)) if until else None
        )

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

    def _answered(self, batch: PushBatch, succeeded: Callable[[], None], answer: Answered) -> None:
        outcome = classify(answer, self.profile.success_codes)
        if outcome.outcome is not Outcome.DELIVERED:
            return  # Its attempt counts as failed already.
        keys = {loaded.delivery.key for loaded in batch}
        with self.lock:
            self._delivered |= keys
            cancelled = self._cancel(keys) and keys.isdisjoint(self._dropped)
        telemetry.info(
            "delivery.answered_late",
            topic=self.message.topic,
            subscription=self.message.subscription,
            count=len(batch),
            event_ids=event_ids([text for _, text in batch]),
            status=outcome.status,
            seconds=round(outcome.seconds, 3),
            cancelled=cancelled,
        )
        if cancelled:  # Otherwise it is delivered again, or is counted as dropped.
            self.metrics.count(Metric.DELIVERY_SUCCESS, *self.message.key, by=len(batch))
            self.history.answered_late(batch, outcome.seconds)
        succeeded()

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
