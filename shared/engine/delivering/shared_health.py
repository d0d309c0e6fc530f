"""Tracks endpoint health in this process, and shares it with all others through a table."""

from __future__ import annotations

from collections import OrderedDict
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
    endpoint_id,
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
from shared.subscriptions.subscription import EventSubscription, SubscriptionKey

WRITE_AFTER = timedelta(seconds=1)  # between writes that are not urgent
FAILED_AGAIN_AFTER = timedelta(seconds=5)  # after a failed write
CLAIM_LIMIT = timedelta(minutes=1)  # longest time that a claim takes
MAX_KEYS = 10_000

_CLAIM_TRIES = 2

_Key = tuple[SubscriptionKey, str]  # … and the id of its endpoint


@dataclass(slots=True, kw_only=True)
class _LocalHealth:
    """
    One subscription as this process sees it.

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


class HealthTracker:
    """
    The health of all endpoints: own observations count at once, those of others within a second.

    Thread-safe. While the table fails, each process goes by what it has seen itself.
    """

    def __init__(
        self, store: HealthStore, clock: Clock, lock: AbstractContextManager[object]
    ) -> None:
        self._store = store
        self._clock = clock
        self._lock = lock
        self._known: OrderedDict[_Key, _LocalHealth] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of known subscriptions."""
        return len(self._known)

    def count_new(self, subscription: EventSubscription, count: int) -> None:
        """Count new events, to measure the subscription's rate."""
        now = self._clock.now()
        with self._lock:
            known = self._of(subscription)
            known.pace = known.pace.with_new(count, now)

    def availability(self, subscription: EventSubscription, terms: DeliveryTerms) -> Availability:
        """Decide whether anything may be pushed; may read the table."""
        row = None
        if terms.profile.ever_holds:
            row = self._store.cached(subscription.key)
        with self._lock:
            known = self._of(subscription)
            _learn(known, row)
            return _availability(known, terms, self._clock.now())

    def find_hold(self, subscription: EventSubscription, terms: DeliveryTerms) -> Held | None:
        """Return what keeps a push from being sent, if anything; reads memory only."""
        now = self._clock.now()
        with self._lock:
            found = _availability(self._of(subscription), terms, now)
        if isinstance(found, NeedsProbe):
            return Held(now + PROBE_RECHECK, "a hold has ended, and its probe goes first")
        return found if isinstance(found, Held) else None

    def observed(
        self, subscription: EventSubscription, terms: DeliveryTerms, seen: Observation
    ) -> None:
        """Record the outcome of a push, if the edition has holds; `save` shares it."""
        if not terms.profile.ever_holds:
            return
        with self._lock:
            known = self._of(subscription)
            seen = replace(seen, is_isolated=known.streak.is_isolated(seen, terms))
            known.streak = known.streak.followed_by(seen)
            known.health = observe(known.health, seen, terms)

    def return_probe(self, subscription: EventSubscription) -> None:
        """Return a claimed probe that was not sent."""
        with self._lock:
            known = self._of(subscription)
            known.health = return_probe(known.health)

    def claim_probe(self, subscription: EventSubscription, terms: DeliveryTerms) -> bool:
        """Claim the probe of a hold that is over by time; one thread of all processes succeeds."""
        now = self._clock.now()
        with self._lock:
            known = self._of(subscription)
            if not isinstance(_availability(known, terms, now), NeedsProbe):
                return False
            known.claiming_until = now + CLAIM_LIMIT
        again_at = now
        try:
            for _ in range(_CLAIM_TRIES):
                with suppress(Conflict):
                    return self._claimed(subscription, known, terms)
            again_at = now + PROBE_RECHECK  # Others have written, twice: look again soon.
        except StorageUnavailable as error:
            _log_unsaved(subscription, error)
            with self._lock:
                known.health = claim_probe(known.health, terms, now)
            return True  # While the table fails, each process probes.
        finally:
            known.claiming_until = again_at
        return False

    def save(self, subscription: EventSubscription) -> None:
        """Store changes: a hold, its release and a probe's end at once, others within a second."""
        now = self._clock.now()
        with self._lock:
            known = self._of(subscription)
            if not _is_due(known, now):
                return
            known.write_from = now + WRITE_AFTER
            known.is_writing = True
        try:
            row = self._store.cached(subscription.key)
            try:
                self._write(subscription, known, row)
            except Conflict:
                row = self._store.read(subscription.key)
                self._write(subscription, known, row)
        except Conflict:
            pass  # Others write as well: the rest follows with the next change.
        except StorageUnavailable as error:
            known.blocked_until = now + FAILED_AGAIN_AFTER
            _log_unsaved(subscription, error)
        finally:
            known.is_writing = False

    def due_times(
        self,
        subscription: EventSubscription,
        held: Held,
        sizes: Sequence[int],
        *,
        was_held: bool = False,
    ) -> list[datetime]:
        """
        Return when held requests of so many events come back: paced, after `RECHECK` at the latest.

        *was_held*: they were held before, and come back before later ones.
        """
        now = self._clock.now()
        if held.until > now + RECHECK:
            return [now + RECHECK] * len(sizes)
        with self._lock:
            known = self._of(subscription)
            times, known.pace = known.pace.due_times(
                held, known.health.hold, sizes, now, was_held=was_held
            )
            known.health = with_rate(known.health, known.pace.rate)
        return times

    def _claimed(
        self, subscription: EventSubscription, known: _LocalHealth, terms: DeliveryTerms
    ) -> bool:
        row = self._store.read(subscription.key)
        now = self._clock.now()
        with self._lock:
            _learn(known, row)
            if not isinstance(availability(known.health, now), NeedsProbe):
                return False  # Another process has claimed or released it.
            claimed = claim_probe(known.health, terms, now)
        self._store.write(subscription.key, claimed, row.etag if row else None)
        with self._lock:
            known.health = merge(known.health, claimed)
            known.stored = claimed
        return True

    def _write(
        self, subscription: EventSubscription, known: _LocalHealth, row: StoredHealth | None
    ) -> None:
        with self._lock:
            _learn(known, row)
            health = known.health
        self._store.write(subscription.key, health, row.etag if row else None)
        with self._lock:
            known.stored = health

    def _of(self, subscription: EventSubscription) -> _LocalHealth:
        """Return the subscription's state, new if unknown. Call with the lock held."""
        endpoint = endpoint_id(subscription)
        key = (subscription.key.folded, endpoint)
        known = self._known.get(key)
        if known is None:
            now = self._clock.now()
            known = self._known[key] = _LocalHealth(
                health=Health(endpoint=endpoint),
                write_from=now,
                blocked_until=now,
                claiming_until=now,
                pace=Pace.new(now),
            )
            if len(self._known) > MAX_KEYS:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        return known


def _availability(known: _LocalHealth, terms: DeliveryTerms, now: datetime) -> Availability:
    if not terms.profile.ever_holds:
        return Open()  # This edition has no holds; one that an earlier edition left does not count.
    found = availability(known.health, now)
    if isinstance(found, NeedsProbe) and now < known.claiming_until:
        return Held(now + PROBE_RECHECK, "a probe is about to begin")
    return found


def _learn(known: _LocalHealth, row: StoredHealth | None) -> None:
    """Merge the row of the table, unless it is about an earlier endpoint."""
    if row and row.health.endpoint == known.health.endpoint:
        known.stored = row.health
        known.health = merge(known.health, row.health)


def _is_due(known: _LocalHealth, now: datetime) -> bool:
    health = known.health
    stored = known.stored or Health(endpoint=health.endpoint)
    if health == stored or known.is_writing or now < known.blocked_until:
        return False
    if now >= known.write_from:
        return True
    one, other = health.hold, stored.hold
    if one is None or other is None:
        return one is not other
    return one.until - other.until >= WRITE_AFTER or one.probe_changes != other.probe_changes


def _log_unsaved(subscription: EventSubscription, error: StorageUnavailable) -> None:
    telemetry.error(
        "health.unsaved",
        topic=subscription.topic,
        subscription=subscription.name,
        detail=str(error),
    )
