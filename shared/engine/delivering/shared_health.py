"""Tracks endpoint health in this process, and shares it with all others through a table."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from shared import telemetry
from shared.clock import Clock
from shared.delivery.health.endpoint_health import (
    PROBE_RECHECK,
    Availability,
    Health,
    Held,
    NeedsProbe,
    Observation,
    Open,
    availability,
    claim_probe,
    merge,
    observe,
    return_probe,
    with_rate,
)
from shared.delivery.health.pace import RECHECK, Pace
from shared.delivery.health.streak import NO_STREAK, Streak
from shared.delivery.policy import DeliveryTerms
from shared.engine.ports import HealthStore, StoredHealth
from shared.errors import Conflict, StorageUnavailable
from shared.subscriptions.subscription import SubscriptionKey

WRITE_AFTER = timedelta(seconds=1)  # between writes that are not urgent
FAILED_AGAIN_AFTER = timedelta(seconds=5)  # after a failed write
CLAIM_LIMIT = timedelta(minutes=1)  # longest time that a claim takes

_CLAIM_TRIES = 2
_OPEN = Open()


@dataclass(slots=True, kw_only=True, eq=False)
class LocalHealth:
    """
    One endpoint as this process sees it; its methods need the lock of the gates.

    *stored* is the row as last seen in the table. Changes that are not urgent are written from
    *write_from* on, none before *blocked_until*. Until *claiming_until* a thread is claiming the
    probe, so no other may.
    """

    health: Health
    write_from: datetime
    blocked_until: datetime
    claiming_until: datetime
    pace: Pace
    is_writing: bool = False
    stored: Health | None = None
    streak: Streak = NO_STREAK

    @classmethod
    def of(cls, endpoint: str, now: datetime) -> LocalHealth:
        """Return the health of an endpoint of which nothing is known."""
        return cls(
            health=Health(endpoint=endpoint),
            write_from=now,
            blocked_until=now,
            claiming_until=now,
            pace=Pace.new(now),
        )

    def availability(self, terms: DeliveryTerms, now: datetime) -> Availability:
        """Decide whether anything may be pushed."""
        if self.health.hold is None or not terms.profile.ever_holds:
            return _OPEN  # Where an edition has no holds, one that an earlier left does not count.
        found = availability(self.health, now)
        if isinstance(found, NeedsProbe) and now < self.claiming_until:
            return Held(now + PROBE_RECHECK, "a probe is about to begin")
        return found

    def find_hold(self, terms: DeliveryTerms, now: datetime) -> Held | None:
        """Return what keeps a push that is no probe from being sent, if anything."""
        found = self.availability(terms, now)
        if isinstance(found, NeedsProbe):
            return Held(now + PROBE_RECHECK, "a hold has ended, and its probe goes first")
        return found if isinstance(found, Held) else None

    def observed(self, seen: Observation, terms: DeliveryTerms) -> None:
        """Record the outcome of a push, if the edition has holds; `SharedHealth.save` shares it."""
        if terms.profile.ever_holds:
            seen = replace(seen, is_isolated=self.streak.is_isolated(seen, terms))
            self.streak = self.streak.followed_by(seen)
            self.health = observe(self.health, seen, terms)

    def count_new(self, count: int, now: datetime) -> None:
        """Count new events, to measure the subscription's rate."""
        self.pace = self.pace.with_new(count, now)

    def return_probe(self) -> None:
        """Return a claimed probe that was not sent."""
        self.health = return_probe(self.health)

    def due_times(
        self, held: Held, sizes: Sequence[int], now: datetime, *, was_held: bool = False
    ) -> list[datetime]:
        """
        Return when held requests of so many events come back: paced, after `RECHECK` at the latest.

        *was_held*: they were held before, and come back before later ones.
        """
        if held.until > now + RECHECK:
            return [now + RECHECK] * len(sizes)
        times, self.pace = self.pace.due_times(
            held, self.health.hold, sizes, now, was_held=was_held
        )
        self.health = with_rate(self.health, self.pace.rate)
        return times

    def learn(self, row: StoredHealth | None) -> None:
        """Merge the row of the table, unless it is about an earlier endpoint."""
        if row and row.health.endpoint == self.health.endpoint:
            self.stored = row.health
            self.health = merge(self.health, row.health)

    def needs_write(self, now: datetime) -> bool:
        """Tell whether a change is stored now: urgent ones at once, others within a second."""
        health = self.health
        stored = self.stored or Health(endpoint=health.endpoint)
        if health == stored or self.is_writing or now < self.blocked_until:
            return False
        if now >= self.write_from:
            return True
        one, other = health.hold, stored.hold
        if one is None or other is None:
            return one is not other
        return one.until - other.until >= WRITE_AFTER or one.probe_changes != other.probe_changes


class SharedHealth:
    """
    Reads and writes the table: own observations count at once, those of others within a second.

    Thread-safe. While the table fails, each process goes by what it has seen itself.
    """

    def __init__(
        self, store: HealthStore, clock: Clock, lock: AbstractContextManager[object]
    ) -> None:
        self._store = store
        self._clock = clock
        self._lock = lock

    def availability(
        self, known: LocalHealth, key: SubscriptionKey, terms: DeliveryTerms
    ) -> Availability:
        """Decide whether anything may be pushed; may read the table."""
        row = self._store.cached(key) if terms.profile.ever_holds else None
        with self._lock:
            if row and row.health is not known.stored:
                known.learn(row)
            return known.availability(terms, self._clock.now())

    def claim_probe(self, known: LocalHealth, key: SubscriptionKey, terms: DeliveryTerms) -> bool:
        """Claim the probe of a hold that is over by time; one thread of all processes succeeds."""
        now = self._clock.now()
        with self._lock:
            if not isinstance(known.availability(terms, now), NeedsProbe):
                return False
            known.claiming_until = now + CLAIM_LIMIT
        again_at = now
        try:
            for _ in range(_CLAIM_TRIES):
                with suppress(Conflict):
                    return self._claimed(known, key, terms)
            again_at = now + PROBE_RECHECK  # Others have written, twice: look again soon.
        except StorageUnavailable as error:
            _log_unsaved(key, error)
            with self._lock:
                known.health = claim_probe(known.health, terms, now)
            return True  # While the table fails, each process probes.
        finally:
            with self._lock:
                known.claiming_until = again_at
        return False

    def save(self, known: LocalHealth, key: SubscriptionKey) -> None:
        """Store changes: a hold, its release and a probe's end at once, others within a second."""
        now = self._clock.now()
        with self._lock:
            if not known.needs_write(now):
                return
            known.write_from = now + WRITE_AFTER
            known.is_writing = True
        try:
            row = self._store.cached(key)
            try:
                self._write(known, key, row)
            except Conflict:
                row = self._store.read(key)
                self._write(known, key, row)
        except Conflict:
            pass  # Others write as well: the rest follows with the next change.
        except StorageUnavailable as error:
            with self._lock:
                known.blocked_until = now + FAILED_AGAIN_AFTER
            _log_unsaved(key, error)
        finally:
            with self._lock:
                known.is_writing = False

    def _claimed(self, known: LocalHealth, key: SubscriptionKey, terms: DeliveryTerms) -> bool:
        row = self._store.read(key)
        now = self._clock.now()
        with self._lock:
            known.learn(row)
            if not isinstance(availability(known.health, now), NeedsProbe):
                return False  # Another process has claimed or released it.
            claimed = claim_probe(known.health, terms, now)
        self._store.write(key, claimed, row.etag if row else None)
        with self._lock:
            known.health = merge(known.health, claimed)
            known.stored = claimed
        return True

    def _write(self, known: LocalHealth, key: SubscriptionKey, row: StoredHealth | None) -> None:
        with self._lock:
            known.learn(row)
            health = known.health
        self._store.write(key, health, row.etag if row else None)
        with self._lock:
            known.stored = health


def _log_unsaved(key: SubscriptionKey, error: StorageUnavailable) -> None:
    telemetry.error(
        "health.unsaved", topic=key.topic, subscription=key.subscription, detail=str(error)
    )
