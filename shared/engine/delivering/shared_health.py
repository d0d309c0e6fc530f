"""Keeps an endpoint's health in this process, agrees on holds with all others, and records them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial

from shared import telemetry
from shared.clock import Clock, Deadline
from shared.delivery.furthest import Bounds
from shared.delivery.gate import (
    PROBE_RECHECK,
    Availability,
    Held,
    NeedsProbe,
    Open,
    availability,
)
from shared.delivery.health.endpoint_health import (
    Health,
    LatestPushes,
    Observation,
    bounded_health,
    claim_probe,
    observe,
    return_probe,
)
from shared.delivery.policy import DeliveryTerms
from shared.engine.caching.health_table import TableHealth
from shared.engine.keeping.holds import hold_began, hold_ended
from shared.engine.ports import Metrics, OffLoop, StoredHealth
from shared.errors import Conflict, StorageUnavailable
from shared.subscriptions.subscription import SubscriptionKey
from shared.tasks import Tasks, loop_time

FAILED_AGAIN_AFTER = timedelta(seconds=5)  # after a failed write
_WORTH_A_WRITE = timedelta(seconds=1)  # by which a hold is extended
_TRIES = 3  # to write over what others have written
_NEVER = datetime.min.replace(tzinfo=UTC)


def hold_changed(
    metrics: Metrics, key: SubscriptionKey, before: Health | None, after: Health, now: datetime
) -> None:
    """Record what a write of an endpoint's shared health has changed about its hold."""
    old, new = before.hold if before else None, after.hold
    is_another = before is not None and before.endpoint != after.endpoint
    is_over = old is None or (after.released_at and after.released_at > old.extended_at)
    if not is_over and not is_another:
        return  # a hold that a failed probe prolongs goes on
    if old:
        because = "its time is over" if after.failures else "its endpoint accepted an event"
        because = "its endpoint was changed" if is_another else because
        hold_ended(metrics, key, old.reason, because, lasted=now - old.began_at)
    if new:
        hold_began(metrics, key, new.reason, new.why, cause=new.cause, until=new.until)


@dataclass(slots=True, kw_only=True, eq=False)
class SharedHealth:
    """
    The health of one endpoint.

    What this process sees counts at once. When a hold begins, is extended or ends, it is written
    over the row as it was read (by its ETag); if another process was first, its row is read, and
    what was seen here is applied to that. The writer records the hold's beginning or end. Failures
    below a hold are counted by each process for itself. While the table fails, each process goes by
    what it sees.
    """

    key: SubscriptionKey
    health: Health
    store: TableHealth
    off_loop: OffLoop
    clock: Clock
    metrics: Metrics
    tasks: Tasks
    _row: StoredHealth | None = None
    _unwritten: list[tuple[Observation, DeliveryTerms]] = field(default_factory=list)
    _latest: LatestPushes = field(default_factory=LatestPushes)
    _is_saving: bool = False
    _write_again: Deadline | None = None  # since the latest write has failed
    _others_probe: Deadline | None = None  # which is about to begin

    async def learn(self, terms: DeliveryTerms) -> None:
        """Learn what others know, as of a second ago."""
        if not terms.profile.ever_holds:
            return
        await self.store.ready(self.key)
        if row := self.store.known(self.key):
            self._adopt(row)
        self._save_soon()  # an earlier write may have failed

    def availability(self, terms: DeliveryTerms, now: datetime) -> Availability:
        """Decide whether anything may be pushed."""
        if self.health.hold is None or not terms.profile.ever_holds:
            return Open()  # Where an edition has no holds, one that an earlier left does not count.
        self._bound(now)
        found, others = availability(self.health, now), self._others_probe
        if isinstance(found, NeedsProbe) and others and not others.has_passed:
            return Held(now + others.time_left, f"{found.why}; a probe is about to begin")
        return found

    def observed(self, seen: Observation, terms: DeliveryTerms) -> None:
        """Learn from the outcome of a push, if the edition has holds."""
        if not terms.profile.ever_holds:
            return
        if (is_isolated := self._latest.is_isolated(seen, terms)) != seen.is_isolated:
            seen = replace(seen, is_isolated=is_isolated)
        self._latest = self._latest.followed_by(seen)
        self._bound(seen.ended_at)
        before = self.health
        self.health = observe(before, seen, terms)
        if _differ(before, self.health):
            self._unwritten.append((seen, terms))
        self._save_soon()

    def return_probe(self) -> None:
        """Return a claimed probe that was not sent."""
        self.health = return_probe(self.health)
        self._save_soon()

    async def claim_probe(self, terms: DeliveryTerms) -> bool:
        """Claim the probe of a hold that is over by time; one process of all succeeds."""
        try:
            for _ in range(_TRIES):
                self._adopt(await self.off_loop(partial(self.store.read, self.key)))
                now = self.clock.now()
                if not isinstance(availability(self.health, now), NeedsProbe):
                    return False  # Another process has claimed or released it.
                claimed = claim_probe(self.health, terms, now)
                with suppress(Conflict):
                    await self._write(claimed)
                    self.health = claim_probe(self.health, terms, now)  # with what was seen since
                    return True
        except StorageUnavailable as error:
            self._log_unsaved(error)
            self.health = claim_probe(self.health, terms, self.clock.now())
            return True  # While the table fails, each process probes.
        self._others_probe = Deadline(PROBE_RECHECK, loop_time)
        return False

    def _bound(self, now: datetime) -> None:
        """Forget what a clock has made impossible that was ahead when it was seen here."""
        self.health = bounded_health(self.health, Bounds(now))

    def _save_soon(self) -> None:
        if not self._is_saving and self._needs_write():  # What is saving writes this as well.
            self._is_saving = True
            self.tasks.spawn(self._save())

    async def _save(self) -> None:
        """Write what the row does not say yet."""
        try:
            for _ in range(_TRIES):
                if not self._needs_write():
                    return
                try:
                    await self._write(self.health)
                except Conflict:
                    self._adopt(await self.off_loop(partial(self.store.read, self.key)))
        except StorageUnavailable as error:
            self._write_again = Deadline(FAILED_AGAIN_AFTER, loop_time)
            self._log_unsaved(error)
        finally:
            self._is_saving = False

    def _adopt(self, row: StoredHealth | None) -> None:
        """Go by a row, unless it is about an earlier endpoint, and by what was seen here since."""
        if row and self._row and row.etag == self._row.etag:
            return  # Bounded once more, a hold would be as far away as before.
        self._row = row
        if row is None or row.health.endpoint != self.health.endpoint:
            return
        stored, known = row.health, self.health
        if stored.counted_from and stored.counted_from > (known.counted_from or _NEVER):
            known = stored  # released: failures count anew
        failures, counted_from = known.failures, known.counted_from  # which have what was seen
        health = replace(stored, failures=failures, counted_from=counted_from)
        for seen, terms in self._unwritten:
            health = observe(health, replace(seen, new_events=0), terms)
        self.health = replace(health, failures=failures, counted_from=counted_from)

    async def _write(self, health: Health) -> None:
        before = self._row.health if self._row else None
        etag, seen = self._row.etag if self._row else None, len(self._unwritten)
        self._row = await self.off_loop(partial(self.store.write, self.key, health, etag))
        del self._unwritten[:seen]
        hold_changed(self.metrics, self.key, before, health, self.clock.now())

    def _needs_write(self) -> bool:
        if self._write_again and not self._write_again.has_passed:
            return False
        row = self._row
        if row is None or row.health.endpoint != self.health.endpoint:
            return self.health.hold is not None or (row is not None and bool(row.health.hold))
        return row.is_bounded or _differ(row.health, self.health)

    def _log_unsaved(self, error: StorageUnavailable) -> None:
        telemetry.error("health.unsaved", **self.key._asdict(), detail=str(error))


def _differ(one: Health, other: Health) -> bool:
    """Tell whether a hold began, ended, was extended, or a probe of it began or was returned."""
    if one.hold is None or other.hold is None:
        return one.hold is not other.hold
    moved = abs(other.hold.until - one.hold.until)
    return moved >= _WORTH_A_WRITE or one.hold.probe_changes != other.hold.probe_changes
