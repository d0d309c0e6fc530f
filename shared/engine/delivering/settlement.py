"""Collects the decisions of one invocation, and stores what follows from them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from shared.clock import Clock
from shared.delivery.delivery import Delivery
from shared.delivery.health.endpoint_health import Held
from shared.delivery.messages.message import DeadLetterNote, DeliveryMessage
from shared.delivery.messages.packing import due_together
from shared.delivery.policy import (
    Decision,
    DeliveryTerms,
    End,
    EndReason,
    RetryAt,
    decide,
    retry,
)
from shared.delivery.requests.custom_headers import dead_letter_headers
from shared.delivery.requests.push_batch import Loaded, PushBatch
from shared.engine.delivering.attempt_history import MessageHistory
from shared.engine.delivering.attempt_lines import AttemptLines
from shared.engine.delivering.drops import dropped
from shared.engine.delivering.late_answers import LateAnswers
from shared.engine.delivering.push_result import Pushed
from shared.engine.delivering.requeue import Queued, Requeue
from shared.engine.ports import Metrics
from shared.events.topic import TopicName
from shared.metrics import Metric, error_type
from shared.subscriptions.subscription import DeadLetterDestination, EventSubscription

GATHER_FOR = timedelta(seconds=1)  # failures within this time share their retry message


@dataclass(slots=True, kw_only=True)
class Settlement:
    """
    Collects the decisions on one message's deliveries, and stores them in few messages.

    *is_current* reads the subscription past the cache and tells whether it is unchanged: only then
    does an endpoint's final answer end an event. *held_by* is what held a
    delivery last.
    """

    message: DeliveryMessage
    subscription: EventSubscription
    terms: DeliveryTerms
    requeue: Requeue
    history: MessageHistory
    metrics: Metrics
    late: LateAnswers
    clock: Clock
    jitter: float
    is_current: Callable[[], bool]
    held_by: Held | None = None
    counts: Counter[str] = field(default_factory=Counter)
    _retries: list[tuple[datetime, Delivery]] = field(default_factory=list)
    _dead: dict[tuple[EndReason, DeadLetterDestination], list[Delivery]] = field(
        default_factory=lambda: defaultdict(list)
    )
    _held: list[tuple[datetime, Delivery]] = field(default_factory=list)
    _oldest: datetime | None = None

    def attempted(self, batch: PushBatch, pushed: Pushed) -> None:
        """Decide what follows an attempt; its events come back together."""
        outcome = pushed.outcome
        self._count(pushed, len(batch))
        tried = [Loaded(delivery.tried(outcome, pushed.began_at), text) for delivery, text in batch]
        decisions = [self._decide(each.delivery, pushed) for each in tried]
        latest = max((each.due for each in decisions if isinstance(each, RetryAt)), default=None)
        for (delivery, text), decision in zip(tried, decisions, strict=True):
            if latest and isinstance(decision, RetryAt):
                decision = replace(decision, due=latest)  # noqa: PLW2901 - one time for all
            self.history.attempted(delivery, text, pushed.began_at, outcome, decision)
            self._follow(delivery, text, decision)
        self._lines.attempted(tuple(tried), outcome, decisions[0], self.clock.now())

    def ended(self, delivery: Delivery, text: str, end: End) -> None:
        """End a delivery that is not tried any more."""
        self._lines.ended(delivery, text, end)
        self.history.ended(delivery, text, end)
        self._end(delivery, text, end)

    def lost(self, delivery: Delivery) -> None:
        """Drop a delivery whose event is gone: there is nothing to dead-letter."""
        end = End(EndReason.PAYLOAD_MISSING, "its payload blob is missing")
        self.history.ended(delivery, None, end)
        self._drop(delivery, None, end.reason)

    def put_back(self, deliveries: Sequence[Delivery], due: datetime) -> None:
        """Requeue deliveries that were not tried, without counting an attempt."""
        self.counts["put_back"] += len(deliveries)
        for delivery in deliveries:
            self._retry(due, delivery)

    def put_back_held(self, delivery: Delivery, due: datetime) -> None:
        """Requeue a delivery that is held."""
        self.counts["held"] += 1
        self._held.append((due, delivery))
        self._oldest = self._oldest or self.clock.now()

    def flush(self, *, only_old: bool = False) -> None:
        """
        Store what was decided, and only then record it.

        Raises:
            StorageUnavailable: the message must not be deleted.
        """
        now = self.clock.now()
        if only_old and (self._oldest is None or now - self._oldest < GATHER_FOR):
            return
        for due, deliveries in due_together(self._retries, now):
            message = self._message(deliveries, due=due)
            self._store(message, self.requeue.at_due, "retried")
        self._retries.clear()
        for due, deliveries in due_together(self._held, now):
            self._store(self._message(deliveries, due=due), self.requeue.as_held, "held")
        self._held.clear()
        for (reason, destination), deliveries in self._dead.items():
            self._dead_letter(reason, destination, deliveries, now)
        self._dead.clear()
        self._oldest = None
        self.history.write()

    @property
    def _lines(self) -> AttemptLines:
        return AttemptLines(self.message, self.subscription, self.terms)

    def _decide(self, tried: Delivery, pushed: Pushed) -> Decision:
        decision = decide(tried, pushed.outcome, self.terms, pushed.ended_at, self.jitter)
        if isinstance(decision, End) and decision.is_final_answer and not self.is_current():
            decision = retry(tried, pushed.outcome, self.terms, pushed.ended_at, self.jitter)
            why = f"the end is not confirmed: the subscription may have changed; {decision.why}"
            decision = replace(decision, why=why)
        return decision

    def _follow(self, tried: Delivery, text: str, decision: Decision) -> None:
        if isinstance(decision, RetryAt):
            self.counts["retried"] += 1
            self._retry(decision.due, tried)
        elif isinstance(decision, End):
            self._end(tried, text, decision)
        else:
            self.counts["delivered"] += 1

    def _retry(self, due: datetime, delivery: Delivery) -> None:
        self._retries.append((due, delivery))
        self._oldest = self._oldest or self.clock.now()

    def _dead_letter(
        self,
        reason: EndReason,
        destination: DeadLetterDestination,
        deliveries: list[Delivery],
        now: datetime,
    ) -> None:
        profile = self.terms.profile
        visible_at = max(self.terms.blob_due(each, now) for each in deliveries)
        note = DeadLetterNote(
            reason=reason,
            keep_until=visible_at + self.terms.scaled(profile.dead_letter_keep),
            destination=destination,
            topic_id=self.subscription.topic_id,
            input_schema=self.subscription.input_schema,
            delivery_schema=self.subscription.delivery_schema,
            headers=dead_letter_headers(self.terms.headers)
            if TopicName.parse(self.message.topic)
            else (),
        )
        self._store(
            self._message(deliveries, dead_letter=note),
            lambda message: self.requeue.as_dead_letters(message, visible_at),
            "dead_lettered",
        )

    def _store(
        self,
        message: DeliveryMessage,
        put: Callable[[DeliveryMessage], Sequence[Queued]],
        counted: str,
    ) -> None:
        """Store what was not delivered meanwhile, and correct what was *counted*."""
        delivered = self.late.store(message, put)
        self.counts[counted] -= delivered
        self.counts["delivered"] += delivered

    def _message(
        self,
        deliveries: Sequence[Delivery],
        *,
        due: datetime | None = None,
        dead_letter: DeadLetterNote | None = None,
    ) -> DeliveryMessage:
        return replace(
            self.message,
            deliveries=tuple(deliveries),
            due=due,
            rounds=0,
            batch_size=self.terms.batching.max_events,
            dead_letter=dead_letter,
        )

    def _end(self, delivery: Delivery, text: str, end: End) -> None:
        """Dead-letter it where a destination is configured, else drop it."""
        if destination := self.terms.dead_letter:
            self.counts["dead_lettered"] += 1
            self._dead[end.reason, destination].append(delivery)
            self._oldest = self._oldest or self.clock.now()
        else:
            self._drop(delivery, text, end.reason)

    def _drop(self, delivery: Delivery, text: str | None, reason: EndReason) -> None:
        key = self.message.key
        if not self.late.drop(delivery):
            self.counts["delivered"] += 1
            return
        system_id = delivery.system_id(key)
        self.counts["dropped"] += 1
        dropped(self.metrics, key, reason, [text], system_id=system_id)

    def _count(self, pushed: Pushed, events: int) -> None:
        """Count an attempt for each event, and the time of a request that was answered."""
        outcome, key = pushed.outcome, self.message.key
        count = self.metrics.count
        if outcome.status is not None:
            count(Metric.PROCESSING_DURATION, *key, by=round(outcome.seconds * 1000, 1))
        if pushed.succeeded:
            count(Metric.DELIVERY_SUCCESS, *key, by=events)
        else:
            kind = error_type(outcome.status)
            count(Metric.ATTEMPT_FAIL, *key, by=events, Error=outcome.outcome, ErrorType=kind)
