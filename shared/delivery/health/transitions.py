"""Finds which hold has ended, and which has begun, between two states of an endpoint's health."""

from __future__ import annotations

from typing import NamedTuple

from shared.delivery.health.endpoint_health import Health, Hold


class Ended(NamedTuple):
    """A hold that is over, *because* of something."""

    hold: Hold
    because: str


class Transition(NamedTuple):
    """The hold that has ended, if any, and the one that has begun."""

    ended: Ended | None = None
    began: Hold | None = None


def transition(before: Health | None, after: Health) -> Transition:
    """
    Compare the health of an endpoint as it was stored with what replaces it.

    A hold that a failed probe prolongs goes on: it neither ends nor begins.
    """
    old, new = before.hold if before else None, after.hold
    if before and old and before.endpoint != after.endpoint:
        return Transition(Ended(old, "its endpoint was changed"), new)
    if old is None or (after.released_at and after.released_at > old.since):
        because = "its endpoint accepted an event" if not after.failures else "its time is over"
        return Transition(Ended(old, because) if old else None, new)
    return Transition()
