"""How many pushes of one subscription may run at a time."""

from __future__ import annotations

import pytest

from tests.unit.delivery.slots.keys import (
    entered,
    enters,
    new,
    pushed,
    quick,
    slots_of,
    slow,
    taken,
)


def test_a_subscription_starts_with_a_few_slots_and_earns_more() -> None:
    """Design §2, Isolation: starts at 8 and grows to 64 on quick successes."""
    slots, _ = slots_of()
    use = entered(slots)
    assert taken(slots, use) == 8

    for _ in range(100):
        slots.pushed(use, 0.01, succeeded=True)

    assert taken(slots, use) == 56


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
    use = entered(slots)
    taken(slots, use)

    limits = []
    for _ in range(4):
        slots.pushed(use, seconds, succeeded=succeeded)
        limits.append(use.limit)

    assert limits == [4, 2, 1, 1]
    for _ in range(8):
        slots.release(use)
    assert taken(slots, use) == 1


def test_a_success_that_is_neither_quick_nor_very_slow_earns_nothing() -> None:
    slots, _ = slots_of()
    use = entered(slots)
    taken(slots, use)

    slots.pushed(use, 3.0, succeeded=True)

    assert use.limit == 8
    assert not slots.take(use)


def test_a_subscription_that_has_become_slow_goes_back_to_where_it_started() -> None:
    """Else it kept the slots it earned while it was quick, all that slow ones may have."""
    slots, _ = slots_of()
    use = quick(slots, "key")

    for _ in range(100):
        slots.pushed(use, 3.0, succeeded=True)

    assert taken(slots, use) == 8


def test_slots_that_were_lost_are_not_earned_by_pushes_that_are_not_quick() -> None:
    slots, _ = slots_of()
    use = entered(slots)
    slots.pushed(use, 0.01, succeeded=False)

    slots.pushed(use, 3.0, succeeded=True)

    assert use.limit == 4


def test_a_slot_that_is_earned_goes_to_who_waits() -> None:
    slots, _ = slots_of(start=1)
    use = entered(slots)
    slots.take(use)
    slots.wait(use)
    assert slots.next_in_turn() is None

    slots.pushed(use, 0.01, succeeded=True)

    assert slots.next_in_turn() is use
    assert slots.next_in_turn() is None
    assert use.used == 2


def test_who_waits_for_several_slots_gets_them_in_turn_with_others() -> None:
    slots, _ = slots_of(start=2)
    first, second = entered(slots, "first"), entered(slots, "second")
    for use in (first, second):
        slots.wait(use)

    assert [slots.next_in_turn() for _ in range(5)] == [first, second, first, second, None]


def test_who_stops_waiting_gets_no_slot() -> None:
    slots, _ = slots_of(start=1)
    use = entered(slots)

    slots.wait(use)
    slots.stop_waiting(use)

    assert slots.next_in_turn() is None
    assert slots.take(use)
    slots.stop_waiting(use)  # It does not wait: nothing happens.


def test_a_subscription_is_stuck_when_no_push_ends() -> None:
    slots, time = slots_of(start=2)
    use = entered(slots)
    taken(slots, use)
    time.seconds = 0.9
    assert not slots.is_stuck(use)

    time.seconds = 1.1
    assert slots.is_stuck(use)

    slots.pushed(use, 3.0, succeeded=True)
    assert not slots.is_stuck(use)
    time.seconds += 1.1
    assert slots.is_stuck(use)


def test_the_time_in_which_nothing_was_under_way_does_not_count() -> None:
    """The first message or push after a pause is as good as the first of all."""
    slots, time = slots_of()
    use = slow(slots, "key")
    time.seconds = 100

    assert enters(slots, use)
    assert not slots.is_stuck(use)
    time.seconds += 0.9
    slots.take(use)
    time.seconds += 0.9
    assert not slots.is_stuck(use)

    time.seconds += 0.2
    assert slots.is_stuck(use)


def test_a_quick_subscription_that_waits_for_threads_is_never_stuck() -> None:
    """Its threads are in use elsewhere; they come free."""
    slots, time = slots_of()
    use = quick(slots, "key")

    time.seconds = 30

    assert not slots.is_stuck(use)
    assert not slots.is_slow(use)


def test_a_quick_subscription_whose_pushes_do_not_end_is_slow() -> None:
    slots, time = slots_of()
    use = quick(slots, "key")
    time.seconds = 30
    slots.take(use)
    assert not slots.is_slow(use)

    time.seconds += 1.1

    assert slots.is_slow(use)
    assert slots.is_stuck(use)


def test_what_has_neither_messages_nor_slots_is_not_counted() -> None:
    """A message may end before its pushes do, and after them."""
    slots, _ = slots_of()
    detached, idle = entered(slots, "detached"), entered(slots, "idle")
    for use in (detached, idle):
        slots.take(use)

    slots.leave(detached)
    slots.release(idle)
    assert list(slots._active) == [detached, idle]
    slots.release(detached)
    slots.leave(idle)

    assert (slots._used, slots._active) == (0, {})
    assert (detached.visits, detached.used) == (0, 0)


@pytest.mark.parametrize(
    ("seconds", "requests", "lanes"),
    [
        (0.001, 0, 0),
        (0.001, 1, 1),
        (0.001, 50, 1),  # which one lane clears in 50 ms
        (0.001, 64, 2),
        (0.01, 64, 13),
        (0.01, 1000, 16),  # brief pushes: more would only wait for each other
        (0.02, 1000, 400),
        (0.1, 64, 64),
        (1.0, 64, 64),
        (1.1, 64, 64),  # not quick: as many as it may have
    ],
)
def test_a_few_lanes_clear_the_line_of_a_quick_subscription(
    seconds: float, requests: int, lanes: int
) -> None:
    slots, _ = slots_of()
    use = pushed(slots, new(slots), seconds)

    assert slots.lanes(use, requests) == lanes


def test_subscriptions_with_brief_pushes_share_a_few_lanes() -> None:
    """Pushes that wait for the processor take longer; that must not start more of them."""
    slots, _ = slots_of()
    brief = [pushed(slots, entered(slots, f"brief-{i}"), 0.01) for i in range(3)]
    assert [slots.lanes(use, 1000) for use in brief] == [5, 5, 5]

    pushed(slots, entered(slots, "slow"), 2.0)
    pushed(slots, entered(slots, "quick"), 0.1)
    assert slots.lanes(brief[0], 1000) == 5

    others = [pushed(slots, entered(slots, f"other-{i}"), 0.01) for i in range(30)]
    assert {slots.lanes(use, 1000) for use in (*brief, *others)} == {1}

    for use in (*brief[1:], *others):
        slots.leave(use)
    assert slots.lanes(brief[0], 1000) == 16


def test_of_a_new_subscription_every_request_gets_a_lane() -> None:
    """Its first push shows how fast it is, but may take a minute."""
    slots, _ = slots_of()

    assert slots.lanes(entered(slots), 64) == 64
