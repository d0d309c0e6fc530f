"""Remove what is old: payload blobs, but never soon after a gap in these runs, and attempts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from shared import telemetry
from shared.clock import Clock, timestamp
from shared.delivery.attempt_record import KEPT_FOR
from shared.engine.ports import AttemptLog, PayloadStore, ResourceStore, Table
from shared.errors import Conflict

EVERY = timedelta(hours=1)  # listing blobs is the dearest operation there is
GAP = timedelta(hours=3)  # between runs: the app was down, and its messages are late
HOLD = timedelta(hours=24)  # after a gap, nothing is deleted
_STATE = (Table.TOPICS, "state", "housekeeping")


@dataclass(frozen=True, slots=True, kw_only=True)
class Housekeeping:
    """The timer's last job; *payloads* know from their names when their time is over."""

    payloads: PayloadStore
    attempts: AttemptLog
    state: ResourceStore
    clock: Clock

    def run(self, deadline: datetime) -> None:
        """
        Delete expired payloads and the attempts of old days, once an hour over all instances.

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


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)
