"""What slow subscriptions leave to the others. Design §2, Isolation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shared.delivery.slots.shares import Speed
from shared.delivery.slots.slots import IN_FLIGHT, THREADS
from tests.unit.delivery.slots.keys import (
    entered,
    enters,
    hanging,
    quick,
    slots_of,
    slow,
    taken,
)


def test_messages_in_flight_are_as_many_as_the_host_has() -> None:
    root = Path(__file__).parents[4]
    queues = json.loads((root / "host.json").read_text())["extensions"]["queues"]

    assert IN_FLIGHT.total == queues["batchSize"] + queues["newBatchThreshold"]


@pytest.mark.parametrize(
    ("speed", "own", "taken", "room"),
    [
        (Speed.SLOW, 0, 63, True),
        (Speed.SLOW, 0, 64, False),
        (Speed.SLOW, 25, 25, True),
        (Speed.SLOW, 26, 26, False),
        (Speed.SLOW, 1, 50, True),
        (Speed.SLOW, 1, 51, False),  # the last ones are for those that have none
        (Speed.NEW, 0, 95, True),  # a first try
        (Speed.NEW, 0, 96, False),
        (Speed.NEW, 1, 51, False),
        (Speed.QUICK, 63, 63, True),
        (Speed.QUICK, 64, 64, False),
        (Speed.QUICK, 0, 127, True),
        (Speed.QUICK, 0, 128, False),
    ],
)
def test_slow_ones_have_half_and_nobody_more_than_is_left(
    speed: Speed,
    own: int,
    taken: int,
    room: bool,  # noqa: FBT001
) -> None:
    assert THREADS.has_room(speed, own, taken) is room


@pytest.mark.parametrize("count", [1, 2, 5, 12, 40, 200])
def test_slow_ones_together_hold_at_most_half_of_the_threads(count: int) -> None:
    slots, _ = slots_of()
    uses = [slow(slots, f"slow-{number}") for number in range(count)]

    admitted = [use for use in uses if enters(slots, use)]
    held = sum(taken(slots, use) for use in admitted)

    assert held <= 64
    assert len(admitted) <= 12
    assert all(use.used for use in admitted)


def test_those_that_nothing_is_known_of_count_as_slow() -> None:
    """Half, and one slot each for a first try up to a quarter more."""
    slots, _ = slots_of()

    held = [taken(slots, entered(slots, f"new-{number}")) for number in range(100)]

    assert sum(each for each in held if each > 1) <= 64
    assert sum(held) == 64 + 32
    assert held == sorted(held, reverse=True)


def test_a_quick_one_is_not_refused_because_of_slow_ones() -> None:
    slots, time = slots_of()
    use = quick(slots, "quick")
    hanging(slots, time, 60)

    assert taken(slots, use) >= 16
    assert taken(slots, quick(slots, "other")) >= 8
    assert enters(slots, use)


def test_a_new_one_is_tried_though_slow_ones_have_their_half() -> None:
    slots, time = slots_of()
    for use in [slow(slots, f"slow-{number}") for number in range(40)]:
        if enters(slots, use):
            taken(slots, use)
    time.seconds += 1.1

    assert taken(slots, entered(slots, "new")) == 1


def test_many_quick_ones_that_suddenly_hang_leave_threads_for_others() -> None:
    """Each had earned 64 slots: two of them would have filled the pool."""
    slots, time = slots_of()
    names = [f"quick-{number}" for number in range(5)]
    uses = [quick(slots, name) for name in [*names, "healthy"]]
    while sum(map(slots.take, uses[:-1])):  # All of them are busy at the same time …
        pass

    time.seconds += 1.1  # … and hang.

    assert taken(slots, uses[-1]) > 8
    assert not any(slots.take(use) for use in uses[:-1])


def test_a_quick_one_that_hangs_gets_no_more_messages_in_flight() -> None:
    """24 single events of one subscription, which the host has in flight, hang at once."""
    slots, time = slots_of()
    healthy = quick(slots, "healthy")
    use = quick(slots, "key", pushes=2)
    while use.visits < 24:
        assert enters(slots, use)
        slots.take(use)
    time.seconds += 1.1

    assert not enters(slots, use)
    assert enters(slots, healthy)
    assert slots.take(healthy)


def test_detached_messages_make_room_for_others_in_flight() -> None:
    """Their pushes go on; all slow ones together keep half of those in flight."""
    slots, time = slots_of()
    use, other = quick(slots, "key"), slow(slots, "other")
    while use.visits < 24:
        enters(slots, use)
    taken(slots, use)
    time.seconds += 1.1
    assert not enters(slots, other)

    for _ in range(24):
        slots.leave(use)

    assert use.used > 12
    assert [enters(slots, other) for _ in range(7)] == [True] * 6 + [False]


def test_a_new_one_waits_for_a_second_at_most() -> None:
    slots, time = slots_of()
    uses = [entered(slots, f"new-{number}") for number in range(100)]
    waiting = [use for use in uses if not taken(slots, use)]
    assert waiting
    assert not any(slots.is_stuck(use) for use in waiting)

    time.seconds += 1.1

    assert all(slots.is_stuck(use) for use in waiting)


def test_of_a_slow_one_only_one_message_waits() -> None:
    """5,000 events of a request are 79 messages: they must not wait in the host's 24 in flight."""
    slots, _ = slots_of()
    use = slow(slots, "key")
    assert enters(slots, use)
    assert taken(slots, use) == 8
    assert slots.enter(use, has_line=False)

    assert not slots.enter(use, has_line=True)

    slots.release(use)  # The one that waits does not need all slots.
    assert slots.enter(use, has_line=True)


def test_what_one_gives_back_another_gets() -> None:
    """All new ones of a start are served in the order in which they asked, if they are quick."""
    slots, _ = slots_of()
    uses = [entered(slots, f"new-{number}") for number in range(120)]
    waiting = [use for use in uses if not slots.take(use)]
    assert len(waiting) == 24
    for use in waiting:
        slots.wait(use)

    served = []
    for use in uses:
        slots.pushed(use, 0.01, succeeded=True)
        slots.release(use)
        while got := slots.next_in_turn():
            slots.stop_waiting(got)
            served.append(got)

    assert served == waiting


def test_who_has_slots_gives_one_way_when_all_threads_are_in_use() -> None:
    """Its line may never end, and others wait."""
    slots, _ = slots_of()
    uses = [quick(slots, f"quick-{number}") for number in range(128)]
    for use in (uses[0], *uses[:-1]):
        assert slots.take(use)
    busy, other = uses[0], uses[-1]
    assert not slots.take(other)
    assert slots.may_keep(busy)

    slots.wait(other)
    assert not slots.may_keep(busy)

    slots.release(busy)
    assert slots.next_in_turn() is other
    assert slots.may_keep(busy)


def test_slow_ones_whose_lines_never_end_give_slots_to_others() -> None:
    """They have their half of the threads, and another slow one waits for a first slot."""
    slots, _ = slots_of()
    fast = quick(slots, "fast")
    slots.take(fast)
    uses = [slow(slots, f"slow-{number}") for number in range(40)]
    for use in uses:
        enters(slots, use)
        taken(slots, use)
    busy, other = uses[0], uses[-1]
    assert (busy.used, other.used) == (8, 0)
    assert slots.may_keep(busy)

    slots.wait(other)

    assert not slots.may_keep(busy)
    assert slots.may_keep(fast)
