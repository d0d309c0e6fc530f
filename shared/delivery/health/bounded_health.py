"""Bounds the times of an endpoint's health, which a clock that has jumped may have written."""

from __future__ import annotations

from dataclasses import replace

from shared.delivery.furthest import LONGEST_PROBE, Bounds, StoredTime, longest_hold
from shared.delivery.health.endpoint_health import PROBE_MARGIN, Health, Hold


def bounded_health(health: Health, bounds: Bounds) -> Health:
    """Return *health* with no time further ahead than a rule could put it; usually unchanged."""
    hold, released_at, counted_from = health.hold, health.released_at, health.counted_from
    if hold is None and released_at is None and counted_from is None:
        return health
    return replace(
        health,
        hold=hold and _bounded(hold, bounds),
        released_at=released_at and bounds(StoredTime.HOLD, released_at),
        counted_from=counted_from and bounds(StoredTime.HOLD, counted_from),
    )


def _bounded(hold: Hold, bounds: Bounds) -> Hold:
    what, longest = StoredTime.HOLD, longest_hold(hold.probation, hold.delays)
    return replace(
        hold,
        since=bounds(what, hold.since),
        began_at=hold.began_at and bounds(what, hold.began_at),
        sent_at=bounds(what, hold.sent_at),
        until=bounds(what, hold.until, longest),
        probation_until=hold.probation_until and bounds(what, hold.probation_until, longest),
        probe_until=hold.probe_until
        and bounds(what, hold.probe_until, LONGEST_PROBE + PROBE_MARGIN),
    )
