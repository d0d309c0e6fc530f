"""Faults that the gates once had: each test was red before."""

from __future__ import annotations

import pytest

from shared.delivery.slots.shares import Share
from shared.engine.delivering import gates as gates_module
from shared.engine.delivering.answers import Attempted
from shared.engine.delivering.visit import Request
from tests.builders import terms
from tests.functional.delivering.gating import House, a_house, answers_of, delivered, positions


def make_slow(house: House) -> None:
    """Let the endpoint be known to be slow."""
    visit = house.entered(100)
    house.work.next()
    house.pass_time(3)
    house.work.let_go(100)
    house.answered(visit)


@pytest.mark.parametrize("is_slow", [False, True], ids=["new", "slow"])
def test_a_message_waits_for_another_ones_push_though_slots_are_free(is_slow: bool) -> None:  # noqa: FBT001
    """A lane that is busy counts as one that takes from the line next."""
    with a_house(slots=8) as house:
        if is_slow:
            make_slow(house)
        visits = [house.entered(number) for number in range(4)]

        slots = house.gate().slots.used

        house.work.let_go()
        for visit in visits:
            house.answered(visit)
    assert slots == 4


def test_a_quick_endpoint_of_half_a_second_pushes_one_after_the_other() -> None:
    """One lane is busy for as long as that, and the line waits for it."""
    with a_house(slots=8) as house:
        first = house.entered(100)
        house.work.next()
        house.pass_time(0.5)
        house.work.let_go(100)
        house.answered(first)
        visits = [house.entered(number) for number in range(4)]

        slots = house.gate().slots.used

        house.work.let_go()
        for visit in visits:
            house.answered(visit)
    assert slots == 4


def test_a_slot_goes_to_a_gate_that_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits without need is forgotten as idle; the lane that serves it then breaks."""
    monkeypatch.setattr(gates_module, "MAX_GATES", 2)
    house = House(share=Share(total=2))
    first = house.entered(0, name="first")
    house.work.next()
    gone = house.entered(1, name="gone")
    house.gates.abandon(house.gate("gone"), gone)
    house.gate("third")
    assert len(house.gates) == 2

    house.work.let_go()
    house.answered(first)

    house.end()


def test_a_lane_that_exits_keeps_its_slot_and_answers_nobody() -> None:
    """`SystemExit` is no `Exception`: without an answer the invocation never ends."""
    house = House()

    def push(_: Request) -> Attempted:
        raise SystemExit

    house.gates.push = push
    visit = house.entered(0)
    house.threads._pool.shutdown()

    assert isinstance(answers_of(visit).get(0), RuntimeError)
    assert house.slots._used == 0


def test_an_endpoint_whose_line_never_ends_keeps_its_slot_for_ever() -> None:
    """All threads are busy, and another quick endpoint waits: a slot must come free for it."""
    with a_house(share=Share(total=2)) as house:
        names = ("one", "two", "other")
        for number, name in enumerate(names):
            house.work.let_go(100 + number)
            house.answered(house.entered(100 + number, name=name))
            house.work.next()
        busy = [
            house.entered(10 * n + number, name=names[n]) for number in range(5) for n in range(2)
        ]
        assert house.work.next(2) == [(0,), (10,)]
        other = house.entered(99, name="other")
        for visit in busy[2:]:
            assert not visit.answers

        house.work.let_go(0)
        begun = house.work.next()

        house.work.let_go()
        for visit in (*busy, other):
            house.answered(visit)
    assert begun == [(99,)]


def test_terms_that_differ_share_a_request() -> None:
    """The line knows subscriptions apart, but not their terms: the topic's profile has changed."""
    with a_house(slots=1) as house:
        first = house.entered(0)
        house.work.next()
        seen = []

        def push(request: Request) -> Attempted:
            seen.append((request.part.terms.profile.name, positions(request)))
            return house.work(request)

        house.gates.push = push
        batching = first.part.subscription.batching.__class__(max_events=10)
        one = house.entered(1, rules=terms(profile="latest", batching=batching))
        other = house.entered(2, rules=terms(profile="ns", batching=batching))
        house.work.let_go()
        for visit in (first, one, other):
            delivered(house.answered(visit))
    assert seen == [("latest", (1,)), ("ns", (2,))]
