"""Calls on threads: given up while they wait for one, and threads that end."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from devhost.functions.threads import Threads


async def one_waits(threads: Threads, given_up: Callable[[asyncio.Task[object]], object]):
    """Occupy the only thread, let a call wait for it, give that up; return whether it began."""
    begins, ends, late = asyncio.Event(), threading.Event(), threading.Event()
    loop = asyncio.get_running_loop()
    first = asyncio.create_task(
        threads.run(lambda: (loop.call_soon_threadsafe(begins.set), ends.wait(60)))
    )
    await begins.wait()
    waiting = asyncio.create_task(threads.run(late.set))
    await asyncio.sleep(0)
    given_up(waiting)
    ends.set()
    await first
    return late.is_set()


def test_a_call_that_is_cancelled_while_it_waits_never_begins():
    threads = Threads(1)

    async def scene() -> object:
        began = await one_waits(threads, lambda waiting: waiting.cancel())
        assert await threads.run(lambda: "next") == "next"
        return began

    assert asyncio.run(scene()) is False
    threads.close()


def test_a_call_that_waits_at_the_end_never_begins():
    before = threading.enumerate()
    threads = Threads(1)
    (started,) = set(threading.enumerate()).difference(before)

    assert asyncio.run(one_waits(threads, lambda _: threads.close())) is False
    started.join(60)
    assert not started.is_alive()


def test_what_a_call_raises_is_raised():
    threads = Threads()

    with pytest.raises(ZeroDivisionError):
        asyncio.run(threads.run(lambda: 1 // 0))
    threads.close()
