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
    End,
    EndReason,
    EndState,
    RetryAt,
)
from shared.delivery.requests.added_headers import replay_job
from shared.engine.delivering.attempt_lines import AttemptLines
from shared.engine.delivering.results import Attempted
from shared.engine.keeping.drops_and_holds import log_dropped
from shared.engine.keeping.event_loop import loop_time
from shared.engine.ports import AttemptLog, Metrics, OffLoop
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


@dataclass(slots=True, kw_only=True)
class AttemptRecorder:
    """Records what becomes of one part's deliveries: in log lines, rows and counts."""

    lines: AttemptLines
    history: AttemptHistory
    metrics: Metrics
    clock: Clock
    _rows: list[AttemptRecord] = field(default_factory=list)

    @property
    def key(self) -> SubscriptionKey:
        return self.lines.key

    @property
    def keeps_successes(self) -> bool:
        return self.history.keeps(EndState.DELIVERED)

    def take_rows(self) -> list[AttemptRecord]:
        """Return the rows that are to be stored, once."""
        rows, self._rows = self._rows, []
        return rows

    def seen(self, batch: Batch) -> None:
        """Count the age of the oldest event of a request that was made or requeued: no events."""
        published = min(each.origin.published_at for each in batch)
        age = max(self.clock.now() - published, timedelta())
        self.metrics.count(Metric.EVENT_AGE, *self.key, by=age // timedelta(milliseconds=1))

    def pushed(self, attempted: Attempted, events: int, *, is_first: bool) -> None:
        """Count an attempt for each event, and once the time of a request that was answered."""
        outcome, count, key = attempted.outcome, self.metrics.count, self.key
        if is_first and outcome.status is not None:
            count(Metric.PROCESSING_DURATION, *key, by=round(outcome.seconds * 1000, 1))
        if attempted.succeeded:
            count(Metric.DELIVERY_SUCCESS, *key, by=events)
        else:
            kind = error_type(outcome.status)
            count(Metric.ATTEMPT_FAIL, *key, by=events, Error=outcome.outcome, ErrorType=kind)

    def attempted(self, tried: Batch, attempted: Attempted, decisions: Sequence[Decision]) -> None:
        """
        Record an attempt whose events have it counted, with what follows for each.

        Successes come here only if they are kept.
        """
        for delivery, decision in zip(tried, decisions, strict=True):
            self._add(delivery, attempted.began_at, attempted.outcome, decision)
        if isinstance(decisions[0], Delivered):
            self.lines.succeeded(tried, attempted.outcome)
        else:
            self.lines.attempted(tried, attempted.outcome, decisions[0], self.clock.now())

    def ended(self, delivery: Delivery, end: End) -> None:
        """Record an end without another attempt."""
        self.lines.ended(delivery, end)
        self._add(delivery, self.clock.now(), None, end)

    def lost(self, delivery: Delivery, end: End) -> None:
        """Record the end of a delivery whose event is gone."""
        self._add(delivery, self.clock.now(), None, end)

    def dropped(self, delivery: Delivery, reason: EndReason) -> None:
        """Record that nothing is left of an event."""
        key, cause = self.key, delivery.last.cause if delivery.last else None
        named = {"system_id": delivery.system_id(key), "trace_id": delivery.trace_id}
        log_dropped(self.metrics, key, reason, [delivery.text], cause=cause, **named)

    def answered_late(self, batch: Batch, outcome: DeliveryOutcome, *, is_cancelled: bool) -> None:
        """Record a success after the timeout, and whether it could cancel what followed."""
        key, seconds = self.key, outcome.seconds
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
            rows = [
                replace(
                    self._row(delivery, now),
                    number=delivery.attempts + 1,
                    state=EndState.DELIVERED,
                    why=why,
                )
                for delivery in batch
            ]
            self.history.add(rows)

    def _add(
        self,
        delivery: Delivery,
        at: datetime,
        outcome: DeliveryOutcome | None,
        decision: Decision,
    ) -> None:
        """Add the row of an attempt that began *at*, or without an *outcome* an end found then."""
        state = self._state(decision)
        if not self.history.keeps(state):
            return
        now, is_dead = self.clock.now(), state is EndState.DEAD_LETTERED
        row = self._row(delivery, at)
        row = replace(
            row,
            outcome=outcome and _once(outcome, row.system_id),
            next_at=decision.due if isinstance(decision, RetryAt) else None,
            state=state,
            reason=decision.reason if isinstance(decision, End) else None,
            blob_due_at=max(self.lines.terms.blob_due(delivery, now), now) if is_dead else None,
            why="" if isinstance(decision, Delivered) else decision.why,
        )
        self._rows.append(row)

    def _row(self, delivery: Delivery, at: datetime) -> AttemptRecord:
        key, names = self.key, event_names(delivery.text)
        return AttemptRecord(
            topic=key.topic,
            subscription=key.subscription,
            system_id=delivery.system_id(key),
            event_id=names.id,
            event_type=names.type,
            subject=names.subject,
            event=delivery.text if self.keeps_successes else None,
            trace_id=delivery.trace_id,
            replay_of=replay_job(delivery.origin.publish_id),
            published_at=delivery.origin.published_at,
            number=delivery.attempts,
            at=at,
            outcome=None,
            state=None,
            why="",
        )

    def _state(self, decision: Decision) -> EndState | None:
        if isinstance(decision, RetryAt):
            return None
        if isinstance(decision, Delivered):
            return EndState.DELIVERED
        can_be_kept = (
            self.lines.terms.dead_letter and decision.reason is not EndReason.PAYLOAD_MISSING
        )
        return EndState.DEAD_LETTERED if can_be_kept else EndState.DROPPED


def _once(outcome: DeliveryOutcome, system_id: str) -> DeliveryOutcome:
    """Return an outcome whose answer is kept with the request's first event, once."""
    answer = outcome.answer
    if answer is None or answer.of == system_id:
        return outcome
    return replace(outcome, answer=EndpointAnswer(answer.of, {}, None))
