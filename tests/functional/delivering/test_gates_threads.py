"""How visits end: detached, abandoned, broken, without a thread. Real threads, led by events."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from pushgrid.testing.memory import START
from shared.adapters.push_threads import PooledThreads
from shared.delivery.outcome import Outcome
from shared.delivery.slots.shares import Share
from shared.engine.delivering import gates as gates_module
from shared.engine.delivering.answers import Attempted, NotNow
from shared.engine.delivering.gate import SHORTAGE_AGAIN_IN
from shared.engine.delivering.visit import Request
from shared.subscriptions.subscription import Batching
from tests.builders import terms
from tests.functional.delivering.gating import (
    House,
    a_house,
    all_of,
    answers_of,
    attempted,
    delivered,
    positions,
    turned_away,
)


def test_without_a_thread_nothing_is_counted() -> None:
    """A shortage of ours: the endpoint is not slower for it, nor worse."""
    with a_house() as house:
        house.threads._pool.shutdown()
        gate = house.gate()
        health, limit = gate.health.health, gate.slots.limit

        visit = house.entered(0, 1)

        answers = house.answered(visit)
        assert turned_away(answers) == dict.fromkeys((0, 1), "no thread is free")
        assert {each.due for each in answers.values() if isinstance(each, NotNow)} == {
            START + SHORTAGE_AGAIN_IN
        }
        assert (gate.slots.limit, gate.slots.seconds) == (limit, None)
        assert gate.health.health == health
    assert house.work.sent == []


def test_a_lane_that_was_refused_a_thread_never_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pool queues work before it starts a thread for it, and would run it later."""
    threads, ran = PooledThreads(1), []
    start = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", _no_thread)
    assert not threads.start(lambda: ran.append("refused"))
    monkeypatch.setattr(threading.Thread, "start", start)

    assert threads.start(lambda: ran.append("started"))
    threads._pool.shutdown()

    assert ran == ["started"]


def _no_thread(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_a_fault_while_learning_from_a_push_hangs_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    with a_house() as house:
        gate = house.gate()
        monkeypatch.setattr(gate.rules, "pushed", None)
        house.work.let_go()

        assert set(house.answered(house.entered(0, 1))) == {0, 1}


def test_a_push_to_the_former_endpoint_says_nothing_about_the_corrected_one() -> None:
    with a_house() as house:
        visit = house.entered(0)
        house.work.next()
        corrected = replace(visit.part.subscription, endpoint_url="https://crm.example/corrected")
        house.work.outcome = Outcome.BUSY
        gate = house.gates.of(corrected)
        house.work.let_go()
        house.answered(visit)

        assert house.gates.of(corrected) is gate
        assert gate.health.health.hold is None
        assert visit.health.health.hold is not None


def test_one_thread_does_the_work_of_all_that_could_not_begin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with a_house() as house:
        start, begun = house.threads.start, []

        def start_once(lane: Callable[[], None]) -> bool:
            begun.append(lane)
            return len(begun) == 1 and start(lane)

        monkeypatch.setattr(house.threads, "start", start_once)
        visit = house.entered(*range(5))
        assert not visit.answers

        house.work.let_go()

        assert delivered(house.answered(visit)) == list(range(5))
    assert len(begun) > 1


def test_a_detached_visit_goes_on() -> None:
    """It holds none of the host's messages in flight any more."""
    with a_house() as house:
        visit = house.entered(0, 1, 2)
        house.work.next(2)
        house.pass_time(0.9)
        assert not house.recheck(visit)

        house.pass_time(0.2)
        assert house.recheck(visit)
        house.leave(visit)

        assert house.gate().slots.visits == 0
        assert not house.recheck(visit)  # Once is enough.
        house.work.let_go()
        assert delivered(house.answered(visit)) == [0, 1, 2]
        assert house.gate().slots.visits == 0


def test_a_visit_is_detached_for_the_last_of_its_pushes() -> None:
    with a_house() as house:
        visit = house.entered(0, 1)
        house.work.next(2)
        house.work.let_go(0)
        house.until(lambda: bool(visit.answers))

        house.pass_time(1.1)

        assert house.recheck(visit)
        house.work.let_go()
        house.answered(visit)


def test_a_visit_that_is_not_detached_stays_in_flight() -> None:
    with a_house() as house:
        visit = house.entered(0)
        house.work.next()
        house.pass_time(1.1)
        house.recheck(visit)

        assert house.gate().slots.visits == 1
        house.work.let_go()
        house.answered(visit)


def test_of_a_visit_that_is_abandoned_nothing_more_is_pushed() -> None:
    with a_house() as house:
        abandoned, other = house.entered(*range(6)), house.entered(*range(6, 9))
        house.work.next(2)

        house.gates.abandon(house.gate(), abandoned)
        house.work.let_go()

        assert delivered(house.answered(other)) == [6, 7, 8]
    assert delivered(answers_of(abandoned)) == [0, 1]
    assert all_of(house.work.sent) == [0, 1, 6, 7, 8]


def test_a_visit_that_is_abandoned_while_it_waits_keeps_no_slot() -> None:
    with a_house(slots=1) as house:
        first = house.entered(0)
        house.work.next()
        waiting = house.entered(1)

        house.gates.abandon(house.gate(), waiting)
        house.work.let_go()

        assert delivered(house.answered(first)) == [0]
        assert delivered(house.answered(house.entered(2))) == [2]


def broken(house: House, error: BaseException) -> Callable[[Request], Attempted]:
    """Push what has not the event 1; that raises."""

    def push(request: Request) -> Attempted:
        result = house.work(request)
        if 1 in positions(request):
            raise error
        return result

    return push


@pytest.mark.parametrize("error", [ValueError("no"), IndexError("no"), SystemExit()], ids=repr)
def test_what_a_push_raises_reaches_the_visits_of_its_request(error: BaseException) -> None:
    """
    Three visits, requests of two events: the third has nothing to do with it.

    A thread that exits would leave invocations without an answer.
    """
    two = terms(batching=Batching(max_events=2))
    with a_house(slots=1) as house:
        house.gates.push = broken(house, error)
        first = house.entered(9, 8, rules=two)
        house.work.next()
        one, other, third = (house.entered(number, rules=two) for number in (0, 1, 2))
        house.work.let_go()

        answers = [house.answered(visit) for visit in (one, other, third, first)]

        assert [list(each) for each in answers[:2]] == [[0], [1]]
        for each in (answers[0][0], answers[1][1]):
            assert isinstance(each, Exception)
            assert repr(error) in repr(each)
        assert delivered(answers[2]) == [2]
        assert delivered(answers[3]) == [8, 9]
    assert house.work.sent == [(9, 8), (0, 1), (2,)]


def test_what_a_push_raises_says_nothing_about_the_endpoint() -> None:
    with a_house(slots=4) as house:
        house.gates.push = broken(house, ValueError())
        house.work.let_go()
        gate = house.gate()
        health = gate.health.health

        house.answered(house.entered(1))

        assert (gate.slots.limit, gate.slots.seconds) == (4, None)
        assert gate.health.health == health


def test_threads_are_used_again() -> None:
    names: set[str] = set()
    with a_house(threads=2) as house:

        def push(_: Request) -> Attempted:
            names.add(threading.current_thread().name)
            return attempted(house.clock)

        house.gates.push = push
        for number in range(50):
            house.answered(house.entered(0, 1, 2, name=f"crm-{number}"))

    assert 1 <= len(names) <= 2


def test_visits_of_many_endpoints_leave_nothing_behind() -> None:
    """Some leave early, some late, some are abandoned, and some push nothing at all."""
    with a_house(slots=2, threads=4, share=Share(total=8)) as house:
        house.work.let_go()

        def visit(number: int) -> None:
            found = house.entered(number, 100 + number, 200 + number, name=f"crm-{number % 7}")
            if number % 3 == 0:
                house.gates.abandon(house.gate(f"crm-{number % 7}"), found)
            if number % 3 == 1:
                house.leave(found)
            house.answered(found)

        with ThreadPoolExecutor(8) as callers:
            list(callers.map(visit, range(90)))

    assert len(house.work.sent) == len(set(house.work.sent))


def test_idle_endpoints_are_forgotten_when_there_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gates_module, "MAX_GATES", 3)
    with a_house() as house:
        busy = house.entered(0, name="busy")
        house.work.next()
        gate = house.gate("busy")

        for number in range(1, 9):
            house.work.let_go(number)
            house.answered(house.entered(number, name=f"crm-{number}"))

        assert len(house.gates) == 3
        assert house.gate("busy") is gate
        house.work.let_go()
        house.answered(busy)


def test_an_endpoint_from_which_all_is_withdrawn_waits_for_no_slot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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


def test_a_probe_that_waits_is_not_lost_when_another_is_claimed() -> None:
    """No thread is free for longer than a claim lasts: without an answer its visit never ends."""
    with a_house(share=Share(total=2)) as house:

        def push(request: Request) -> Attempted:
            if positions(request) == (100,):
                return attempted(house.clock, Outcome.BUSY)
            return house.work(request)

        house.gates.push = push
        for number, name in ((200, "one"), (201, "two"), (100, "crm")):
            house.work.let_go(number)
            house.answered(house.entered(number, name=name))
        house.pass_time(11)
        busy = [house.entered(0, name="one"), house.entered(1, name="two")]
        first = house.entered(11)
        house.pass_time(50)
        second = house.entered(12)

        house.work.let_go()
        for visit in (*busy, second):
            house.answered(visit)
        house.leave(first)
    assert first.open == 0
