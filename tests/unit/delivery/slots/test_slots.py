"""How many pushes of one subscription may run at a time."""

from __future__ import annotations

import pytest

from shared.delivery.slots import slots as push_slots
from shared.delivery.slots.slots import SLOT
from tests.unit.delivery.slots.keys import entered, quick, slots_of, taken


def test_a_key_starts_with_a_few_slots_and_earns_more() -> None:
    """Design §2, Isolation: starts at 8 and grows to 64 on quick successes."""
    slots, _ = slots_of()
    visit = entered(slots)
    assert taken(slots, visit) == 8

    for _ in range(100):
        assert slots.pushed(visit, 0.01, succeeded=True)

    assert taken(slots, visit) == 56


@pytest.mark.parametrize(
    ("seconds", "succeeded"),
    [(30.0, True), (0.01, False), (30.0, False)],
    ids=["very slow", "quick failure", "timeout"],
)
def test_what_fails_or_is_very_slow_halves_the_slots_down_to_one(
    seconds: float,
    succeeded: bool,  # noqa: FBT001
) -> None:
    """Design §2, Isolation."""
    slots, _ = slots_of()
    visit = entered(slots)
    taken(slots, visit)

    kept = [slots.pushed(visit, seconds, succeeded=succeeded) for _ in range(4)]

    assert kept == [False] * 4
    for _ in range(8):
        slots.release_slot(visit)
    assert taken(slots, visit) == 1


def test_a_success_that_is_neither_quick_nor_very_slow_earns_nothing() -> None:
    slots, _ = slots_of()
    visit = entered(slots)
    taken(slots, visit)

    assert slots.pushed(visit, 3.0, succeeded=True)

    assert not slots.take(visit)


def test_a_key_that_has_become_slow_goes_back_to_where_it_started() -> None:
    """Else it kept the slots it earned while it was quick, all that slow ones may have."""
    slots, _ = slots_of()
    visit = quick(slots, "key")
    taken(slots, visit)

    for _ in range(100):
        if not slots.pushed(visit, 3.0, succeeded=True):
            slots.release_slot(visit)

    assert visit.slots == 8


def test_a_slot_that_is_earned_goes_to_who_waits() -> None:
    slots, _ = slots_of(start=1)
    first, second = entered(slots), entered(slots)
    slots.take(first)
    slots.wait(second)

    slots.pushed(first, 0.01, succeeded=True)

    assert second.inbox.get_nowait() is SLOT
    assert second.slots == 1


def test_a_visit_is_starved_when_no_push_ends() -> None:
    slots, time = slots_of(start=2)
    hanging, late = entered(slots), entered(slots)
    taken(slots, hanging)
    time.seconds = 0.9
    assert not slots.is_starved(late)

    time.seconds = 1.1
    assert slots.is_starved(late)
    assert not slots.is_starved(hanging)  # It has slots to wait for.

    slots.pushed(hanging, 3.0, succeeded=True)
    assert not slots.is_starved(late)
    time.seconds += 1.1
    assert slots.is_starved(late)


def test_waiting_for_a_quick_key_never_starves() -> None:
    """Its threads are in use elsewhere; they come free."""
    slots, time = slots_of()
    visit = quick(slots, "key")

    time.seconds = 30

    assert not slots.is_starved(visit)


def test_a_visit_that_stops_waiting_keeps_no_slot() -> None:
    slots, _ = slots_of(start=1)
    first, second = entered(slots), entered(slots)
    slots.take(first)

    slots.wait(second)
    slots.stop_waiting(second)
    slots.release_slot(first)
    assert second.slots == 0

    slots.wait(second)  # It is handed over at once …
    slots.stop_waiting(second)  # … and goes back.
    assert second.slots == 0
    assert slots.take(first)


def test_idle_keys_are_forgotten_when_there_are_too_many() -> None:
    slots, _ = slots_of()
    busy = entered(slots, "busy")
    slots.take(busy)

    for number in range(push_slots.MAX_KEYS + 1):
        visit = entered(slots, f"key-{number}")
        slots.take(visit)
        slots.release_slot(visit)
        slots.leave(visit)

    assert len(slots._keys) < push_slots.MAX_KEYS
    assert list(slots._active) == ["busy"]
    assert slots._keys["busy"].used == 1


def test_a_visit_that_has_lost_its_slots_can_be_detached() -> None:
    """Its last push may end while the copy of its message is stored."""
    slots, _ = slots_of()
    visit = entered(slots)
    slots.take(visit)
    slots.release_slot(visit)

    slots.detach(visit)
    slots.leave(visit)

    assert (slots._used, slots._pushing, slots._active) == (0, 0, {})
