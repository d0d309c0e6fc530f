"""Remove what is old: payloads, but never soon after a gap in these runs, attempts, counts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from shared import telemetry
from shared.clock import Clock, timestamp
from shared.delivery.attempt_record import KEPT_FOR
from shared.engine.ports import AttemptLog, CountKeeping, PayloadStore, ResourceStore, Table
from shared.errors import Conflict

EVERY = timedelta(hours=1)  # listing blobs is the dearest operation there is
GAP = timedelta(hours=3)  # between runs: the app was down, and its messages are late
HOLD = timedelta(hours=24)  # after a gap, nothing is deleted
SETTLED_AFTER = timedelta(hours=2)  # nobody writes an hour's counts this long after its end
COUNTS_KEPT_FOR = timedelta(days=30)
_STATE = (Table.TOPICS, "state", "housekeeping")


@dataclass(frozen=True, slots=True, kw_only=True)
class Housekeeping:
    """The timer's last job; *payloads* know from their names when their time is over."""

    payloads: PayloadStore
    attempts: AttemptLog
    counts: CountKeeping
    state: ResourceStore
    clock: Clock

    def run(self, deadline: datetime) -> None:
        """
        Delete what is too old and add up counts, once an hour over all instances.

        Raises:
            StorageUnavailable: tried again at the next run.
        """
        now = self.clock.now()
        known = self.state.get(*_STATE)
        last_run = _moment(known.document["lastRun"]) if known else None
        hold_until = _moment(known.document["holdUntil"]) if known else now
        if last_run and now - last_run < EVERY:
            return
        if last_run is None or now - last_run > GAP:
            hold_until = now + HOLD
        document = {"lastRun": timestamp(now), "holdUntil": timestamp(hold_until)}
        try:
            self.state.put(*_STATE, document, known.etag if known else None)
        except Conflict:
            return  # Another instance runs it.
        if now >= hold_until:
            deleted = self.payloads.delete_expired(now, deadline)
            telemetry.info("payloads.deleted", count=deleted)
        if dropped := self.attempts.drop_before(now.date() - KEPT_FOR, deadline):
            telemetry.info("attempts.dropped", days=dropped)
        self._keep_counts_few(now, deadline)

    def _keep_counts_few(self, now: datetime, deadline: datetime) -> None:
        hour = now.replace(minute=0, second=0, microsecond=0)
        self.counts.add_up(before=hour - SETTLED_AFTER, forget=now - COUNTS_KEPT_FOR)
        if dropped := self.counts.drop_before((now - COUNTS_KEPT_FOR).date(), deadline):
            telemetry.info("metrics.dropped", days=dropped)


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)
