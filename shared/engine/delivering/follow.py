"""Decides what follows for the deliveries of one message, and stores it before the message goes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from shared import telemetry
from shared.clock import Clock
from shared.delivery.delivery import Delivery
from shared.delivery.health.availability import Held, hold_back
from shared.delivery.messages.message import DeadLetterNote
from shared.delivery.messages.packing import due_together
from shared.delivery.outcome import DeliveryOutcome
from shared.delivery.policy import Decision, End, EndReason, RetryAt, decide, retry
from shared.delivery.requests.push_request import Loaded, PushBatch, dead_letter_headers
from shared.engine.delivering.attempt_lines import AttemptLines
from shared.engine.delivering.attempt_recorder import AttemptHistory, AttemptRecorder
from shared.engine.delivering.event_loop import loop_time
from shared.engine.delivering.in_flight import PartResult
from shared.engine.delivering.parts import JudgedPart
from shared.engine.delivering.requeue import (
    LONG_HOLD,
    LONG_WAIT,
    PutParts,
    Stored,
    all_stored,
)
from shared.engine.delivering.results import Attempted, NotNow
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
        follow = PartFollow(part=part, recorder=recorder, began_at=self.clock.now())
        self._parts[part] = follow
        for loaded, end in part.ended:
            self._end_untried(follow, loaded, end)
        for delivery in part.lost:  # There is nothing to dead-letter.
            recorder.lost(delivery, _PAYLOAD_MISSING)
            self._drop(follow, delivery, None, _PAYLOAD_MISSING.reason)

    async def take(self, reported: PartResult) -> None:
        """
        Decide what follows a result.

        Raises:
            Exception: the result itself, an internal error.
        """
        part, batch, result, is_first = reported
        follow = self._parts[part]
        if isinstance(result, Exception):
            raise result
        follow.recorder.seen(batch)
        if isinstance(result, Attempted):
            follow.recorder.pushed(result, len(batch), is_first=is_first)
            await self._attempted(follow, batch, result)
        elif result.held:
            await self._hold(follow, batch, result, result.held)
        else:
            follow.counts["requeued"] += len(batch)
            follow.requeue_reason = result.why
            self._keep(follow, self._retries, result.due, [each.delivery for each in batch])

    async def flush(self) -> None:
        """
        Store what was decided, and only then the rows of the attempt table.

        Raises:
            StorageUnavailable: the message must not be deleted.
        """
        now = self.clock.now()
        puts: list[Coroutine[Any, Any, None]] = []
        for waiting, untriggered_from, counted in (
            (self._retries, LONG_WAIT, "retried"),
            (self._held, LONG_HOLD, "held"),
        ):
            for due, kept in due_together(waiting, now):
                put = partial(self.stored.requeue.at_due, untriggered_from=untriggered_from)
                puts.append(self._store(_grouped(kept), due, put, counted))
            waiting.clear()
        for follow in self._parts.values():
            for (reason, destination), deliveries in follow.dead.items():
                puts.append(self._dead_letter(follow, reason, destination, deliveries, now))
            follow.dead = {}
        self.flush_at = None
        async with self.stored.changes:
            await all_stored(puts)
        rows = [row for follow in self._parts.values() for row in follow.recorder.take_rows()]
        await self.history.write(rows)

    def log_runs(self) -> None:
        """Log of each part what came of it."""
        for part, follow in self._parts.items():
            hold = follow.held_by
            telemetry.info(
                "delivery.run",
                topic=part.key.topic,
                subscription=part.key.subscription,
                **follow.counts,
                held_until=hold.until if hold else None,
                held_because=hold.why if hold else None,
                requeue_reason=follow.requeue_reason,
                seconds=round((self.clock.now() - follow.began_at).total_seconds(), 3),
            )

    async def answered_late(
        self, part: JudgedPart, batch: PushBatch, outcome: DeliveryOutcome
    ) -> None:
        """Take back what followed for deliveries that have succeeded after their timeout."""
        recorder = self._parts[part].recorder
        is_taken_back = await self.stored.take_back(part.key, [loaded.delivery for loaded in batch])
        await recorder.answered_late(batch, outcome, is_cancelled=is_taken_back)

    async def _attempted(self, follow: PartFollow, batch: PushBatch, attempted: Attempted) -> None:
        """Decide what follows an attempt; its events come back together."""
        recorder = follow.recorder
        if attempted.succeeded and not recorder.keeps_successes:
            follow.counts["delivered"] += len(batch)
            return
        outcome = attempted.outcome
        tried = tuple(
            Loaded(delivery.tried(outcome, attempted.began_at), text) for delivery, text in batch
        )
        decisions = _together(
            [await self._decide(follow, each.delivery, attempted) for each in tried]
        )
        recorder.attempted(tried, attempted, decisions)
        for (delivery, text), decision in zip(tried, decisions, strict=True):
            if isinstance(decision, RetryAt):
                follow.counts["retried"] += 1
                self._keep(follow, self._retries, decision.due, [delivery])
            elif isinstance(decision, End):
                self._end(follow, delivery, text, decision)
            else:
                follow.counts["delivered"] += 1

    async def _decide(self, follow: PartFollow, tried: Delivery, attempted: Attempted) -> Decision:
        terms, (outcome, _, ended_at, jitter) = follow.part.terms, attempted
        decision = decide(tried, outcome, terms, ended_at, jitter)
        if isinstance(decision, End) and not await self._is_confirmed(follow):
            retried = retry(tried, outcome, terms, ended_at, jitter)
            why = f"the end is not confirmed: the subscription may have changed; {retried.why}"
            return replace(retried, why=why)
        return decision

    async def _is_confirmed(self, follow: PartFollow) -> bool:
        """Ask whether the subscription is unchanged, once a second at most."""
        now = loop_time()
        if follow.confirmed is None or now - follow.confirmed[0] >= CONFIRMED_FOR:
            follow.confirmed = now, await self.is_unchanged(follow.part.subscription)
        return follow.confirmed[1]

    async def _hold(self, follow: PartFollow, batch: PushBatch, result: NotNow, held: Held) -> None:
        """Keep what is held, as the deployment's switches say."""
        follow.held_by, now = held, self.clock.now()
        for loaded in batch:
            kept, end = hold_back(loaded.delivery, held, follow.part.terms, now)
            if end and await self._is_confirmed(follow):
                self._end_untried(follow, Loaded(kept, loaded.text), end)
            else:
                follow.counts["held"] += 1
                self._keep(follow, self._held, result.due, [loaded.delivery if end else kept])

    def _keep(
        self, follow: PartFollow, waiting: _Kept, due: datetime, deliveries: Sequence[Delivery]
    ) -> None:
        waiting += [(due, (follow, delivery)) for delivery in deliveries]
        self._flush_soon()

    def _flush_soon(self) -> None:
        if self.flush_at is None:
            self.flush_at = loop_time() + GATHER_FOR

    def _end_untried(self, follow: PartFollow, loaded: Loaded, end: End) -> None:
        follow.recorder.ended(loaded, end)
        self._end(follow, *loaded, end)

    def _end(self, follow: PartFollow, delivery: Delivery, text: str, end: End) -> None:
        """Dead-letter it where a destination is configured, else drop it."""
        if destination := follow.part.terms.dead_letter:
            follow.counts["dead_lettered"] += 1
            follow.dead.setdefault((end.reason, destination), []).append(delivery)
            self._flush_soon()
        else:
            self._drop(follow, delivery, text, end.reason)

    def _drop(
        self, follow: PartFollow, delivery: Delivery, text: str | None, reason: EndReason
    ) -> None:
        if self.stored.drop(follow.part.key, delivery):
            follow.counts["dropped"] += 1
            follow.recorder.dropped(delivery, text, reason)
        else:
            follow.counts["delivered"] += 1

    async def _dead_letter(
        self,
        follow: PartFollow,
        reason: EndReason,
        destination: DeadLetterDestination,
        deliveries: list[Delivery],
        now: datetime,
    ) -> None:
        subscription, terms = follow.part.subscription, follow.part.terms
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
        await self._store({follow: deliveries}, None, put, "dead_lettered", note)

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
                follow.part.source,
                deliveries=tuple(deliveries),
                due=due,
                rounds=0,
                batch_size=follow.part.terms.batching.max_events,
                dead_letter=note,
            )
            for follow, deliveries in kept.items()
        ]
        late = await self.stored.store(parts, partial(put, patience=self.patience()))
        delivered = {part.key: len(part.deliveries) for part in late}
        for follow in kept if delivered else ():
            count = delivered.get(follow.part.key, 0)
            follow.counts[counted] -= count
            follow.counts["delivered"] += count


def _grouped(kept: Sequence[tuple[PartFollow, Delivery]]) -> dict[PartFollow, list[Delivery]]:
    by_part: dict[PartFollow, list[Delivery]] = {}
    for follow, delivery in kept:
        by_part.setdefault(follow, []).append(delivery)
    return by_part


def _together(decisions: list[Decision]) -> list[Decision]:
    """Give all retries of one request the same time: the latest."""
    latest = max((each.due for each in decisions if isinstance(each, RetryAt)), default=None)
    if latest is None:
        return decisions
    return [replace(each, due=latest) if isinstance(each, RetryAt) else each for each in decisions]
