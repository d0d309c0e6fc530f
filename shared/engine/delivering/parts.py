"""Turns a message into parts: what one subscription gets of it, with what deciding needs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

from shared.clock import Clock
from shared.delivery.delivery import Delivery
from shared.delivery.messages.message import DeliveryMessage
from shared.delivery.policy import DeliveryTerms, End, EndReason, Go, before_attempt
from shared.delivery.requests.push_batch import Loaded
from shared.engine.delivering.deployment_terms import DeploymentTerms
from shared.engine.delivering.event_texts import texts_of
from shared.engine.delivering.ledger import log_dropped
from shared.engine.delivering.requeue import Requeue
from shared.engine.ports import Metrics, PayloadStore, SubscriptionReader
from shared.errors import StorageUnavailable
from shared.subscriptions.subscription import EventSubscription

EARLY = timedelta(seconds=2)  # what is received more than this before its due time is put back
UNSURE_AGAIN_IN = timedelta(minutes=1)  # until storage may be back


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Part:
    """
    The deliveries of one subscription in a message, judged before their attempt.

    *to_push* are those to push, *ended* those that are not tried any more, *lost* those whose
    event is gone.
    """

    message: DeliveryMessage
    subscription: EventSubscription
    terms: DeliveryTerms
    to_push: tuple[Loaded, ...]
    ended: tuple[tuple[Loaded, End], ...]
    lost: tuple[Delivery, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Reads what parts need, and puts back or drops those that can't be delivered now."""

    subscriptions: SubscriptionReader
    payloads: PayloadStore
    terms: DeploymentTerms
    requeue: Requeue
    metrics: Metrics
    clock: Clock

    def of(self, message: DeliveryMessage) -> Part | None:
        """
        Return the part of one subscription; ``None``: it is put back or dropped.

        Raises:
            StorageUnavailable: it can't be put back.
        """
        if message.due and message.due - self.clock.now() > EARLY:
            self.requeue.at_due(message)
            return None
        try:
            subscription = self._subscription(message)
            if isinstance(subscription, EndReason):
                texts = [delivery.text for delivery in message.deliveries]
                log_dropped(self.metrics, message.key, subscription, texts)
                return None
            return self._judged(message, subscription)
        except StorageUnavailable:
            again_at = self.clock.now() + UNSURE_AGAIN_IN
            self.requeue.at_due(replace(message, due=again_at))
            return None

    def is_unchanged(self, used: EventSubscription) -> bool:
        """Tell whether *used* is what is stored now; ``False`` if that can't be read."""
        try:
            return self.subscriptions.read_uncached(used.key) == used
        except StorageUnavailable:
            return False

    def _subscription(self, message: DeliveryMessage) -> EventSubscription | EndReason:
        """Return the message's subscription, or why it has ended, which is always read uncached."""
        found = self._unless_ended(self.subscriptions.subscription(message.key), message)
        if isinstance(found, EndReason):
            found = self._unless_ended(self.subscriptions.read_uncached(message.key), message)
        return found

    def _unless_ended(
        self, found: EventSubscription | None, message: DeliveryMessage
    ) -> EventSubscription | EndReason:
        if found is None or found.generation != message.generation:
            return EndReason.SUBSCRIPTION_DELETED
        is_expired = found.is_expired(self.clock.now())
        return EndReason.SUBSCRIPTION_EXPIRED if is_expired else found

    def _judged(self, message: DeliveryMessage, subscription: EventSubscription) -> Part:
        terms, now = self.terms.of(subscription), self.clock.now()
        to_push: list[Loaded] = []
        ended: list[tuple[Loaded, End]] = []
        lost: list[Delivery] = []
        for delivery, text in texts_of(message.deliveries, self.payloads):
            verdict = before_attempt(delivery, terms, now)
            if text is None:
                lost.append(delivery)
            elif isinstance(verdict, Go):
                to_push.append(Loaded(delivery, text))
            else:
                ended.append((Loaded(delivery, text), verdict))
        return Part(
            message=message,
            subscription=subscription,
            terms=terms,
            to_push=tuple(to_push),
            ended=tuple(ended),
            lost=tuple(lost),
        )
