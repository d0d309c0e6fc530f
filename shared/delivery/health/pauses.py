"""Decides how the deliveries of a paused subscription wait."""

from __future__ import annotations

from datetime import datetime, timedelta

from shared.clock import timestamp
from shared.delivery.health.endpoint_health import Held
from shared.subscriptions.subscription import Pause

SOONEST, LATEST = timedelta(seconds=1), timedelta(minutes=2)  # the first return of what waits


def as_held(pause: Pause, now: datetime) -> Held:
    """
    Return the pause as a hold of unknown end: deliveries return to check.

    It returns after as long as the pause has lasted, within limits: so a short one ends soon after
    it is resumed, and a long one costs little. From then on returns are paced as after any hold.
    """
    wait = min(max(now - pause.since, SOONEST), LATEST)
    return Held(now + wait, f"paused since {timestamp(pause.since)} by {pause.by}", is_pause=True)
