"""Records each attempt and each end once: in the log, in the attempt table, in the metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from shared import telemetry
from shared.clock import Clock, is_pending
from shared.delivery.delivery import Delivery
from shared.delivery.outcome import DeliveryOutcome
from shared.delivery.policy import Decision, Delivered, End, EndReason
from shared.delivery.requests.push_batch import Loaded, PushBatch
from shared.delivery.requests.traces import trace_id
from shared.engine.delivering.attempt_history import MessageHistory
from shared.engine.delivering.attempt_lines import AttemptLines
from shared.engine.delivering.results import Attempted, Shortage
from shared.engine.ports import Metrics
from shared.events.event_ids import event_ids
from shared.metrics import Metric, error_type
from shared.subscriptions.subscription import SubscriptionKey

SHORTAGES_EVERY = timedelta(minutes=1)


@dataclass(slots=True, kw_only=True)
class Record:
    """The facts about one part's deliveries; *lines*, *history* and *metrics* are its sinks."""

    key: SubscriptionKey
    lines: AttemptLines
    history: MessageHistory
    metrics: Metrics
    clock: Clock

    def seen(self, batch: PushBatch) -> None:
        """Count the age of the oldest event of a request that was made or put back: no events."""
        published = min(each.delivery.origin.published_at for each in batch)
        age = max(self.clock.now() - published, timedelta())
        self.metrics.count(Metric.EVENT_AGE, *self.key, by=age // timedelta(milliseconds=1))

    def pushed(self, attempted: Attempted, events: int, *, is_first: bool) -> None:
        """Count an attempt for each event, and once the time of a request that was answered."""
        outcome, count = attempted.outcome, self.metrics.count
        if is_first and outcome.status is not None:
            count(Metric.PROCESSING_DURATION, *self.key, by=round(outcome.seconds * 1000, 1))
        if attempted.succeeded:
            count(Metric.DELIVERY_SUCCESS, *self.key, by=events)
        else:
            kind = error_type(outcome.status)
            count(Metric.ATTEMPT_FAIL, *self.key, by=events, Error=outcome.outcome, ErrorType=kind)

    def attempted(
        self, tried: PushBatch, attempted: Attempted, decisions: Sequence[Decision]
    ) -> None:
        """
        Record an attempt whose events have it counted, with what follows for each.

        Successes come here only if they are kept.
        """
        for (delivery, text), decision in zip(tried, decisions, strict=True):
            self.history.attempted(delivery, text, attempted.began_at, attempted.outcome, decision)
        if isinstance(decisions[0], Delivered):
            self.lines.succeeded(tried, attempted.outcome)
        else:
            self.lines.attempted(tried, attempted.outcome, decisions[0], self.clock.now())

    def ended(self, loaded: Loaded, end: End) -> None:
        """Record an end without another attempt."""
        self.lines.ended(*loaded, end)
        self.history.ended(*loaded, end)

    def lost(self, delivery: Delivery, end: End) -> None:
        """Record the end of a delivery whose event is gone."""
        self.history.ended(delivery, None, end)

    def dropped(self, delivery: Delivery, text: str | None, reason: EndReason) -> None:
        """Record that nothing is left of an event."""
        named = {"system_id": delivery.system_id(self.key), "trace_id": trace_id(delivery, text)}
        cause = delivery.last.cause if delivery.last else None
        log_dropped(self.metrics, self.key, reason, [text], cause=cause, **named)

    async def answered_late(
        self, batch: PushBatch, outcome: DeliveryOutcome, *, is_cancelled: bool
    ) -> None:
        """Record a success after the timeout, and whether it could cancel what followed."""
        telemetry.info(
            "delivery.answered_late",
            topic=self.key.topic,
            subscription=self.key.subscription,
            count=len(batch),
            event_ids=event_ids([text for _, text in batch]),
            status=outcome.status,
            seconds=round(outcome.seconds, 3),
            cancelled=is_cancelled,
        )
        self.metrics.count(Metric.ANSWERED_LATE, *self.key, by=len(batch))
        if is_cancelled:  # Otherwise it is delivered again, or is counted as dropped.
            self.metrics.count(Metric.DELIVERY_SUCCESS, *self.key, by=len(batch))
            await self.history.answered_late(batch, outcome.seconds)


@dataclass(slots=True)
class Shortages:
    """Logs shortages of ours, once a minute."""

    clock: Clock
    _count: int = 0  # of those not logged yet
    _logged_at: datetime | None = None

    def __call__(self, shortage: Shortage) -> None:
        """Log or count one."""
        now, at = self.clock.now(), self._logged_at
        self._count += 1
        if at and is_pending(at + SHORTAGES_EVERY, now, SHORTAGES_EVERY):
            return
        telemetry.error("delivery.shortage", detail=shortage.of, count=self._count)
        self._count, self._logged_at = 0, now


def log_dropped(
    metrics: Metrics,
    key: SubscriptionKey,
    reason: EndReason,
    texts: Sequence[str | None],
    *,
    cause: str | None = None,
    **fields: telemetry.Field,
) -> None:
    """
    Count dropped events of one subscription, and log which and why.

    *texts* are their JSON, ``None`` where it is gone. *cause* is that of the last attempt.
    """
    metrics.count(Metric.DROPPED, *key, by=len(texts), DropReason=reason)
    telemetry.warning(
        "delivery.dropped",
        topic=key.topic,
        subscription=key.subscription,
        reason=reason,
        cause=cause,
        count=len(texts),
        event_ids=event_ids(texts),
        **fields,
    )
