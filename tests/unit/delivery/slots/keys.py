"""Slots, and subscriptions that take them."""

from __future__ import annotations

from pushgrid.testing.memory import Seconds
from shared.delivery.slots.shares import Share
from shared.delivery.slots.slots import IN_FLIGHT, Slots, SlotUse
from shared.subscriptions.subscription import SubscriptionKey


def slots_of(start: int = 8, most: int = 64, in_flight: Share = IN_FLIGHT) -> tuple[Slots, Seconds]:
    time = Seconds()
    return Slots(time, start=start, most=most, in_flight=in_flight), time


def new(slots: Slots, name: str = "key") -> SlotUse:
    return slots.new(SubscriptionKey("orders", name))


def enters(slots: Slots, use: SlotUse) -> bool:
    """Admit a message that finds none of its subscription waiting."""
    return slots.enter(use, has_line=False)


def entered(slots: Slots, name: str = "key") -> SlotUse:
    use = new(slots, name)
    assert enters(slots, use)
    return use


def taken(slots: Slots, use: SlotUse) -> int:
    """Take every slot there is."""
    count = 0
    while slots.take(use):
        count += 1
    return count


def pushed(slots: Slots, use: SlotUse, seconds: float) -> SlotUse:
    """Let a message come, succeed after so many seconds, and go."""
    assert enters(slots, use)
    slots.take(use)
    slots.pushed(use, seconds, succeeded=True)
    slots.release(use)
    slots.leave(use)
    return use


def quick(slots: Slots, name: str, pushes: int = 100) -> SlotUse:
    """Let a message of *name*, which is known to be quick, be in flight."""
    use = entered(slots, name)
    slots.take(use)
    for _ in range(pushes):
        slots.pushed(use, 0.01, succeeded=True)
    slots.release(use)
    return use


def slow(slots: Slots, name: str, seconds: float = 3.0) -> SlotUse:
    """Return a subscription that is known to be slow."""
    return pushed(slots, new(slots, name), seconds)


def hanging(slots: Slots, time: Seconds, count: int) -> list[SlotUse]:
    """Let many subscriptions hang, each with as many slots as it gets."""
    uses = [new(slots, f"hanging-{number}") for number in range(count)]
    for use in uses:
        if enters(slots, use):
            taken(slots, use)
    time.seconds += 1.1
    return uses
