"""The event loop of tests: time passes only where a test lets it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pushgrid.testing.memory import START, DrivenLoop, FakeClock, NothingWillHappen

MINUTE = timedelta(minutes=1)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def loop(clock: FakeClock) -> Iterator[DrivenLoop]:
    loop = DrivenLoop(clock)
    yield loop
    loop.end()


async def _sleep(clock: FakeClock, seconds: float) -> float:
    await asyncio.sleep(seconds)
    return (clock.now() - START).total_seconds()


async def _in_thread(call: Callable[..., Any], *args: Any) -> Any:
    return await asyncio.get_running_loop().run_in_executor(None, call, *args)


async def _raise(error: BaseException) -> NoReturn:
    raise error


def test_what_outlives_a_run_goes_on_in_the_next(loop: DrivenLoop, clock: FakeClock):
    async def begin() -> asyncio.Task[float]:
        return asyncio.create_task(_sleep(clock, 50))

    late = loop.run(begin())
    loop.run(_sleep(clock, 49))
    assert not late.done()

    assert (loop.run(_sleep(clock, 1)), late.result()) == (50, 50)


def test_timers_are_due_at_their_moments_and_no_later_ones(loop: DrivenLoop, clock: FakeClock):
    tasks = [loop.create_task(_sleep(clock, seconds)) for seconds in (40, 20, 61, 60)]

    loop.settle()
    assert clock.now() == START
    loop.advance(MINUTE)

    assert [each.result() for each in tasks if each.done()] == [40, 20, 60]
    assert (clock.now(), loop.next_in) == (START + MINUTE, timedelta(seconds=1))


def test_a_clock_that_is_set_back_delays_no_timer(loop: DrivenLoop, clock: FakeClock):
    loop.call_later(30, clock.jump, -10 * MINUTE)
    tasks = [loop.create_task(asyncio.sleep(seconds)) for seconds in (60, 61)]

    loop.advance(MINUTE)

    assert [each.done() for each in tasks] == [True, False]
    assert clock.elsewhere.now() == START + MINUTE


def test_a_run_that_waits_for_nothing_says_what_waits(loop: DrivenLoop):
    async def for_ever() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(NothingWillHappen, match="for_ever"):
        loop.run(for_ever())
    assert not asyncio.all_tasks(loop)


def test_a_timer_that_comes_again_and_again_is_no_hope(loop: DrivenLoop):
    async def tick() -> None:
        for _ in itertools.count():
            await asyncio.sleep(3600)

    ticker = loop.create_task(tick())
    with pytest.raises(NothingWillHappen):
        loop.run(asyncio.Event().wait())
    assert not ticker.done()


def test_what_is_run_elsewhere_runs_in_the_test_s_thread_without_a_loop(loop: DrivenLoop):
    def call() -> tuple[int, bool]:
        return threading.get_ident(), asyncio.run(_has_loop(loop))

    async def both() -> list[Any]:
        return [await _in_thread(call), await asyncio.to_thread(call)]

    assert loop.run(both()) == [(threading.get_ident(), False)] * 2


async def _has_loop(loop: DrivenLoop) -> bool:
    return asyncio.get_running_loop() is loop


def test_it_works_within_a_running_loop(clock: FakeClock):
    async def test() -> tuple[float, int]:
        loop = DrivenLoop(clock)
        slept = loop.run(_sleep(clock, 60))
        thread = loop.run(_in_thread(threading.get_ident))
        loop.end()
        return slept, thread

    assert asyncio.run(test()) == (60, threading.get_ident())


def test_while_a_call_runs_a_coroutine_no_other_call_is_made(loop: DrivenLoop):
    seen: list[str] = []

    def first() -> None:
        seen.append("begins")
        loop.run(_in_thread(seen.append, "its own"))
        loop.run(asyncio.sleep(1))
        seen.append("ends")

    async def both() -> None:
        await asyncio.gather(_in_thread(first), _in_thread(seen.append, "other"))

    loop.run(both())

    assert seen == ["begins", "its own", "ends", "other"]


def test_a_call_that_waits_for_its_own_end(loop: DrivenLoop):
    async def calling() -> None:
        ended = asyncio.Event()
        await _in_thread(loop.run, ended.wait())
        ended.set()

    with pytest.raises(NothingWillHappen):
        loop.run(calling())


def test_calls_come_in_their_order_when_nothing_else_can_be_done(loop: DrivenLoop):
    seen: list[str] = []

    async def work(name: str) -> None:
        await _in_thread(seen.append, f"call {name}")
        seen.append(f"after {name}")

    async def busy() -> None:
        for _ in range(5):
            await asyncio.sleep(0)
        seen.append("busy")

    tasks = [loop.create_task(each) for each in (work("a"), busy(), work("b"))]
    loop.settle()

    assert all(each.done() for each in tasks)
    assert seen == ["busy", "call a", "after a", "call b", "after b"]


def test_time_does_not_pass_while_a_call_is_due(loop: DrivenLoop, clock: FakeClock):
    async def call() -> Any:
        return await _in_thread(clock.now)

    async def both() -> list[Any]:
        return list(await asyncio.gather(_sleep(clock, 1), call()))

    assert loop.run(both()) == [1, START]


def test_a_call_that_is_cancelled_before_its_turn_is_not_made(loop: DrivenLoop):
    seen: list[int] = []

    async def cancelling() -> None:
        future = asyncio.get_running_loop().run_in_executor(None, seen.append, 1)
        future.cancel()

    loop.run(cancelling())
    loop.settle()

    assert seen == []


def test_what_a_call_raises_is_its_caller_s(loop: DrivenLoop):
    def call() -> NoReturn:
        raise LookupError("it")

    with pytest.raises(LookupError, match="it"):
        loop.run(_in_thread(call))


def test_a_call_that_ends_the_test_ends_it_at_once(loop: DrivenLoop):
    async def swallowing() -> None:
        with contextlib.suppress(BaseException):
            await _in_thread(pytest.fail, "so")

    with pytest.raises(pytest.fail.Exception, match="so"):
        loop.run(swallowing())


@pytest.mark.parametrize("when", [DrivenLoop.settle, lambda loop: loop.run(asyncio.sleep(0))])
def test_what_no_task_awaits_is_raised_in_the_test(
    loop: DrivenLoop, when: Callable[[DrivenLoop], None]
):
    async def forget() -> None:
        task = asyncio.create_task(_raise(LookupError("it")))
        del task

    loop.create_task(forget())
    loop.call_soon(list)
    with pytest.raises(LookupError, match="it"):
        when(loop)
    loop.settle()


def test_a_callback_that_raises_is_raised_in_the_test(loop: DrivenLoop):
    loop.call_later(60, [].pop)

    with pytest.raises(IndexError):
        loop.advance(MINUTE)


def test_a_task_that_nobody_holds_is_no_task(loop: DrivenLoop):
    async def forget() -> None:
        task = asyncio.create_task(_wait_for_a_future_of_its_own())
        await asyncio.sleep(0)
        del task
        gc.collect()

    with pytest.raises(RuntimeError, match="destroyed"):
        loop.run(forget())


async def _wait_for_a_future_of_its_own() -> None:
    await asyncio.get_running_loop().create_future()


def test_what_runs_on_the_loop_can_t_wait_for_it(loop: DrivenLoop):
    async def on_loop() -> None:
        loop.run(asyncio.sleep(0))

    with pytest.raises(RuntimeError, match="wait for itself"):
        loop.run(on_loop())


def test_at_its_end_tasks_are_cancelled_and_may_still_store(clock: FakeClock):
    loop = DrivenLoop(clock)
    seen: list[str] = []

    async def storing() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(2)
            seen.append("stored")

    loop.create_task(storing())
    loop.settle()
    loop.end()

    assert (seen, loop.is_closed()) == (["stored"], True)


def test_a_loop_that_is_forgotten_says_nothing(clock: FakeClock):
    loop = DrivenLoop(clock)
    loop.create_task(asyncio.Event().wait())
    loop.call_later(60, print)
    loop.settle()
    threads = threading.active_count()

    del loop  # warnings are errors

    assert threading.active_count() == threads


@given(st.lists(st.floats(0, 1000), min_size=1), st.timedeltas(timedelta(0), timedelta(days=9999)))
def test_law_every_timer_is_due_when_the_clock_says_so(waits: list[float], start: timedelta):
    clock = FakeClock(START + start)
    loop = DrivenLoop(clock)

    async def woken(wait: float) -> timedelta:
        await asyncio.sleep(wait)
        return clock.now() - clock.start

    async def all_woken() -> list[timedelta]:
        return await asyncio.gather(*map(woken, waits))

    found = loop.run(all_woken())

    assert all(
        abs(at - timedelta(seconds=wait)) <= timedelta(microseconds=1)
        for at, wait in zip(found, waits, strict=True)
    )


def test_threads_take_turns(loop: DrivenLoop, clock: FakeClock):
    results: list[object] = []

    def run() -> None:
        try:
            results.append(loop.run(_sleep(clock, 5)))
        except RuntimeError as error:
            results.append(error)

    other = threading.Thread(target=run)

    async def begin() -> None:
        other.start()
        other.join(0.05)  # it must wait

    loop.run(begin())
    other.join()
    assert results == [5]
