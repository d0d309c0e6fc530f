"""Records attempts for operators, without ever delaying delivery."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from shared import telemetry
from shared.clock import Clock
from shared.delivery.attempt_record import KEPT_FOR, AttemptRecord
from shared.delivery.delivery import Delivery
from shared.delivery.messages.message import DeliveryMessage
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
from shared.delivery.requests.push_batch import PushBatch
from shared.delivery.requests.replay_header import replay_job
from shared.delivery.requests.traces import trace_id
from shared.engine.ports import Attempts
from shared.events.event_ids import event_names
from shared.settings import AttemptLogging

QUIET_FOR = timedelta(seconds=30)  # after a failed write; what comes meanwhile is not recorded


@dataclass(slots=True, kw_only=True)
class AttemptHistory:
    """The history of one process. After a failed write it pauses."""

    log: Attempts
    logging: AttemptLogging
    clock: Clock
    _quiet_until: datetime | None = None
    _waiting: list[AttemptRecord] = field(default_factory=list)
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    def of(self, message: DeliveryMessage, terms: DeliveryTerms) -> MessageHistory:
        """Return the history of one message."""
        return MessageHistory(history=self, message=message, terms=terms)

    def keeps(self, state: EndState | None) -> bool:
        if self.logging is AttemptLogging.FAILURES:
            return state is not EndState.DELIVERED
        return self.logging is AttemptLogging.ALL

    async def write(self, records: list[AttemptRecord]) -> None:
        """Store *records*, with those of others that wait; give up what can't be stored soon."""
        # The tables of older days are dropped, and must not come back.
        oldest = self.clock.now().date() - KEPT_FOR
        kept = [each for each in records if each.published_at.date() >= oldest]
        if not kept:
            return
        self._waiting += kept
        async with self._turn:
            waiting, self._waiting = self._waiting, []
            now = self.clock.now()
            if waiting and not (self._quiet_until and now < self._quiet_until):
                await self._write(waiting, now)

    async def _write(self, records: list[AttemptRecord], now: datetime) -> None:
        try:
            await self.log.write(records)
        except Exception as error:  # noqa: BLE001 - never delays delivery
            self._quiet_until = now + QUIET_FOR
            telemetry.error(
                "attempts.lost",
                count=len(records),
                quiet_seconds=QUIET_FOR.total_seconds(),
                detail=f"{type(error).__name__}: {error}",
            )


@dataclass(slots=True, kw_only=True)
class MessageHistory:
    """Collects the records of one message's deliveries."""

    history: AttemptHistory
    message: DeliveryMessage
    terms: DeliveryTerms
    _records: list[AttemptRecord] = field(default_factory=list)

    @property
    def keeps_successes(self) -> bool:
        """Whether deliveries that succeed are recorded."""
        return self.history.keeps(EndState.DELIVERED)

    def attempted(
        self,
        delivery: Delivery,
        text: str | None,
        at: datetime,
        outcome: DeliveryOutcome | None,
        decision: Decision,
    ) -> None:
        """Record an attempt that began *at*, or without an *outcome* an end found then."""
        state = self._state(decision)
        if not self.history.keeps(state):
            return
        now = self.history.clock.now()
        is_dead = state is EndState.DEAD_LETTERED
        about = self._about(delivery, text, at)
        record = replace(
            about,
            outcome=outcome and _once(outcome, about.system_id),
            next_at=decision.due if isinstance(decision, RetryAt) else None,
            state=state,
            reason=decision.reason if isinstance(decision, End) else None,
            blob_due_at=max(self.terms.blob_due(delivery, now), now) if is_dead else None,
            why="" if isinstance(decision, Delivered) else decision.why,
        )
        self._records.append(record)

    def ended(self, delivery: Delivery, text: str | None, end: End) -> None:
        """Record an end that was found when the delivery was due; *text* ``None``: it is gone."""
        self.attempted(delivery, text, self.history.clock.now(), None, end)

    async def answered_late(self, batch: PushBatch, seconds: float) -> None:
        """Store a late success after the records of the attempts' failure, if those are kept."""
        if not self.history.keeps(None):
            return
        now = self.history.clock.now()
        records = [
            replace(
                self._about(delivery, text, now),
                number=delivery.attempts + 1,
                state=EndState.DELIVERED,
                why=f"a late success, after {seconds:.0f} s",
            )
            for delivery, text in batch
        ]
        await self.history.write(records)

    def take(self) -> list[AttemptRecord]:
        """Return what was collected, once."""
        records, self._records = self._records, []
        return records

    def _about(self, delivery: Delivery, text: str | None, at: datetime) -> AttemptRecord:
        """Return a record without an outcome."""
        key, names = self.message.key, event_names(text)
        return AttemptRecord(
            topic=key.topic,
            subscription=key.subscription,
            system_id=delivery.system_id(key),
            event_id=names.id,
            event_type=names.type,
            subject=names.subject,
            event=text if self.keeps_successes else None,
            trace_id=trace_id(delivery, text),
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
        can_be_kept = self.terms.dead_letter and decision.reason is not EndReason.PAYLOAD_MISSING
        return EndState.DEAD_LETTERED if can_be_kept else EndState.DROPPED


def _once(outcome: DeliveryOutcome, system_id: str) -> DeliveryOutcome:
    """Return an outcome whose answer is kept with the request's first event, once."""
    answer = outcome.answer
    if answer is None or answer.of == system_id:
        return outcome
    return replace(outcome, answer=EndpointAnswer(answer.of, {}, None))
