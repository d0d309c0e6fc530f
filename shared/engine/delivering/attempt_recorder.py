"""Records each attempt and each end once: in the log, in the attempt table, in the metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial

from shared import telemetry
from shared.clock import Clock
from shared.delivery.attempt_record import KEPT_FOR, AttemptRecord
from shared.delivery.delivery import Batch, Delivery
from shared.delivery.outcome import DeliveryOutcome, EndpointAnswer
from shared.delivery.policy import (
    Decision,
    Delivered,
    DeliveryTerms,
    End,
    EndReason,
    EndState,
    RetryAt,
)
from shared.delivery.requests.added_headers import replay_job
from shared.engine.delivering.attempt_lines import log_attempted, log_ended, log_succeeded
from shared.engine.delivering.in_hand import Attempted, Part
from shared.engine.keeping.drops_and_holds import Ends
from shared.engine.keeping.event_loop import loop_time
from shared.engine.ports import AttemptLog, Metrics, OffLoop
from shared.engine.ports.settling import Ended
from shared.events.event import event_ids, event_names
from shared.metrics import Metric, error_type
from shared.settings import AttemptLogging
from shared.subscriptions.subscription import SubscriptionKey
from shared.tasks import Tasks

QUIET_FOR = timedelta(seconds=30)  # after rows were lost; what comes meanwhile is not recorded
MOST_UNWRITTEN = 10_000  # rows that wait or are being written, of 2 to 4 KiB


@dataclass(slots=True, kw_only=True)
class AttemptHistory:
    """
    The history of one process, written beside delivering: no message waits for its rows.

    One write is under way at a time; what comes meanwhile shares the next. Rows that can't be
    written, or are too many, are lost, and then it pauses.
    """

    log: AttemptLog
    off_loop: OffLoop
    tasks: Tasks
    logging: AttemptLogging
    clock: Clock
    _quiet_until: float = float("-inf")  # in seconds of the loop's clock
    _waiting: list[AttemptRecord] = field(default_factory=list)
    _being_written: int = 0
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    def keeps(self, state: EndState | None) -> bool:
        if self.logging is AttemptLogging.FAILURES:
            return state is not EndState.DELIVERED
        return self.logging is AttemptLogging.ALL

    def add(self, records: Iterable[AttemptRecord]) -> None:
        """Have *records* written soon."""
        if loop_time() < self._quiet_until:
            return
        # The tables of older days are dropped, and must not come back.
        oldest = self.clock.now().date() - KEPT_FOR
        kept = [each.clipped for each in records if each.published_at.date() >= oldest]
        room = MOST_UNWRITTEN - len(self._waiting) - self._being_written
        self._waiting += kept[:room]
        if len(kept) > room:
            self._lost(len(kept) - room, f"{MOST_UNWRITTEN} rows wait to be written")
        if self._waiting and not self._turn.locked():
            self.tasks.spawn(self.write_all())

    async def write_all(self) -> None:
        """Write all rows that wait, once those are written that are being written."""
        async with self._turn:
            while self._waiting:
                records, self._waiting = self._waiting, []
                self._being_written = len(records)
                await self._write(records)
                self._being_written = 0

    async def _write(self, records: list[AttemptRecord]) -> None:
        try:
            await self.off_loop(partial(self.log.write, records))
        except Exception as error:  # noqa: BLE001 - nothing depends on it
            count = len(records) + len(self._waiting)
            self._waiting.clear()
            self._lost(count, f"{type(error).__name__}: {error}")

    def _lost(self, count: int, why: str) -> None:
        seconds = QUIET_FOR.total_seconds()
        self._quiet_until = loop_time() + seconds
        telemetry.error("attempts.lost", count=count, quiet_seconds=seconds, detail=why)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRecorder:
    """Records what becomes of deliveries: in log lines, rows and counts."""

    history: AttemptHistory
    metrics: Metrics
    ends: Ends
    clock: Clock

    def seen(self, part: Part, batch: Batch) -> None:
        """Count the age of the oldest event of a request that was made or requeued: no events."""
        published = min(each.origin.published_at for each in batch)
        age = max(self.clock.now() - published, timedelta())
        self.metrics.count(Metric.EVENT_AGE, *part.key, by=age // timedelta(milliseconds=1))

    def pushed(self, part: Part, batch: Batch, attempted: Attempted) -> None:
        """Count an attempt for each event, and once the time of a request that was answered."""
        outcome, count, key = attempted.outcome, self.metrics.count, part.key
        if batch[0] is attempted.first and outcome.status is not None:
            count(Metric.PROCESSING_DURATION, *key, by=round(outcome.seconds * 1000, 1))
        if attempted.succeeded:
            count(Metric.DELIVERY_SUCCESS, *key, by=len(batch))
        else:
            kind = error_type(outcome.status)
            count(Metric.ATTEMPT_FAIL, *key, by=len(batch), Error=outcome.outcome, ErrorType=kind)

    def attempted(
        self, part: Part, tried: Batch, attempted: Attempted, decisions: Sequence[Decision]
    ) -> None:
        """
        Record an attempt whose events have it counted, with what follows for each.

        Successes come here only if they are kept.
        """
        outcome, first = attempted.outcome, decisions[0]
        for delivery, decision in zip(tried, decisions, strict=True):
            self._add(part, delivery, attempted.began_at, outcome, decision)
        if isinstance(first, Delivered):
            log_succeeded(part.key, tried, outcome)
        else:
            log_attempted(part, tried, outcome, first, self.clock.now())

    def ended(self, part: Part, delivery: Delivery, end: End) -> None:
        """Record an end without another attempt."""
        if delivery.text is not None:  # of what is gone, the drop says all
            log_ended(part.key, delivery, end)
        self._add(part, delivery, self.clock.now(), None, end)

    def heard(self, ended: Ended) -> None:
        """Hear of an end; of a drop nothing is left: it is counted and logged."""
        if ended.state is EndState.DEAD_LETTERED:
            self.ends.hear(ended)
            return
        key, delivery = ended.key, ended.delivery
        cause = delivery.last.cause if delivery.last else None
        named = {"system_id": delivery.system_id(key), "trace_id": delivery.trace_id}
        self.ends.dropped([ended], cause=cause, **named)

    def answered_late(
        self, part: Part, batch: Batch, outcome: DeliveryOutcome, *, is_cancelled: bool
    ) -> None:
        """Record a success after the timeout, and whether it could cancel what followed."""
        key, seconds = part.key, outcome.seconds
        telemetry.info(
            "delivery.answered_late",
            topic=key.topic,
            subscription=key.subscription,
            count=len(batch),
            event_ids=event_ids([each.event for each in batch]),
            status=outcome.status,
            seconds=round(seconds, 3),
            cancelled=is_cancelled,
        )
        self.metrics.count(Metric.ANSWERED_LATE, *key, by=len(batch))
        if not is_cancelled:  # It is delivered again, or is counted as dropped.
            return
        self.metrics.count(Metric.DELIVERY_SUCCESS, *key, by=len(batch))
        if self.history.keeps(None):  # and so the attempts that failed
            now, why = self.clock.now(), f"a late success, after {seconds:.0f} s"
            rows = (self._row(key, each, now) for each in batch)
            self.history.add(
                replace(each, number=each.number + 1, state=EndState.DELIVERED, why=why)
                for each in rows
            )

    def _add(
        self,
        part: Part,
        delivery: Delivery,
        at: datetime,
        outcome: DeliveryOutcome | None,
        decision: Decision,
    ) -> None:
        """Add the row of an attempt that began *at*, or without an *outcome* an end found then."""
        state = _state(part.terms, decision)
        if not self.history.keeps(state):
            return
        now, is_dead = self.clock.now(), state is EndState.DEAD_LETTERED
        row = self._row(part.key, delivery, at)
        row = replace(
            row,
            outcome=outcome and _once(outcome, row.system_id),
            next_at=decision.due if isinstance(decision, RetryAt) else None,
            state=state,
            reason=decision.reason if isinstance(decision, End) else None,
            blob_due_at=max(part.terms.blob_due(delivery, now), now) if is_dead else None,
            why="" if isinstance(decision, Delivered) else decision.why,
        )
        part.rows.append(row)

    def _row(self, key: SubscriptionKey, delivery: Delivery, at: datetime) -> AttemptRecord:
        names = event_names(delivery.text)
        return AttemptRecord(
            topic=key.topic,
            subscription=key.subscription,
            system_id=delivery.system_id(key),
            event_id=names.id,
            event_type=names.type,
            subject=names.subject,
            event=delivery.text if self.history.keeps(EndState.DELIVERED) else None,
            trace_id=delivery.trace_id,
            replay_of=replay_job(delivery.origin.publish_id),
            published_at=delivery.origin.published_at,
            number=delivery.attempts,
            at=at,
            outcome=None,
            state=None,
            why="",
        )


def _state(terms: DeliveryTerms, decision: Decision) -> EndState | None:
    if isinstance(decision, RetryAt):
        return None
    return end_state(terms, decision) if isinstance(decision, End) else EndState.DELIVERED


def end_state(terms: DeliveryTerms, end: End) -> EndState:
    """Return what becomes of a delivery that is given up; of one whose event is gone, nothing."""
    can_be_kept = terms.dead_letter and end.reason is not EndReason.PAYLOAD_MISSING
    return EndState.DEAD_LETTERED if can_be_kept else EndState.DROPPED


def _once(outcome: DeliveryOutcome, system_id: str) -> DeliveryOutcome:
    """Return an outcome whose answer is kept with the request's first event, once."""
    answer = outcome.answer
    if answer is None or answer.of == system_id:
        return outcome
    return replace(outcome, answer=EndpointAnswer(answer.of, {}, None))
