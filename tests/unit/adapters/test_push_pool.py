"""The push pool: real threads, led by events; nothing here waits for time to pass."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from shared.adapters.push_pool import ThreadedPushPool, _Todo
from shared.delivery.slots.slots import Slots
from tests.fakes import Seconds
from tests.unit.adapters.pool import (
    MINUTE,
    PATIENCE,
    Text,
    Unsent,
    Work,
    a_pool,
    assert_all_released,
    drained,
    job_of,
    upper,
)
from tests.unit.delivery.slots.keys import entered, taken


def test_every_item_is_pushed_and_yielded_once(time: Seconds) -> None:
    """Many runs of one key at a time, more items than slots, more runs than threads."""
    pool = a_pool(time, threads=4, slots=3)
    groups = [[f"{run}-{number}" for number in range(50)] for run in range(8)]
    pushed: list[str] = []

    def push(item: str) -> Text:
        pushed.append(item)
        return upper(item)

    with ThreadPoolExecutor(8) as callers:
        found = list(callers.map(lambda group: drained(job_of(pool, "key", group, push)), groups))

    assert Counter(pushed) == Counter(item for group in groups for item in group)
    for group, pairs in zip(groups, found, strict=True):
        assert sorted(pairs) == sorted((item, item.upper()) for item in group)
    assert_all_released(pool)


def test_what_was_not_sent_costs_no_slots(time: Seconds) -> None:
    slots = Slots(4, 4, time)
    pool = ThreadedPushPool(4, slots, clock=time, tick=0.001)

    drained(job_of(pool, "key", list("abcd"), Unsent))

    assert taken(slots, entered(slots, "key")) == 4


def test_a_key_never_has_more_than_its_slots(time: Seconds) -> None:
    """Three slots, two runs: always three at a time, which is what the barrier waits for."""
    pool = a_pool(time, slots=3)
    barrier = threading.Barrier(3)
    lock = threading.Lock()
    now = most = 0

    def push(item: str) -> Text:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        barrier.wait(PATIENCE)
        with lock:
            now -= 1
        return Text(item)

    with ThreadPoolExecutor(2) as callers:
        runs = [
            callers.submit(lambda: drained(job_of(pool, "key", list("abcdef"), push)))
            for _ in range(2)
        ]
        found = [run.result(PATIENCE) for run in runs]

    assert [len(pairs) for pairs in found] == [6, 6]
    assert most == 3
    assert_all_released(pool)


def test_a_slow_key_leaves_others_alone(time: Seconds, work: Work) -> None:
    pool = a_pool(time)
    slow = job_of(pool, "slow", list("abcdef"), work)
    next(slow)
    work.wait_for(2)

    quick = drained(job_of(pool, "quick", ["x"], upper))

    assert quick == [("x", "X")]
    work.release()
    assert len(drained(slow)) == 6
    assert_all_released(pool)


def test_runs_of_a_key_get_slots_in_the_order_in_which_they_asked(
    time: Seconds, work: Work
) -> None:
    pool = a_pool(time, slots=1)
    first = job_of(pool, "key", ["a"], work)
    next(first)
    order: list[str] = []

    def push(item: str) -> Text:
        order.append(item)
        return Text(item)

    waiting = [job_of(pool, "key", [f"{name}1", f"{name}2"], push) for name in "bcd"]
    for run in waiting:
        assert next(run) == []

    with ThreadPoolExecutor(4) as callers:
        drains = [callers.submit(drained, run) for run in reversed(waiting)]
        work.release()
        drained(first)
        assert all(len(each.result(PATIENCE)) == 2 for each in drains)

    assert order == ["b1", "b2", "c1", "c2", "d1", "d2"]
    assert_all_released(pool)


def test_a_job_reports_though_nothing_is_finished(time: Seconds, work: Work) -> None:
    """The port: at least once a second, so that what failed can be stored meanwhile."""
    run = job_of(a_pool(time), "key", ["a"], work)

    reports = [next(run), next(run)]

    assert reports == [[], []]


def test_no_push_begins_after_its_time(time: Seconds) -> None:
    pool = a_pool(time, slots=1)

    def push(item: str) -> Text:
        time.seconds += 30
        return Text(item)

    found = drained(job_of(pool, "key", list("abcde"), push))

    assert found == [("a", "a"), ("b", "b")]
    assert_all_released(pool)


def test_nobody_waits_for_a_key_that_is_stuck(time: Seconds, work: Work) -> None:
    """Whoever waited would hold one of the host's few messages, which other keys need."""
    pool = a_pool(time, slots=2)
    hanging = job_of(pool, "key", ["a", "b"], work)
    next(hanging)
    work.wait_for(2)
    waiting = job_of(pool, "key", ["c"], upper)
    next(waiting)

    time.seconds += 1.5

    assert drained(waiting) == []
    assert drained(job_of(pool, "key", ["d"], upper)) == []
    assert drained(job_of(pool, "other", ["e"], upper)) == [("e", "E")]
    work.release()
    assert len(drained(hanging)) == 2
    assert_all_released(pool)


def test_a_key_that_has_become_slow_goes_on_with_fewer_lanes(time: Seconds) -> None:
    """The first two pushes take a minute; the run ends all the same, on the one slot left."""
    pool = ThreadedPushPool(8, Slots(2, 2, time), clock=time, tick=0.001)
    both = threading.Barrier(2, timeout=PATIENCE)

    def push(item: str) -> Text:
        if item in "ab":
            both.wait()
            if item == "a":
                time.seconds += 60
            both.wait()
        return Text(item)

    found = drained(job_of(pool, "key", list("abcdef"), push, stop_after=10 * MINUTE))

    assert sorted(found) == [(item, item) for item in "abcdef"]
    assert_all_released(pool)


def test_a_slot_that_comes_too_late_goes_back_at_once(
    time: Seconds, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It used to go round and round, a thread each time, until the last push had ended."""
    pool = a_pool(time)
    late = job_of(pool, "key", ["b", "c", "d"], work)
    other = pool._slots.enter("key")
    assert other
    pool._slots.take(other)
    next(late)
    work.wait_for(1)
    submitted: list[object] = []
    submit = pool._threads.submit

    def counted(lane: Callable[[], None]) -> Future[None]:
        submitted.append(lane)
        if len(submitted) > 5:
            pytest.fail("the slot goes round")
        return submit(lane)

    monkeypatch.setattr(pool._threads, "submit", counted)
    time.seconds += 60

    pool._slots.release_slot(other)
    pool._slots.leave(other)
    next(late)
    next(late)

    assert submitted == []
    assert pool._slots._used == 1
    work.release()
    assert drained(late) == [("b", "B")]
    assert_all_released(pool)


def test_another_lane_may_take_the_last_item_first() -> None:
    def meanwhile() -> float:
        todo.give_up()
        return 0.0

    todo = _Todo(["a"], meanwhile, 1.0)

    assert todo.take() is None


def test_no_items_are_no_work(time: Seconds) -> None:
    pool = a_pool(time)

    assert drained(job_of(pool, "key", [], upper)) == []
    assert_all_released(pool)


def test_threads_are_used_again(time: Seconds) -> None:
    pool = a_pool(time, threads=2)
    names: set[str] = set()

    def push(item: str) -> Text:
        names.add(threading.current_thread().name)
        return Text(item)

    for number in range(50):
        drained(job_of(pool, f"key-{number}", ["a", "b", "c"], push))

    assert len(names) <= 2
    assert_all_released(pool)
