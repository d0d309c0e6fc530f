"""Removes expired payloads, attempts and counts; payloads never soon after a gap in its runs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from shared import telemetry
from shared.clock import Clock, Deadline, timestamp
from shared.delivery.attempt_record import KEPT_FOR
from shared.engine.ports import (
    AttemptLog,
    MetricRetention,
    PayloadStore,
    Resource,
    ResourceStore,
    Table,
)
from shared.errors import UNREADABLE, Conflict, FirstFault

EVERY = timedelta(hours=1)  # listing blobs is the most expensive storage operation
GAP = timedelta(hours=3)  # between runs: the app was down, its messages are late
PAUSE_AFTER_GAP = timedelta(hours=24)  # in which no payload is deleted
COUNTS_FINAL_AFTER = timedelta(hours=2)  # no process writes an hour's counts later than that
COUNTS_KEPT_FOR = timedelta(days=30)
_STATE = (Table.TOPICS, "state", "housekeeping")


@dataclass(frozen=True, slots=True, kw_only=True)
class Housekeeping:
    """The dead-letter timer's last job; a payload blob's name says when it expires."""

    payloads: PayloadStore
    attempts: AttemptLog
    counts: MetricRetention
    state: ResourceStore
    clock: Clock

    def run(self, deadline: Deadline) -> None:
        """Delete what has expired and roll up counts, once an hour over all instances."""
        known, now = self.state.get(*_STATE), self.clock.now()
        if not self.clock.is_trusted:
            return
        last_run, paused_until = _times(known) or (now - 2 * GAP, now)
        gap = abs(now - last_run)  # The clock that wrote it may be ahead.
        if gap < EVERY:
            return
        if gap > GAP:
            paused_until = now + PAUSE_AFTER_GAP
        document = {"lastRun": timestamp(now), "holdUntil": timestamp(paused_until)}
        try:
            self.state.put(*_STATE, document, known.etag if known else None)
        except Conflict:
            return  # Another instance runs it.
        first = FirstFault()
        if now >= paused_until:
            with first:
                deleted = self.payloads.delete_expired(now, deadline)
                telemetry.info("payloads.deleted", count=deleted)
        with first:
            if days := self.attempts.delete_before(now.date() - KEPT_FOR, deadline):
                telemetry.info("attempts.dropped", days=days)
        with first:
            self._roll_up_counts(now, deadline)
        with first:
            self._delete_counts(now, deadline)
        first.raise_it()

    def _roll_up_counts(self, now: datetime, deadline: Deadline) -> None:
        hour = now.replace(minute=0, second=0, microsecond=0)
        self.counts.roll_up(hour - COUNTS_FINAL_AFTER, now - COUNTS_KEPT_FOR, deadline)

    def _delete_counts(self, now: datetime, deadline: Deadline) -> None:
        if days := self.counts.delete_before((now - COUNTS_KEPT_FOR).date(), deadline):
            telemetry.info("metrics.dropped", days=days)


def _times(known: Resource | None) -> tuple[datetime, datetime] | None:
    """Return when it last ran and until when it pauses; ``None`` if there is no readable row."""
    if known is None:
        return None
    try:
        members = (known.document[name] for name in ("lastRun", "holdUntil"))
        last_run, paused_until = (datetime.fromisoformat(each).astimezone(UTC) for each in members)
    except UNREADABLE as error:
        table, partition, row = _STATE
        telemetry.error(
            "document.unreadable", table=table, partition=partition, row=row, error=repr(error)
        )
        return None
    return last_run, paused_until
