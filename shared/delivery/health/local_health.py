"""Says what one process knows of an endpoint, and when others should know it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from shared.clock import is_pending
from shared.delivery.furthest import Bounds
from shared.delivery.health.bounded_health import bounded_health
from shared.delivery.health.endpoint_health import (
    PROBE_RECHECK,
    Availability,
    Health,
    Held,
    NeedsProbe,
    Observation,
    Open,
    availability,
    merge,
    observe,
    return_probe,
    with_rate,
)
from shared.delivery.health.pace import RECHECK, Pace
from shared.delivery.health.streak import NO_STREAK, Streak
from shared.delivery.policy import DeliveryTerms

WRITE_AFTER = timedelta(seconds=1)  # between writes that are not urgent
FAILED_AGAIN_AFTER = timedelta(seconds=5)  # after a failed write
CLAIM_LIMIT = timedelta(minutes=1)  # longest time that a claim takes
_OPEN = Open()


@dataclass(slots=True, kw_only=True, eq=False)
class LocalHealth:
    """
    One endpoint as this process sees it. Not thread-safe.

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
        self.health = bounded_health(self.health, Bounds(now))
        found = availability(self.health, now)
        if isinstance(found, NeedsProbe) and is_pending(self.claiming_until, now, CLAIM_LIMIT):
            return Held(now + PROBE_RECHECK, "a probe is about to begin")
        return found

    def find_hold(self, terms: DeliveryTerms, now: datetime) -> Held | None:
        """Return what keeps a push that is no probe from being sent, if anything."""
        found = self.availability(terms, now)
        if isinstance(found, NeedsProbe):
            return Held(now + PROBE_RECHECK, "a hold has ended, and its probe goes first")
        return found if isinstance(found, Held) else None

    def observed(self, seen: Observation, terms: DeliveryTerms) -> None:
        """Record the outcome of a push, if the edition has holds; it is to be shared."""
        if terms.profile.ever_holds:
            seen = replace(seen, is_isolated=self.streak.is_isolated(seen, terms))
            self.streak = self.streak.followed_by(seen)
            known = bounded_health(self.health, Bounds(seen.ended_at))
            self.health = observe(known, seen, terms)

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

    def learn(self, stored: Health, bounds: Bounds) -> None:
        """
        Merge what is stored, unless it is about an earlier endpoint.

        It is bounded once: read again, a hold that was too far ahead would never come nearer.
        """
        if stored.endpoint == self.health.endpoint and stored != self.stored:
            self.stored = stored
            known = bounded_health(self.health, bounds)
            self.health = merge(known, bounded_health(stored, bounds))

    def needs_write(self, now: datetime) -> bool:
        """Tell whether a change is stored now: urgent ones at once, others within a second."""
        health = self.health
        stored = self.stored or Health(endpoint=health.endpoint)
        is_blocked = is_pending(self.blocked_until, now, FAILED_AGAIN_AFTER)
        if health == stored or self.is_writing or is_blocked:
            return False
        if not is_pending(self.write_from, now, WRITE_AFTER):
            return True
        one, other = health.hold, stored.hold
        if one is None or other is None:
            return one is not other
        return one.until - other.until >= WRITE_AFTER or one.probe_changes != other.probe_changes
