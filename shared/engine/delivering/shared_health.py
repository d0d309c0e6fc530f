"""Tracks endpoint health in this process, and shares it with all others through a table."""

from __future__ import annotations

from contextlib import AbstractContextManager, suppress

from shared import telemetry
from shared.clock import Clock
from shared.delivery.furthest import Bounds
from shared.delivery.health.endpoint_health import (
    PROBE_RECHECK,
    Availability,
    Health,
    NeedsProbe,
    Open,
    availability,
    claim_probe,
    merge,
)
from shared.delivery.health.local_health import (
    CLAIM_LIMIT,
    FAILED_AGAIN_AFTER,
    WRITE_AFTER,
    LocalHealth,
)
from shared.delivery.policy import DeliveryTerms
from shared.engine.delivering.clock_records import ClockRecords
from shared.engine.delivering.hold_records import HoldRecords
from shared.engine.ports import HealthStore, Metrics, StoredHealth
from shared.errors import Conflict, StorageUnavailable
from shared.subscriptions.subscription import SubscriptionKey

_CLAIM_TRIES = 2
_OPEN = Open()


class SharedHealth:
    """
    Reads and writes the table: own observations count at once, those of others within a second.

    The process that writes the beginning or the end of a hold records it. Thread-safe. While the
    table fails, each process goes by what it has seen itself.
    """

    def __init__(
        self,
        store: HealthStore,
        clock: Clock,
        lock: AbstractContextManager[object],
        metrics: Metrics,
        clock_records: ClockRecords,
    ) -> None:
        self._store = store
        self._metrics = metrics
        self._clock_records = clock_records
        self._clock = clock
        self._lock = lock

    def availability(
        self, known: LocalHealth, key: SubscriptionKey, terms: DeliveryTerms
    ) -> Availability:
        """Decide whether anything may be pushed; may read the table."""
        row = self._store.cached(key) if terms.profile.ever_holds else None
        bounds = Bounds(self._clock.now())
        with self._lock:
            if row and row.health is not known.stored:
                known.learn(row.health, bounds)
            found = known.availability(terms, bounds.now)
        self._clock_records.bounded(bounds, key)
        return found

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
            if row:
                known.learn(row.health, Bounds(now))
            if not isinstance(availability(known.health, now), NeedsProbe):
                return False  # Another process has claimed or released it.
            claimed = claim_probe(known.health, terms, now)
        self._store_row(key, claimed, row)
        with self._lock:
            known.health = merge(known.health, claimed)
            known.stored = claimed
        return True

    def _write(self, known: LocalHealth, key: SubscriptionKey, row: StoredHealth | None) -> None:
        with self._lock:
            if row:
                known.learn(row.health, Bounds(self._clock.now()))
            health = known.health
        self._store_row(key, health, row)
        with self._lock:
            known.stored = health

    def _store_row(self, key: SubscriptionKey, health: Health, row: StoredHealth | None) -> None:
        self._store.write(key, health, row.etag if row else None)
        before = row.health if row else None
        HoldRecords(self._metrics, key).changed(before, health, self._clock.now())


def _log_unsaved(key: SubscriptionKey, error: StorageUnavailable) -> None:
    telemetry.error(
        "health.unsaved", topic=key.topic, subscription=key.subscription, detail=str(error)
    )
