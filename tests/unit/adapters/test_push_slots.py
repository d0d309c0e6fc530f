"""How many pushes of one subscription may run at a time."""

from __future__ import annotations

from datetime import timedelta
from queue import SimpleQueue
from typing import Any

from shared.adapters import push_slots
from shared.adapters.push_slots import SLOT, Slots


class Time:
    """A monotonic clock that stands still."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def slots_of(start: int = 8, most: int = 64) -> tuple[Slots, Time]:
    time = Time()
    return Slots(start, most, time), time


def taken(slots: Slots, name: str = "key") -> int:
    """Take every slot there is."""
    count = 0
    while slots.take(name):
        count += 1
    return count


def test_a_key_starts_with_a_few_slots_and_earns_more() -> None:
    """Design §2, Isolation: starts at 8 and grows to 64 on quick successes."""
    slots, _ = slots_of()
    assert taken(slots) == 8

    for _ in range(100):
        assert slots.pushed("key", 0.01)

    assert taken(slots) == 56


def test_slow_pushes_halve_the_slots_down_to_one() -> None:
    slots, _ = slots_of()
    taken(slots)

    kept = [slots.pushed("key", 30.0) for _ in range(4)]

    assert kept == [False] * 4
    for _ in range(8):
        slots.give_back("key")
    assert taken(slots) == 1


def test_a_push_that_is_neither_quick_nor_slow_changes_nothing() -> None:
    slots, _ = slots_of()
    taken(slots)

    assert slots.pushed("key", 3.0)

    assert not slots.take("key")


def test_a_slot_that_is_earned_goes_to_who_waits() -> None:
    slots, _ = slots_of(start=1)
    inbox: SimpleQueue[Any] = SimpleQueue()
    slots.take("key")
    slots.wait("key", inbox)

    slots.pushed("key", 0.01)

    assert inbox.get_nowait() is SLOT


def test_a_key_is_stuck_when_no_push_ends() -> None:
    slots, time = slots_of(start=2)
    slots.take("key")
    time.seconds = 10
    assert not slots.is_stuck("key")  # A slot is free.

    slots.take("key")
    assert slots.is_stuck("key")

    slots.pushed("key", 3.0)
    assert not slots.is_stuck("key")
    time.seconds += 1.1
    assert slots.is_stuck("key")


def test_who_is_turned_away_comes_back_after_those_before() -> None:
    slots, _ = slots_of(start=1)
    for _ in range(20):
        slots.pushed("key", 5.0)

    waits = [slots.pace("key", 1) for _ in range(3)]

    assert [round(wait.total_seconds()) for wait in waits] == [15, 20, 25]
    assert slots.pace("key", 1000) == timedelta(minutes=5)


def test_every_push_that_ends_brings_the_others_nearer() -> None:
    slots, _ = slots_of(start=1, most=1)
    slots.pace("key", 30)

    for _ in range(30):
        slots.pushed("key", 2.0)

    assert slots.pace("key", 1) < timedelta(seconds=13)


def test_idle_keys_are_forgotten_when_there_are_too_many() -> None:
    slots, _ = slots_of()
    slots.take("busy")

    for number in range(push_slots.MAX_KEYS + 1):
        slots.take(f"key-{number}")
        slots.give_back(f"key-{number}")

    assert len(slots._keys) < push_slots.MAX_KEYS
    assert slots.in_use() == 1
