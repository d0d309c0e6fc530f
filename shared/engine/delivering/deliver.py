"""Delivers one queue message: pushes its events, and stores what follows before it returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache

from shared import telemetry
from shared.clock import Clock
from shared.delivery.delivery import Delivery
from shared.delivery.messages.message import DeliveryMessage, NewerMessage
from shared.delivery.messages.message_reader import decode
from shared.delivery.policy import DeliveryTerms, EndReason, Go, before_attempt
from shared.delivery.requests.push_batch import Loaded, push_batches
from shared.engine.delivering.allowed_rates import AllowedRates
from shared.engine.delivering.attempt_history import AttemptHistory
from shared.engine.delivering.deployment_terms import DeploymentTerms
from shared.engine.delivering.detaching import Detachment
from shared.engine.delivering.drops import dropped
from shared.engine.delivering.event_texts import texts_of
from shared.engine.delivering.late_answers import LateAnswers
from shared.engine.delivering.pushing import Pushing
from shared.engine.delivering.requeue import NEWER_AGAIN_IN, Requeue
from shared.engine.delivering.settlement import Settlement
from shared.engine.delivering.shared_health import HealthTracker
from shared.engine.ports import (
    Metrics,
    PayloadStore,
    Pusher,
    PushPool,
    Queue,
    SubscriptionReader,
    Tokens,
)
from shared.errors import MalformedMessage, StorageUnavailable
from shared.subscriptions.subscription import EventSubscription

EARLY = timedelta(seconds=2)  # a message received more than this before its due time is put back
UNSURE_AGAIN_IN = timedelta(minutes=1)  # until storage may be back


@dataclass(frozen=True, slots=True, kw_only=True)
class Deliver:
    """The use case of both queue triggers: first attempts and retries."""

    subscriptions: SubscriptionReader
    payloads: PayloadStore
    pusher: Pusher
    pool: PushPool
    requeue: Requeue
    history: AttemptHistory
    clock: Clock
    jitter: Callable[[], float]
    terms: DeploymentTerms
    new_lock: Callable[[], AbstractContextManager[object]]
    health: HealthTracker
    rates: AllowedRates
    tokens: Tokens
    metrics: Metrics

    def run(self, body: bytes, end_invocation: Callable[[], None] = lambda: None) -> None:
        """
        Push what is due of one message.

        *end_invocation* is called if the endpoint is slow, once the host may delete its message:
        the invocation can end while the pushes go on.

        Raises:
            MalformedMessage, StorageUnavailable: the app's fault; the host repeats the message.
        """
        parts = decode(body)
        if isinstance(parts, NewerMessage):
            self.requeue.put(Queue.RETRIES, body.decode(), NEWER_AGAIN_IN)
            return
        if any(part.dead_letter for part in parts):
            raise MalformedMessage("dead letters are not delivered")
        for part in parts:  # The host's message may go when all have ended.
            self._part(part, end_invocation if len(parts) == 1 else lambda: None)

    def _part(self, message: DeliveryMessage, end_invocation: Callable[[], None]) -> None:
        if message.due and message.due - self.clock.now() > EARLY:
            self.requeue.at_due(message)
            return
        try:
            subscription = self._subscription(message)
            if isinstance(subscription, EndReason):
                texts = [delivery.text for delivery in message.deliveries]
                dropped(self.metrics, message.key, subscription, texts)
                return
            terms = self.terms.of(subscription)
            events = texts_of(message.deliveries, self.payloads)
        except StorageUnavailable:
            again_at = self.clock.now() + UNSURE_AGAIN_IN
            self.requeue.at_due(replace(message, due=again_at))
            return
        self._deliver(message, subscription, terms, events, end_invocation)

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

    def _deliver(
        self,
        message: DeliveryMessage,
        subscription: EventSubscription,
        terms: DeliveryTerms,
        events: Sequence[tuple[Delivery, str | None]],
        end_invocation: Callable[[], None],
    ) -> None:
        started_at = self.clock.now()
        history = self.history.of(message, terms)
        settlement = Settlement(
            message=message,
            subscription=subscription,
            terms=terms,
            requeue=self.requeue,
            history=history,
            metrics=self.metrics,
            late=LateAnswers(
                message=message,
                profile=terms.profile,
                requeue=self.requeue,
                history=history,
                lock=self.new_lock(),
                metrics=self.metrics,
            ),
            clock=self.clock,
            jitter=self.jitter(),
            is_current=self._unchanged_check(subscription),
        )
        to_push: list[Loaded] = []
        for delivery, text in events:
            verdict = before_attempt(delivery, terms, started_at)
            if text is None:
                settlement.lost(delivery)
            elif isinstance(verdict, Go):
                to_push.append(Loaded(delivery, text))
            else:
                settlement.ended(delivery, text, verdict)
        if to_push and subscription.audience:
            self.tokens.fetch(subscription.audience)  # before a slot is taken
        if message.due is None:
            self.health.count_new(subscription, len(to_push))
        detachment = Detachment(
            message=message, requeue=self.requeue, clock=self.clock, end_invocation=end_invocation
        )
        pushing = Pushing(
            subscription=subscription,
            terms=terms,
            settlement=settlement,
            health=self.health,
            rates=self.rates,
            pusher=self.pusher,
            pool=self.pool,
            clock=self.clock,
            detachment=detachment,
        )
        pushing.push(push_batches(subscription, terms, to_push))
        settlement.flush()
        detachment.delete_copy()
        hold = settlement.held_by
        telemetry.info(
            "delivery.run",
            topic=message.topic,
            subscription=message.subscription,
            **settlement.counts,
            held_until=hold.until if hold else None,
            held_because=hold.why if hold else None,
            seconds=round((self.clock.now() - started_at).total_seconds(), 3),
        )

    def _unchanged_check(self, used: EventSubscription) -> Callable[[], bool]:
        """Return a function that reads once, past the cache, whether *used* is unchanged."""

        @cache
        def is_current() -> bool:
            try:
                return self.subscriptions.read_uncached(used.key) == used
            except StorageUnavailable:
                return False  # An end that can't be confirmed is no end.

        return is_current
