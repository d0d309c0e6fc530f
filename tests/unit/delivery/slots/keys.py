"""Slots, and keys that take them."""

from __future__ import annotations

from shared.delivery.slots.slots import Slots, Visit
from tests.fakes import Seconds


def slots_of(start: int = 8, most: int = 64) -> tuple[Slots, Seconds]:
    time = Seconds()
    return Slots(start, most, time), time


def entered(slots: Slots, name: str = "key") -> Visit:
    visit = slots.enter(name)
    assert visit
    return visit


def taken(slots: Slots, visit: Visit) -> int:
    """Take every slot there is."""
    count = 0
    while slots.take(visit):
        count += 1
    return count


def quick(slots: Slots, name: str, pushes: int = 100) -> Visit:
    """Let *name* become a key that is known to be quick."""
    visit = entered(slots, name)
    slots.take(visit)
    for _ in range(pushes):
        slots.pushed(visit, 0.01, succeeded=True)
    slots.release_slot(visit)
    return visit
