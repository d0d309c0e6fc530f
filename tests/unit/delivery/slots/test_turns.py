"""When those come back that got no slot. Design §2, Isolation."""

from __future__ import annotations

from datetime import timedelta

from shared.delivery.slots.shares import Share
from shared.delivery.slots.slots import Slots, SlotUse
from tests.unit.delivery.slots.keys import entered, enters, hanging, new, slots_of, slow


def end_pushes(slots: Slots, pushing: list[tuple[float, SlotUse]], now: float) -> list[SlotUse]:
    """End the pushes of 30 s that are over, and return whose they were; the first end first."""
    over = [use for ends_at, use in pushing if ends_at <= now]
    del pushing[: len(over)]
    for use in over:
        slots.pushed(use, 30.0, succeeded=True)
        slots.release(use)
    return over


def test_every_one_of_a_hundred_slow_ones_gets_its_turn() -> None:
    """Pushes of 30 s; who is refused keeps away, but for one that sends on."""
    slots, time = slots_of()
    back_at = {slow(slots, f"key-{number}", 30.0): 0.0 for number in range(100)}
    eager = next(iter(back_at))
    turns = dict.fromkeys(back_at, 0)
    pushing: list[tuple[float, SlotUse]] = []
    while time.seconds < 1200:
        for ended in end_pushes(slots, pushing, time.seconds):
            slots.leave(ended)
        for use in [use for use, at in back_at.items() if at <= time.seconds]:
            is_in = enters(slots, use)
            if is_in and slots.take(use):
                turns[use] += 1
                pushing.append((time.seconds + 30, use))
                back_at[use] = time.seconds + 0.5
                continue
            if is_in:
                slots.leave(use)
            away = slots.pace(use, 1).total_seconds()
            back_at[use] = time.seconds + (0.5 if use is eager else away)
        time.seconds += 0.5

    assert min(turns.values()) >= 2
    assert max(turns.values()) <= 8
    assert sum(turns.values()) >= 1200 / 30 * 12 * 0.7  # and those in flight are not left empty


def test_who_passes_by_takes_no_turn_of_those_that_wait() -> None:
    """One that sends on gets a free slot whenever there is one, and still each has its turn."""
    slots, time = slots_of()
    uses = [slow(slots, f"key-{number}", 30.0) for number in range(100)]
    back_at = dict.fromkeys(uses, 0.0)
    turns = dict.fromkeys(uses, 0)
    pushing: list[tuple[float, SlotUse]] = []
    while time.seconds < 1200:
        end_pushes(slots, pushing, time.seconds)
        for use in [use for use, at in back_at.items() if at <= time.seconds]:
            is_in = enters(slots, use) or slots.pass_by(use, has_line=False)
            if is_in:
                slots.leave(use)
            if is_in and slots.take(use):
                turns[use] += 1
                pushing.append((time.seconds + 30, use))
            else:
                away = slots.pace(use, 1).total_seconds()
                back_at[use] = time.seconds + (0.5 if use is uses[0] else away)
        time.seconds += 0.5

    assert min(turns.values()) >= 10
    assert max(turns.values()) <= 30


def test_nobody_passes_by_without_a_slot() -> None:
    slots, _ = slots_of(start=2)
    use = slow(slots, "key")

    assert not slots.pass_by(use, has_line=True)
    assert [slots.pass_by(use, has_line=False) and slots.take(use) for _ in range(3)] == [
        True,
        True,
        False,
    ]
    assert use.visits == 2


def test_who_is_turned_away_comes_back_after_those_before() -> None:
    slots, _ = slots_of(start=1)
    use = slow(slots, "key", 5.0)

    waits = [slots.pace(use, 1) for _ in range(3)]

    assert [round(wait.total_seconds()) for wait in waits] == [10, 15, 20]
    slots.pace(use, 1000)
    assert slots.pace(use, 1) == timedelta(minutes=5)


def test_what_is_booked_passes_with_time() -> None:
    slots, time = slots_of(start=1, most=1)
    use = slow(slots, "key", 2.0)
    slots.pace(use, 30)

    time.seconds += 60

    assert slots.pace(use, 1) < timedelta(seconds=13)


def test_who_hangs_is_expected_to_hang_on() -> None:
    """No push has ended, so what the last ones took says too little."""
    slots, time = slots_of(start=1)
    use = entered(slots)
    slots.take(use)
    time.seconds = 20

    waits = [round(slots.pace(use, 1).total_seconds()) for _ in range(3)]

    assert waits == [10, 30, 50]


def test_of_many_slow_ones_each_stays_away_until_its_turn() -> None:
    """The longer the line, the less often one looks whether its turn has come."""
    slots, time = slots_of()
    uses = hanging(slots, time, 60)

    waits = [round(slots.pace(use, 1).total_seconds()) for use in uses]

    assert waits == sorted(waits)
    assert waits[0] == 10
    assert waits[-1] == 50


def test_the_turn_of_one_that_does_not_come_passes_on() -> None:
    """Another process may have taken its messages."""
    slots, time = slots_of(in_flight=Share(total=2))
    gone, here = (slow(slots, name) for name in ("gone", "here"))
    for use in (gone, here):
        slots.pace(use, 1)

    time.seconds += 12
    assert not enters(slots, here)
    slots.pace(here, 1)
    time.seconds += 12

    assert enters(slots, here)


def test_a_new_one_that_was_turned_away_waits_for_its_turn_like_all() -> None:
    """Else it was tried again and again, before those that have waited longer."""
    slots, _ = slots_of(in_flight=Share(total=2))
    first, second = new(slots, "first"), new(slots, "second")
    for use in (first, second):
        slots.pace(use, 1)

    assert not enters(slots, second)
    assert enters(slots, first)
