"""What simulated processes do as real ones: threads wait, a kill is silent, a freeze delays."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from random import Random

import pytest

from tests.simulation.kernel import Kernel, Process, Threads


def a_kernel(seed: int = 0) -> Kernel:
    return Kernel(Random(seed), shuffles=False)


def a_process(kernel: Kernel) -> Process:
    return Process(kernel, "p", copy_context())


def test_a_loop_and_its_threads_wait_for_each_other() -> None:
    kernel, heard = a_kernel(), list[object]()
    process = a_process(kernel)
    threads = Threads(process)

    async def ask() -> str:
        await asyncio.sleep(2)
        return f"asked at {kernel.now:g}"

    async def run() -> None:
        heard.append(await threads.pool("p", 1)(lambda: threads.on_loop(ask())))

    process.loop.call_soon(lambda: process.loop.create_task(run()))
    kernel.run(10)

    assert heard == ["asked at 2"]
    assert process.unheard == []


@pytest.mark.parametrize("seed", range(10))
def test_a_lock_has_one_holder_at_a_time(seed: int) -> None:
    kernel, holders, most = a_kernel(seed), 0, 0
    process = a_process(kernel)
    lock = Threads(process).lock()

    def hold() -> None:
        nonlocal holders, most
        with lock:
            holders += 1
            most = max(most, holders)
            kernel.sleep(1)
            holders -= 1

    for _ in range(5):
        process.begin(hold)
    kernel.run(100)

    assert (most, holders) == (1, 0)


def test_a_kill_runs_no_finally_and_a_result_never_comes() -> None:
    kernel, heard = a_kernel(), list[str]()
    process = a_process(kernel)

    async def wait() -> None:
        try:
            await asyncio.sleep(5)
            heard.append("woke")
        finally:
            heard.append("finally")

    process.loop.call_soon(lambda: process.loop.create_task(wait()))
    kernel.at(1, process.kill)
    kernel.run(10)

    assert heard == []


def test_what_is_due_in_a_freeze_is_done_after_it() -> None:
    kernel, heard = a_kernel(), list[float]()
    process = a_process(kernel)
    process.loop.call_later(2, lambda: heard.append(kernel.now))
    process.is_frozen = True
    kernel.at(7, process.thaw)
    kernel.run(10)

    assert heard == [7]


def test_what_a_callback_cancels_is_not_done_even_if_it_is_due() -> None:
    kernel, heard = a_kernel(), list[str]()
    process = a_process(kernel)
    second = process.loop.call_later(3, heard.append, "second")
    process.loop.call_later(2, second.cancel)
    process.is_frozen = True
    kernel.at(7, process.thaw)
    kernel.run(10)

    assert heard == []


def test_a_result_that_does_not_come_in_time_is_waited_for_no_longer() -> None:
    kernel, heard, result = a_kernel(), list[object](), Future[None]()
    process = a_process(kernel)

    def wait() -> None:
        heard.append("waits")
        with suppress(TimeoutError):
            Threads(process).result(result, 3)
        heard.append(kernel.now)

    process.begin(wait)
    kernel.at(5, lambda: result.set_result(None))  # wakes nobody
    kernel.run(10)

    assert heard == ["waits", 3]


def test_who_turns_first_is_drawn_and_can_be_repeated() -> None:
    def order(seed: int) -> list[str]:
        kernel, heard = a_kernel(seed), list[str]()
        for name in "abc":
            process = Process(kernel, name, copy_context())
            for turn in "12":
                process.loop.call_soon(heard.append, name + turn)
        kernel.run(1)
        return heard

    orders = [order(seed) for seed in range(10)]
    assert orders == [order(seed) for seed in range(10)]
    assert len({tuple(each) for each in orders}) > 1
    assert all(sorted(each) == each for each in ([n for n in o if n[0] == "a"] for o in orders))
