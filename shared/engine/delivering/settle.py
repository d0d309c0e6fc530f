"""Decides what follows for the deliveries of one message, and stores it before the message goes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from shared import telemetry
from shared.clock import Clock, settled_now
from shared.delivery.delivery import Batch, Delivery
from shared.delivery.health.availability import Held, hold_back
from shared.delivery.messages.message import DeadLetterNote
from shared.delivery.messages.packing import due_together
from shared.delivery.outcome import DeliveryOutcome
from shared.delivery.policy import Decision, End, EndReason, RetryAt, decide, retry
from shared.delivery.requests.push_request import dead_letter_headers
from shared.engine.delivering.attempt_lines import AttemptLines
from shared.engine.delivering.attempt_recorder import AttemptHistory, AttemptRecorder
from shared.engine.delivering.in_flight import PartResult
from shared.engine.delivering.judge import JudgedPart
from shared.engine.delivering.late import PutParts, Stored
from shared.engine.delivering.results import Attempted, NotNow
from shared.engine.keeping.event_loop import loop_time
from shared.engine.keeping.requeue import all_stored
from shared.engine.ports import Metrics
from shared.events.topic import TopicName
from shared.subscriptions.subscription import DeadLetterDestination, EventSubscription

GATHER_FOR = 1.0  # seconds: failures within this time share their retry message
CONFIRMED_FOR = 1.0  # seconds: a subscription found unchanged counts as such

_PAYLOAD_MISSING = End(EndReason.PAYLOAD_MISSING, "its payload blob is missing")


@dataclass(slots=True, kw_only=True, eq=False)
class PartFollow:
    """What follows for one part."""

    part: JudgedPart
    recorder: AttemptRecorder
    began_at: datetime
    counts: Counter[str] = field(default_factory=Counter)
    held_by: Held | None = None  # what held a delivery last
    requeue_reason: str | None = None
    dead: dict[tuple[EndReason, DeadLetterDestination], list[Delivery]] = field(
        default_factory=dict
    )
    # When the subscription was compared with storage, in seconds, and whether it is unchanged.
    confirmed: tuple[float, bool] | None = None


_Kept = list[tuple[datetime, tuple[PartFollow, Delivery]]]


@dataclass(slots=True, kw_only=True, eq=False)
class Follow:
    """What follows for one message: its deliveries' retries and ends, stored in few messages."""

    stored: Stored
    history: AttemptHistory
    metrics: Metrics
    clock: Clock
    # A subscription is unchanged in storage: only then does an event end.
    is_unchanged: Callable[[EventSubscription], Coroutine[Any, Any, bool]]
    patience: Callable[[], timedelta]  # how long failing puts are repeated
    _parts: dict[JudgedPart, PartFollow] = field(default_factory=dict)
    _retries: _Kept = field(default_factory=list)
    _held: _Kept = field(default_factory=list)
    # When what was decided is to be stored, in seconds of the loop's clock; ``None``: it is.
    flush_at: float | None = None

    @property
    def is_due(self) -> bool:
        return self.flush_at is not None and self.flush_at <= loop_time()

    def begin(self, part: JudgedPart) -> None:
        """Take a part, and end what of it is not tried any more."""
        recorder = AttemptRecorder(
            lines=AttemptLines(part.key, part.subscription, part.terms),
            history=self.history,
            metrics=self.metrics,
            clock=self.clock,
        )
        of_part = PartFollow(part=part, recorder=recorder, began_at=self.clock.now())
        self._parts[part] = of_part
        for delivery, end in part.ended:
            self._end_untried(of_part, delivery, end)
        for delivery in part.lost:  # There is nothing to dead-letter.
            recorder.lost(delivery, _PAYLOAD_MISSING)
            self._drop(of_part, delivery, _PAYLOAD_MISSING.reason)

    async def take(self, reported: PartResult) -> None:
        """
        Decide what follows a result.

        Raises:
            Exception: the result itself, an internal error.
        """
        part, batch, result, is_first = reported
        of_part = self._parts[part]
        if isinstance(result, Exception):
            raise result
        of_part.recorder.seen(batch)
        if isinstance(result, Attempted):
            of_part.recorder.pushed(result, len(batch), is_first=is_first)
            await self._attempted(of_part, batch, result)
        elif result.held:
            await self._hold(of_part, batch, result, result.held)
        else:
            of_part.counts["requeued"] += len(batch)
            of_part.requeue_reason = result.why
            self._keep(of_part, self._retries, result.due, batch)

    async def flush(self) -> None:
        """
        Store what was decided; rows of the attempt table follow, and nobody waits for them.

        Raises:
            StorageUnavailable: the message must not be deleted.
        """
        now = self.clock.now()
        puts: list[Coroutine[Any, Any, None]] = []
        for waiting, is_held, counted in (
            (self._retries, False, "retried"),
            (self._held, True, "held"),
        ):
            for due, kept in due_together(waiting, now):
                put = partial(self.stored.requeue.at_due, is_held=is_held)
                puts.append(self._store(_grouped(kept), due, put, counted))
            waiting.clear()
        for of_part in self._parts.values():
            for (reason, destination), deliveries in of_part.dead.items():
                puts.append(self._dead_letter(of_part, reason, destination, deliveries, now))
            of_part.dead = {}
        self.flush_at = None
        async with self.stored.changes:
            await all_stored(puts)
        for of_part in self._parts.values():
            self.history.add(of_part.recorder.take_rows())

    def log_runs(self) -> None:
        """Log of each part what came of it."""
        for part, of_part in self._parts.items():
            hold = of_part.held_by
            telemetry.info(
                "delivery.run",
                topic=part.key.topic,
                subscription=part.key.subscription,
                **of_part.counts,
                held_until=hold.until if hold else None,
                held_because=hold.why if hold else None,
                requeue_reason=of_part.requeue_reason,
                seconds=round((self.clock.now() - of_part.began_at).total_seconds(), 3),
            )

    def comes_again(self, part: JudgedPart | None = None) -> None:
        """Note that one part comes again, or the whole message."""
        again = {each.key for each in self._parts if part is None or each is part}
        self.stored.coming_again |= again

    async def answered_late(self, part: JudgedPart, batch: Batch, outcome: DeliveryOutcome) -> bool:
        """Take back what followed for late successes; tell whether none is delivered again."""
        recorder = self._parts[part].recorder
        is_taken_back = await self.stored.take_back(part.key, batch)
        recorder.answered_late(batch, outcome, is_cancelled=is_taken_back)
        return is_taken_back

    async def _attempted(self, of_part: PartFollow, batch: Batch, attempted: Attempted) -> None:
        """Decide what follows an attempt; its events come back together."""
        recorder = of_part.recorder
        if attempted.succeeded and not recorder.keeps_successes:
            of_part.counts["delivered"] += len(batch)
            return
        outcome = attempted.outcome
        tried = [each.tried(outcome, attempted.began_at) for each in batch]
        decisions = _together([await self._decide(of_part, each, attempted) for each in tried])
        recorder.attempted(tried, attempted, decisions)
        for delivery, decision in zip(tried, decisions, strict=True):
            if isinstance(decision, RetryAt):
                of_part.counts["retried"] += 1
                self._keep(of_part, self._retries, decision.due, [delivery])
            elif isinstance(decision, End):
                self._end(of_part, delivery, decision)
            else:
                of_part.counts["delivered"] += 1

    async def _decide(self, of_part: PartFollow, tried: Delivery, attempted: Attempted) -> Decision:
        terms, (outcome, _, ended_at, jitter) = of_part.part.terms, attempted
        decision = decide(tried, outcome, terms, ended_at, jitter)
        if isinstance(decision, End) and not await self._is_confirmed(of_part):
            retried = retry(tried, outcome, terms, ended_at, jitter)
            why = f"the end is not confirmed: the subscription may have changed; {retried.why}"
            return replace(retried, why=why)
        return decision

    async def _is_confirmed(self, of_part: PartFollow) -> bool:
        """Ask whether the subscription is unchanged, once a second at most."""
        now = loop_time()
        if of_part.confirmed is None or now - of_part.confirmed[0] >= CONFIRMED_FOR:
            of_part.confirmed = now, await self.is_unchanged(of_part.part.subscription)
        return of_part.confirmed[1]

    async def _hold(self, of_part: PartFollow, batch: Batch, result: NotNow, held: Held) -> None:
        """Keep what is held, as the deployment's switches say."""
        of_part.held_by, now = held, self.clock.now()
        for delivery in batch:
            judged = partial(hold_back, delivery, held, of_part.part.terms, now)
            kept, end = judged(settled_now(self.clock))
            if end and await self._is_confirmed(of_part):
                kept, end = judged(settled_now(self.clock))  # once it was compared with storage's
            elif end:
                kept, end = delivery, None
            if end:
                self._end_untried(of_part, kept, end)
            else:
                of_part.counts["held"] += 1
                self._keep(of_part, self._held, result.due, [kept])

    def _keep(
        self, of_part: PartFollow, waiting: _Kept, due: datetime, deliveries: Sequence[Delivery]
    ) -> None:
        waiting += [(due, (of_part, delivery)) for delivery in deliveries]
        self._flush_soon()

    def _flush_soon(self) -> None:
        if self.flush_at is None:
            self.flush_at = loop_time() + GATHER_FOR

    def _end_untried(self, of_part: PartFollow, delivery: Delivery, end: End) -> None:
        of_part.recorder.ended(delivery, end)
        self._end(of_part, delivery, end)

    def _end(self, of_part: PartFollow, delivery: Delivery, end: End) -> None:
        """Dead-letter it where a destination is configured, else drop it."""
        if destination := of_part.part.terms.dead_letter:
            of_part.counts["dead_lettered"] += 1
            of_part.dead.setdefault((end.reason, destination), []).append(delivery)
            self._flush_soon()
        else:
            self._drop(of_part, delivery, end.reason)

    def _drop(self, of_part: PartFollow, delivery: Delivery, reason: EndReason) -> None:
        if self.stored.drop(of_part.part.key, delivery):
            of_part.counts["dropped"] += 1
            of_part.recorder.dropped(delivery, reason)
        else:
            of_part.counts["delivered"] += 1

    async def _dead_letter(
        self,
        of_part: PartFollow,
        reason: EndReason,
        destination: DeadLetterDestination,
        deliveries: list[Delivery],
        now: datetime,
    ) -> None:
        subscription, terms = of_part.part.subscription, of_part.part.terms
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
        put = partial(self.stored.requeue.as_dead_letters, visible_at=visible_at)
        await self._store({of_part: deliveries}, None, put, "dead_lettered", note)

    async def _store(
        self,
        kept: dict[PartFollow, list[Delivery]],
        due: datetime | None,
        put: PutParts,
        counted: str,
        note: DeadLetterNote | None = None,
    ) -> None:
        """Store what was not delivered meanwhile, and correct what was *counted*."""
        parts = [
            replace(
                of_part.part.source,
                deliveries=tuple(deliveries),
                due=due,
                rounds=0,
                batch_size=of_part.part.terms.batching.max_events,
                dead_letter=note,
            )
            for of_part, deliveries in kept.items()
        ]
        late = await self.stored.store(parts, partial(put, patience=self.patience()))
        delivered = {part.key: len(part.deliveries) for part in late}
        for of_part in kept if delivered else ():
            count = delivered.get(of_part.part.key, 0)
            of_part.counts[counted] -= count
            of_part.counts["delivered"] += count


def _grouped(kept: Sequence[tuple[PartFollow, Delivery]]) -> dict[PartFollow, list[Delivery]]:
    by_part: dict[PartFollow, list[Delivery]] = {}
    for of_part, delivery in kept:
        by_part.setdefault(of_part, []).append(delivery)
    return by_part


def _together(decisions: list[Decision]) -> list[Decision]:
    """Give all retries of one request the same time: the latest."""
    latest = max((each.due for each in decisions if isinstance(each, RetryAt)), default=None)
    if latest is None:
        return decisions
    return [replace(each, due=latest) if isinstance(each, RetryAt) else each for each in decisions]
