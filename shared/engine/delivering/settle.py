"""Decides what follows for one part's deliveries, and stores it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial

from shared.clock import Clock
from shared.delivery.delivery import Delivery
from shared.delivery.health.endpoint_health import Held
from shared.delivery.health.held_deliveries import hold_back
from shared.delivery.messages.message import DeadLetterNote, DeliveryMessage
from shared.delivery.messages.packing import due_together
from shared.delivery.policy import Decision, End, EndReason, RetryAt, decide, retry
from shared.delivery.requests.custom_headers import dead_letter_headers
from shared.delivery.requests.push_batch import Loaded, PushBatch
from shared.engine.delivering.answers import Answer, Attempted, NotNow
from shared.engine.delivering.late_answers import LateAnswers
from shared.engine.delivering.ledger import Ledger
from shared.engine.delivering.parts import Part
from shared.engine.delivering.requeue import LONG_HOLD, Queued, Requeue
from shared.events.topic import TopicName
from shared.subscriptions.subscription import DeadLetterDestination

GATHER_FOR = timedelta(seconds=1)  # failures within this time share their retry message

_Due = list[tuple[datetime, Delivery]]
_PAYLOAD_MISSING = End(EndReason.PAYLOAD_MISSING, "its payload blob is missing")


@dataclass(slots=True, kw_only=True)
class Settlement:
    """
    Takes the gate's answers about one part, and stores what follows in few messages.

    *is_current* tells whether the subscription is unchanged in storage: only then does an event
    end. *held_by* is what held a delivery last.
    """

    part: Part
    requeue: Requeue
    ledger: Ledger
    late: LateAnswers
    clock: Clock
    is_current: Callable[[], bool]
    held_by: Held | None = None
    put_back_because: str | None = None
    counts: Counter[str] = field(default_factory=Counter)
    _retries: _Due = field(default_factory=list)
    _held: _Due = field(default_factory=list)
    _dead: dict[tuple[EndReason, DeadLetterDestination], list[Delivery]] = field(
        default_factory=lambda: defaultdict(list)
    )
    _oldest: datetime | None = None
    _answered: set[int] = field(default_factory=set)
    _confirmed: tuple[datetime, bool] | None = None

    @property
    def undecided(self) -> list[Delivery]:
        """The deliveries that are in the line or under way."""
        return [each.delivery for each in self.part.to_push if id(each) not in self._answered]

    def begin(self) -> None:
        """End what is not tried any more."""
        for loaded, end in self.part.ended:
            self._end_untried(loaded, end)
        for delivery in self.part.lost:  # There is nothing to dead-letter.
            self.ledger.lost(delivery, _PAYLOAD_MISSING)
            self._drop(delivery, None, _PAYLOAD_MISSING.reason)

    def take(self, answer: Answer) -> None:
        """
        Decide what follows an answer.

        Raises:
            Exception: that of the answer, a fault of ours.
        """
        batch, result, is_first = answer
        if isinstance(result, Exception):
            raise result
        self._answered.update(map(id, batch))
        if isinstance(result, Attempted):
            self.ledger.pushed(result, len(batch), is_first=is_first)
            self._attempted(batch, result)
        elif result.held:
            self._hold(batch, result, result.held)
        else:
            self.counts["put_back"] += len(batch)
            self.put_back_because = result.why
            self._keep(self._retries, result.due, [each.delivery for each in batch])

    def flush(self, *, only_old: bool = False) -> None:
        """
        Store what was decided, and only then the rows of the attempt table.

        Raises:
            StorageUnavailable: the message must not be deleted.
        """
        now = self.clock.now()
        if only_old and (self._oldest is None or now - self._oldest < GATHER_FOR):
            return
        for waiting, put, counted in (
            (self._retries, self.requeue.at_due, "retried"),
            (self._held, partial(self.requeue.at_due, long=LONG_HOLD), "held"),
        ):
            for due, deliveries in due_together(waiting, now):
                self._store(self._message(deliveries, due=due), put, counted)
            waiting.clear()
        for (reason, destination), deliveries in self._dead.items():
            self._dead_letter(reason, destination, deliveries, now)
        self._dead.clear()
        self._oldest = None
        self.ledger.write()

    def _attempted(self, batch: PushBatch, attempted: Attempted) -> None:
        """Decide what follows an attempt; its events come back together."""
        if attempted.succeeded and not self.ledger.keeps_successes:
            self.counts["delivered"] += len(batch)
            return
        outcome = attempted.outcome
        tried = tuple(
            Loaded(delivery.tried(outcome, attempted.began_at), text) for delivery, text in batch
        )
        decisions = _together([self._decide(each.delivery, attempted) for each in tried])
        self.ledger.attempted(tried, attempted, decisions)
        for (delivery, text), decision in zip(tried, decisions, strict=True):
            if isinstance(decision, RetryAt):
                self.counts["retried"] += 1
                self._keep(self._retries, decision.due, [delivery])
            elif isinstance(decision, End):
                self._end(delivery, text, decision)
            else:
                self.counts["delivered"] += 1

    def _decide(self, tried: Delivery, attempted: Attempted) -> Decision:
        terms, (outcome, _, ended_at, jitter) = self.part.terms, attempted
        decision = decide(tried, outcome, terms, ended_at, jitter)
        if isinstance(decision, End) and not self._is_confirmed():
            retried = retry(tried, outcome, terms, ended_at, jitter)
            why = f"the end is not confirmed: the subscription may have changed; {retried.why}"
            return replace(retried, why=why)
        return decision

    def _is_confirmed(self) -> bool:
        """Ask whether the subscription is unchanged, once a second at most."""
        now = self.clock.now()
        if self._confirmed is None or now - self._confirmed[0] >= GATHER_FOR:
            self._confirmed = now, self.is_current()
        return self._confirmed[1]

    def _hold(self, batch: PushBatch, answer: NotNow, held: Held) -> None:
        """Keep what is held, as the deployment's switches say."""
        self.held_by = held
        for loaded in batch:
            kept, end = hold_back(loaded.delivery, held, self.part.terms, self.clock.now())
            if end and self._is_confirmed():
                self._end_untried(Loaded(kept, loaded.text), end)
            else:
                self.counts["held"] += 1
                self._keep(self._held, answer.due, [loaded.delivery if end else kept])

    def _end_untried(self, loaded: Loaded, end: End) -> None:
        self.ledger.ended(loaded, end)
        self._end(*loaded, end)

    def _keep(self, waiting: _Due, due: datetime, deliveries: Sequence[Delivery]) -> None:
        waiting += [(due, delivery) for delivery in deliveries]
        self._oldest = self._oldest or self.clock.now()

    def _end(self, delivery: Delivery, text: str, end: End) -> None:
        """Dead-letter it where a destination is configured, else drop it."""
        if destination := self.part.terms.dead_letter:
            self.counts["dead_lettered"] += 1
            self._dead[end.reason, destination].append(delivery)
            self._oldest = self._oldest or self.clock.now()
        else:
            self._drop(delivery, text, end.reason)

    def _drop(self, delivery: Delivery, text: str | None, reason: EndReason) -> None:
        if self.late.drop(delivery):
            self.counts["dropped"] += 1
            self.ledger.dropped(delivery, text, reason)
        else:
            self.counts["delivered"] += 1

    def _dead_letter(
        self,
        reason: EndReason,
        destination: DeadLetterDestination,
        deliveries: list[Delivery],
        now: datetime,
    ) -> None:
        subscription, terms = self.part.subscription, self.part.terms
        visible_at = max(terms.blob_due(each, now) for each in deliveries)
        is_namespace = TopicName.parse(subscription.topic)
        note = DeadLetterNote(
            reason=reason,
            keep_until=visible_at + terms.scaled(terms.profile.dead_letter_keep),
            destination=destination,
            topic_id=subscription.topic_id,
            input_schema=subscription.input_schema,
            delivery_schema=subscription.delivery_schema,
            headers=dead_letter_headers(terms.headers) if is_namespace else (),
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
            self.part.message,
            deliveries=tuple(deliveries),
            due=due,
            rounds=0,
            batch_size=self.part.terms.batching.max_events,
            dead_letter=dead_letter,
        )


def _together(decisions: list[Decision]) -> list[Decision]:
    """Give all retries of one request the same time: the latest."""
    latest = max((each.due for each in decisions if isinstance(each, RetryAt)), default=None)
    if latest is None:
        return decisions
    return [replace(each, due=latest) if isinstance(each, RetryAt) else each for each in decisions]
