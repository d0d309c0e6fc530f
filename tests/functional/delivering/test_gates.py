"""What passes the gates, and when: real threads, led by events; nothing waits for time."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from shared.delivery.policy import DeliveryTerms
from shared.delivery.slots.shares import Share
from shared.engine.delivering.answers import Attempted, NotNow, Result
from shared.engine.delivering.visit import Request
from shared.subscriptions.subscription import Batching
from tests.builders import terms
from tests.functional.delivering.gating import (
    PATIENCE,
    a_house,
    all_of,
    attempted,
    delivered,
    turned_away,
)

TEN = terms(batching=Batching(max_events=10))


@pytest.mark.parametrize("rules", [terms(), TEN], ids=["alone", "batches"])
def test_every_delivery_is_pushed_and_answered_once(rules: DeliveryTerms) -> None:
    """Many visits of three endpoints at a time, and more lanes than threads."""
    with a_house(threads=4, slots=3) as house:
        house.work.let_go()
        groups = [range(50 * number, 50 * number + 50) for number in range(24)]

        def visit(number: int) -> dict[int, Result]:
            name = f"crm-{number % 3}"
            return house.answered(house.entered(*groups[number], name=name, rules=rules))

        with ThreadPoolExecutor(8) as callers:
            found = list(callers.map(visit, range(24)))

    assert all_of(house.work.sent) == list(range(1200))
    for group, answers in zip(groups, found, strict=True):
        assert delivered(answers) == list(group)


def test_an_endpoint_never_has_more_pushes_than_its_slots() -> None:
    """Three slots, two visits: always three at a time, which is what the barrier waits for."""
    with a_house(slots=3) as house:
        both_are_in = threading.Event()
        barrier = threading.Barrier(3)
        lock = threading.Lock()
        now = most = 0

        def push(_: Request) -> Attempted:
            nonlocal now, most
            assert both_are_in.wait(PATIENCE)
            with lock:
                now += 1
                most = max(most, now)
            barrier.wait(PATIENCE)
            with lock:
                now -= 1
            return attempted(house.clock)

        house.gates.push = push
        visits = [house.entered(*range(6)), house.entered(*range(6, 12))]
        both_are_in.set()

        assert [len(delivered(house.answered(visit))) for visit in visits] == [6, 6]
    assert most == 3


def test_a_slow_endpoint_leaves_others_alone() -> None:
    with a_house() as house:
        slow = house.entered(*range(6), name="slow")
        house.work.next(2)

        quick = house.entered(7, name="quick")
        house.work.let_go(7)

        assert delivered(house.answered(quick)) == [7]
        assert not slow.answers
        house.work.let_go()
        assert delivered(house.answered(slow)) == list(range(6))


def test_visits_are_served_in_the_order_in_which_they_came() -> None:
    with a_house(slots=1) as house:
        visits = [house.entered(*events) for events in ((0,), (11, 12), (21, 22), (31, 32))]
        house.work.let_go()

        for visit in reversed(visits):
            house.answered(visit)

    assert house.work.sent == [(0,), (11,), (12,), (21,), (22,), (31,), (32,)]


def test_waiting_endpoints_get_free_slots_in_turn() -> None:
    """One thread in all; each endpoint waits for it from when it came."""
    with a_house(share=Share(total=2)) as house:
        visits = [house.entered(number, name=f"crm-{number}") for number in range(5)]
        assert house.work.next() == [(0,)]

        house.work.let_go()
        for visit in visits:
            house.answered(visit)

    assert house.work.sent == [(number,) for number in range(5)]


def test_a_slot_that_is_earned_is_used_at_once() -> None:
    with a_house(slots=1, most=2) as house:
        visit = house.entered(0, 1, 2)
        assert house.work.next() == [(0,)]
        house.pass_time(0.5)

        house.work.let_go(0)

        assert house.work.next(2) == [(1,), (2,)]
        house.work.let_go()
        house.answered(visit)


def test_an_endpoint_that_turns_out_quick_makes_room_for_all_that_wait() -> None:
    """What it held of the slow ones' half is free for others."""
    with a_house(share=Share(total=8)) as house:
        first = house.entered(0, 1, 2)
        others = [house.entered(number, name=f"crm-{number}") for number in range(3, 9)]
        assert house.work.next(6) == [(0,), (1,), (3,), (4,), (5,), (6,)]

        house.work.let_go(0)

        assert house.work.next(3) == [(2,), (7,), (8,)]
        house.work.let_go()
        for visit in (first, *others):
            house.answered(visit)


def test_no_push_begins_after_its_time() -> None:
    with a_house(slots=1) as house:

        def push(request: Request) -> Attempted:
            house.pass_time(25)
            return house.work(request)

        house.gates.push = push
        house.work.let_go()
        answers = house.answered(house.entered(*range(5)))

        assert delivered(answers) == [0, 1, 2]
        assert turned_away(answers) == dict.fromkeys((3, 4), "no slot in time")
    assert house.work.sent == [(0,), (1,), (2,)]


def test_a_visit_whose_time_is_over_leaves_its_place_to_others() -> None:
    """The one slot is in use until after the minute of the first that waits."""
    with a_house(slots=1) as house:
        first, waiting = house.entered(0), house.entered(1)
        house.pass_time(0.5)
        later = house.entered(2)
        house.pass_time(59.7)

        house.work.let_go()

        assert turned_away(house.answered(waiting)) == {1: "no slot in time"}
        assert delivered(house.answered(later)) == [2]
        assert delivered(house.answered(first)) == [0]


def test_nobody_waits_for_an_endpoint_that_is_stuck() -> None:
    """Whoever waited would hold one of the host's few messages, which others need."""
    with a_house() as house:
        hanging = house.entered(0, 1)
        house.work.next(2)
        waiting = house.entered(2)
        house.recheck(waiting)
        assert waiting.open

        house.pass_time(1.5)
        late, other = house.entered(3), house.entered(4, name="other")
        for visit in (waiting, late, other, hanging):
            house.recheck(visit)

        assert turned_away(house.answered(waiting)) == {2: "no slot in time"}
        assert list(turned_away(house.answered(late))) == [3]
        assert not hanging.answers
        house.work.let_go()
        assert delivered(house.answered(other)) == [4]
        assert delivered(house.answered(hanging)) == [0, 1]
    assert all_of(house.work.sent) == [0, 1, 4]


def test_what_is_turned_away_comes_back_at_a_paced_time() -> None:
    with a_house(slots=1) as house:
        hanging = house.entered(0)
        house.work.next()
        waiting = house.entered(1)
        house.pass_time(1.5)

        house.recheck(waiting)

        (result,) = house.answered(waiting).values()
        assert isinstance(result, NotNow)
        assert (result.due - house.clock.now()).total_seconds() == 10
        house.work.let_go()
        house.answered(hanging)


def test_an_endpoint_that_has_become_slow_goes_on_with_fewer_lanes() -> None:
    """The first two pushes take a minute; the rest goes over the one slot that is left."""
    with a_house(slots=2) as house:
        visit = house.visit(*range(6))
        visit.stop_at += 600
        house.enter(visit)
        house.work.next(2)
        house.pass_time(60)
        house.work.most = 0

        house.work.let_go(0, 1)
        third = house.work.next()
        house.work.let_go()

        assert third == [(2,)]
        assert delivered(house.answered(visit)) == list(range(6))
    assert house.work.sent[2:] == [(2,), (3,), (4,), (5,)]


def test_events_that_came_while_a_push_was_under_way_share_the_next() -> None:
    """Single publishes become batches under load; nobody waits for others to come."""
    with a_house(slots=1) as house:
        visits = [house.entered(number, rules=TEN) for number in range(25)]
        assert house.work.next() == [(0,)]
        house.work.let_go()

        for number, visit in enumerate(visits):
            assert delivered(house.answered(visit)) == [number]

    assert [len(batch) for batch in house.work.sent] == [1, 10, 10, 4]
    assert all_of(house.work.sent) == list(range(25))


def test_a_request_of_several_visits_is_counted_once() -> None:
    """What is counted once a request goes with the visit that has its first event."""
    with a_house(slots=1) as house:
        visits = [house.entered(number, rules=TEN) for number in range(4)]
        house.work.let_go()
        for visit in visits:
            house.answered(visit)

        firsts = [visit.answers[0].is_first for visit in visits]
    assert firsts == [True, True, False, False]


@pytest.mark.parametrize("seconds", [None, 3.0, 0.5], ids=["new", "slow", "quick"])
def test_a_message_does_not_wait_for_the_push_of_another_if_a_slot_is_free(
    seconds: float | None,
) -> None:
    """A lane that is under way takes nothing from the line for as long as its push takes."""
    with a_house(slots=8) as house:
        if seconds:
            first = house.entered(100)
            house.work.next()
            house.pass_time(seconds)
            house.work.let_go(100)
            house.answered(first)
        visits = [house.entered(number) for number in range(4)]

        assert house.work.next(4) == [(0,), (1,), (2,), (3,)]

        house.work.let_go()
        for visit in visits:
            house.answered(visit)


def test_an_endpoint_whose_line_never_ends_gives_way_to_others() -> None:
    """All threads are busy, and another quick endpoint waits: a slot must come free for it."""
    with a_house(share=Share(total=2)) as house:
        for name in ("one", "two", "other"):
            house.work.let_go(100)
            house.answered(house.entered(100, name=name))
            house.work.next()
        one, two, other = (
            [house.entered(number + place, name=name) for number in range(count)]
            for place, name, count in ((0, "one", 5), (10, "two", 5), (99, "other", 1))
        )
        assert house.work.next(2) == [(0,), (10,)]

        house.work.let_go(0)
        begun = house.work.next()

        house.work.let_go()
        for visit in (*one, *two, *other):
            house.answered(visit)
    assert begun == [(99,)]
