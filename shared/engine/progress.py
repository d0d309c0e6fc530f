"""What one invocation has found out about its deliveries, and the storing of what follows."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from shared import telemetry
from shared.clock import Clock
from shared.delivery.delivery import Delivery
from shared.delivery.due import due_together
from shared.delivery.message import DeadLetterNote, DeliveryMessage
from shared.delivery.outcome import DeliveryOutcome
from shared.delivery.policy import DeliveryTerms, End, EndReason, RetryAt, decide, retry
from shared.engine.requeue import Requeue
from shared.subscriptions.subscription import DeadLetterDestination, EventSubscription

GATHER_FOR = timedelta(seconds=1)  # failures within this time share their retry message


@dataclass(slots=True, kw_only=True)
class Progress:
    """
    Gathers the decisions on one message's deliveries and stores them in few messages.

    *is_current* reads the subscription past the cache and says whether it is still the one that
    was used: only then is an endpoint's final answer believed.
    """

    message: DeliveryMessage
    subscription: EventSubscription
    terms: DeliveryTerms
    requeue: Requeue
    clock: Clock
    jitter: float
    is_current: Callable[[], bool]
    counts: Counter[str] = field(default_factory=Counter)
    _retries: list[tuple[datetime, Delivery]] = field(default_factory=list)
    _dead: dict[tuple[EndReason, DeadLetterDestination], list[Delivery]] = field(
        default_factory=lambda: defaultdict(list)
    )
    _oldest: datetime | None = None

    def attempted(
        self, delivery: Delivery, outcome: DeliveryOutcome, began_at: datetime, ended_at: datetime
    ) -> None:
        """Decide what follows an attempt."""
        tried = delivery.tried(outcome, began_at)
        decision = decide(tried, outcome, self.terms, ended_at, self.jitter)
        if isinstance(decision, End) and decision.is_final_answer and not self.is_current():
            decision = retry(tried, outcome, self.terms, ended_at, self.jitter)
            decision = replace(decision, why=f"subscription changed; {decision.why}")
        if isinstance(decision, RetryAt):
            self.counts["retried"] += 1
            self._remember(decision.due, tried)
        elif isinstance(decision, End):
            self.ended(tried, decision.reason)
        else:
            self.counts["delivered"] += 1
            return
        self._tell(tried, outcome, decision)

    def ended(self, delivery: Delivery, reason: EndReason) -> None:
        """Give a delivery up: dead-letter it where a destination is configured, else drop it."""
        if destination := self.terms.dead_letter:
            self.counts["dead_lettered"] += 1
            self._dead[reason, destination].append(delivery)
            self._oldest = self._oldest or self.clock.now()
        else:
            self.counts["dropped"] += 1
            dropped(self.message, [delivery], reason)

    def lost(self, delivery: Delivery) -> None:
        """Record the end of a delivery whose event is gone: there is nothing to dead-letter."""
        self.counts["dropped"] += 1
        dropped(self.message, [delivery], EndReason.PAYLOAD_MISSING)

    def put_back(self, deliveries: Sequence[Delivery], due: datetime) -> None:
        """Store deliveries that were not tried; this counts as no attempt."""
        self.counts["put_back"] += len(deliveries)
        for delivery in deliveries:
            self._remember(due, delivery)

    def flush(self, *, only_old: bool = False) -> None:
        """
        Store what was decided.

        Raises:
            StorageUnavailable: the message must not be deleted.
        """
        now = self.clock.now()
        if self._oldest is None or (only_old and now - self._oldest < GATHER_FOR):
            return
        for due, deliveries in due_together(self._retries, now):
            self.requeue.at_due(self._message(deliveries, due=due))
        self._retries.clear()
        for (reason, destination), deliveries in self._dead.items():
            self._dead_letter(reason, destination, deliveries, now)
        self._dead.clear()
        self._oldest = None

    def _remember(self, due: datetime, delivery: Delivery) -> None:
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
        last = max((each.last.at for each in deliveries if each.last), default=None)
        visible_at = last + self.terms.real(profile.dead_letter_delay) if last else now
        note = DeadLetterNote(
            reason=reason,
            keep_until=visible_at + self.terms.real(profile.dead_letter_keep),
            destination=destination,
            topic_id=self.subscription.topic_id,
            input_schema=self.subscription.input_schema,
            delivery_schema=self.subscription.delivery_schema,
        )
        self.requeue.as_dead_letters(self._message(deliveries, dead_letter=note), visible_at)

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
            dead_letter=dead_letter,
        )

    def _tell(self, tried: Delivery, outcome: DeliveryOutcome, decision: RetryAt | End) -> None:
        retries = decision if isinstance(decision, RetryAt) else None
        ends = decision if isinstance(decision, End) else None
        telemetry.info(
            "delivery.attempted",
            topic=self.message.topic,
            subscription=self.message.subscription,
            event_id=tried.system_id(self.message.topic, self.message.subscription),
            attempt=tried.attempts,
            attempt_max=self.terms.max_attempts,
            outcome=outcome.outcome,
            status=outcome.status,
            detail=outcome.detail or None,
            duration_ms=round(outcome.seconds * 1000),
            decision="end" if ends else "retry",
            next_attempt_at=retries.due if retries else None,
            reason=ends.reason if ends else None,
            why=decision.why,
            profile=self.terms.profile.name,
        )


def dropped(message: DeliveryMessage, deliveries: Sequence[Delivery], reason: EndReason) -> None:
    """Say that deliveries ended without a dead letter."""
    telemetry.warning(
        "delivery.dropped",
        topic=message.topic,
        subscription=message.subscription,
        reason=reason,
        count=len(deliveries),
        event_id=deliveries[0].system_id(message.topic, message.subscription),
    )
