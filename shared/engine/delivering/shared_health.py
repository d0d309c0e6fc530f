"""What this process knows of the endpoints' health, and its share in what all of them know."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from shared import telemetry
from shared.clock import Clock
from shared.delivery.health.endpoint_health import (
    PROBE_LOOK,
    Health,
    Held,
    NeedsProbe,
    Observation,
    Open,
    Standing,
    claim,
    endpoint_id,
    give_back,
    merge,
    observe,
    standing,
)
from shared.delivery.health.pace import Arrivals, Line
from shared.delivery.health.streak import NO_STREAK, Streak
from shared.delivery.policy import DeliveryTerms
from shared.engine.ports import HealthStore, StoredHealth
from shared.errors import Conflict, StorageUnavailable
from shared.subscriptions.subscription import EventSubscription, SubscriptionKey

LOOK = timedelta(minutes=5)  # what is held is looked at again after so long, released or not
WRITE_AFTER = timedelta(seconds=1)  # between writes of what is not urgent
FAILED_AGAIN_AFTER = timedelta(seconds=5)  # … and after one that failed
ASKS_FOR = timedelta(minutes=1)  # that a claim takes at the very most
MAX_KEYS = 10_000

_RATE_CHANGE = 1.2  # by which a rate must have grown to be told to others
_CLAIM_TRIES = 2

_Key = tuple[SubscriptionKey, str]  # … and the id of its endpoint


@dataclass(slots=True, kw_only=True)
class _Known:
    """
    One subscription as this process sees it.

    *stored* is what the table is known to hold. What is not urgent may be written from *write_from*
    on, nothing before *blocked_until*. Until *asks_until* a thread is about to claim the probe, and
    no other one may. *streak* is what came of the pushes here. *line* has the places of what is
    held; *rate* is the usual rate of new events while there are such.
    """

    health: Health
    arrivals: Arrivals
    write_from: datetime
    blocked_until: datetime
    asks_until: datetime
    line: Line
    is_writing: bool = False
    stored: Health | None = None
    streak: Streak = NO_STREAK
    rate: float = 0.0


class HealthTracker:
    """
    Health of all endpoints: what was observed here counts at once, what others wrote soon.

    Safe to use from any thread. While the table fails, what is known here is all there is.
    """

    def __init__(
        self, store: HealthStore, clock: Clock, lock: AbstractContextManager[object]
    ) -> None:
        self._store = store
        self._clock = clock
        self._lock = lock
        self._known: OrderedDict[_Key, _Known] = OrderedDict()

    def __len__(self) -> int:
        """Return of how many subscriptions something is known."""
        return len(self._known)

    def arrived(self, subscription: EventSubscription, count: int) -> None:
        """Count new events, to know the subscription's usual rate."""
        now = self._clock.now()
        with self._lock:
            known = self._of(subscription)
            known.arrivals = known.arrivals.with_more(count, now)

    def standing(self, subscription: EventSubscription, terms: DeliveryTerms) -> Standing:
        """Say whether anything may be pushed, by all that is known; it may read the table."""
        row = None
        if terms.profile.ever_holds:
            row = self._store.seen(subscription.key)
        with self._lock:
            known = self._of(subscription)
            _learn(known, row)
            return _standing(known, terms, self._clock.now())

    def held(self, subscription: EventSubscription, terms: DeliveryTerms) -> Held | None:
        """Say what keeps a push from beginning, by what is known in memory."""
        now = self._clock.now()
        with self._lock:
            found = _standing(self._of(subscription), terms, now)
        if isinstance(found, NeedsProbe):
            return Held(now + PROBE_LOOK, "a hold has ended, and its probe goes first")
        return found if isinstance(found, Held) else None

    def observed(
        self, subscription: EventSubscription, terms: DeliveryTerms, seen: Observation
    ) -> None:
        """Learn what came of a push, in an edition with holds; `save` tells the others."""
        if not terms.profile.ever_holds:
            return
        with self._lock:
            known = self._of(subscription)
            seen = replace(seen, is_isolated=known.streak.leaves_isolated(seen, terms))
            known.streak = known.streak.followed_by(seen)
            known.health = observe(known.health, seen, terms)

    def give_back(self, subscription: EventSubscription) -> None:
        """Let somebody else probe: this process did not."""
        with self._lock:
            known = self._of(subscription)
            known.health = give_back(known.health)

    def claim_probe(self, subscription: EventSubscription, terms: DeliveryTerms) -> bool:
        """Claim the probe of a hold that is over by time; one thread of one process gets it."""
        now = self._clock.now()
        with self._lock:
            known = self._of(subscription)
            if not isinstance(_standing(known, terms, now), NeedsProbe):
                return False
            known.asks_until = now + ASKS_FOR
        again_at = now
        try:
            for _ in range(_CLAIM_TRIES):
                with suppress(Conflict):
                    return self._claimed(subscription, known, terms)
            again_at = now + PROBE_LOOK  # Somebody has written, twice, but who knows what.
        except StorageUnavailable as error:
            _complain(subscription, error)
            with self._lock:
                known.health = claim(known.health, terms, now)
            return True  # Nobody can be asked.
        finally:
            known.asks_until = again_at
        return False

    def save(self, subscription: EventSubscription) -> None:
        """Store what has changed: a hold, its release and a probe's end at once, others soon."""
        now = self._clock.now()
        with self._lock:
            known = self._of(subscription)
            if not _is_due(known, now):
                return
            known.write_from = now + WRITE_AFTER
            known.is_writing = True
        try:
            row = self._store.seen(subscription.key)
            try:
                self._write(subscription, known, row)
            except Conflict:
                row = self._store.read(subscription.key)
                self._write(subscription, known, row)
        except Conflict:
            pass  # Others write as well: what is still missing follows with the next change.
        except StorageUnavailable as error:
            known.blocked_until = now + FAILED_AGAIN_AFTER
            _complain(subscription, error)
        finally:
            known.is_writing = False

    def due_times(
        self,
        subscription: EventSubscription,
        held: Held,
        sizes: Sequence[int],
        *,
        again: bool = False,
    ) -> list[datetime]:
        """
        Return when held requests of so many events come back: paced, and not after `LOOK`.

        *again*: they have waited before, and go on before what came later.
        """
        now = self._clock.now()
        look_at = now + LOOK
        if held.until > look_at:
            return [look_at] * len(sizes)
        with self._lock:
            known = self._of(subscription)
            rate = known.arrivals.per_second(now)
            if known.line.end > now:
                rate = max(rate, known.rate)  # New events may have ended, those held have not.
            if hold := known.health.hold:
                if rate > hold.rate * _RATE_CHANGE:
                    known.health = replace(known.health, hold=replace(hold, rate=rate))
                rate = max(rate, hold.rate)
                if held.until == hold.until:  # else it waits for a probe
                    known.line = known.line.during(held.until, now)
            known.rate = rate
            found, line = known.line.places(held.until, rate, sizes, again=again)
            known.line = replace(line, end=min(line.end, look_at))
        return [min(each, look_at) for each in found]

    def _claimed(
        self, subscription: EventSubscription, known: _Known, terms: DeliveryTerms
    ) -> bool:
        row = self._store.read(subscription.key)
        now = self._clock.now()
        with self._lock:
            _learn(known, row)
            if not isinstance(standing(known.health, now), NeedsProbe):
                return False  # Somebody was quicker, or has released it.
            claimed = claim(known.health, terms, now)
        self._store.write(subscription.key, claimed, row.etag if row else None)
        with self._lock:
            known.health = merge(known.health, claimed)
            known.stored = claimed
        return True

    def _write(
        self, subscription: EventSubscription, known: _Known, row: StoredHealth | None
    ) -> None:
        with self._lock:
            _learn(known, row)
            health = known.health
        self._store.write(subscription.key, health, row.etag if row else None)
        with self._lock:
            known.stored = health

    def _of(self, subscription: EventSubscription) -> _Known:
        """Return what is known, maybe nothing yet. Only under the lock."""
        endpoint = endpoint_id(subscription)
        key = (subscription.key.folded, endpoint)
        known = self._known.get(key)
        if known is None:
            now = self._clock.now()
            known = self._known[key] = _Known(
                health=Health(endpoint=endpoint),
                arrivals=Arrivals(now, now),
                write_from=now,
                blocked_until=now,
                asks_until=now,
                line=Line.empty(now),
            )
            if len(self._known) > MAX_KEYS:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        return known


def _standing(known: _Known, terms: DeliveryTerms, now: datetime) -> Standing:
    if not terms.profile.ever_holds:
        return Open()  # An edition before may have left a hold: this one doesn't know of any.
    found = standing(known.health, now)
    if isinstance(found, NeedsProbe) and now < known.asks_until:
        return Held(now + PROBE_LOOK, "a probe is about to begin")
    return found


def _learn(known: _Known, row: StoredHealth | None) -> None:
    """Take in what the table holds, unless it is about an earlier endpoint."""
    if row and row.health.endpoint == known.health.endpoint:
        known.stored = row.health
        known.health = merge(known.health, row.health)


def _is_due(known: _Known, now: datetime) -> bool:
    health = known.health
    stored = known.stored or Health(endpoint=health.endpoint)
    if health == stored or known.is_writing or now < known.blocked_until:
        return False
    if now >= known.write_from:
        return True
    one, other = health.hold, stored.hold
    if one is None or other is None:
        return one is not other
    return one.until - other.until >= WRITE_AFTER or one.turn != other.turn


def _complain(subscription: EventSubscription, error: StorageUnavailable) -> None:
    telemetry.error(
        "health.unsaved",
        topic=subscription.topic,
        subscription=subscription.name,
        detail=str(error),
    )
