"""Threads for what would keep the event loop waiting, also where the process can have no more."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from shared.adapters.threads import ThreadPool
from shared.errors import StorageUnavailable

PATIENCE = 60  # seconds after which a test that hangs fails
NAME: contextvars.ContextVar[str] = contextvars.ContextVar("name")


def test_a_call_has_a_thread_and_the_context_of_its_caller() -> None:
    off_loop = ThreadPool(4, "test")

    async def run(name: str) -> tuple[str, bool]:
        NAME.set(name)
        return await off_loop(
            lambda: (NAME.get(), threading.current_thread() is threading.main_thread())
        )

    async def run_both() -> list[tuple[str, bool]]:
        return list(await asyncio.gather(run("one"), run("two")))

    assert asyncio.run(run_both()) == [("one", False), ("two", False)]


def test_what_a_call_raises_is_its_callers() -> None:
    with pytest.raises(KeyError):
        asyncio.run(ThreadPool(1, "test")({}.popitem))


def test_a_cancelled_caller_has_its_call_made() -> None:
    """What it stores is stored, also where it waits for a thread."""
    may_end, made = threading.Event(), threading.Event()

    async def cancel() -> list[object]:
        off_loop = ThreadPool(1, "test")
        first = asyncio.create_task(off_loop(lambda: may_end.wait(PATIENCE)))
        second = asyncio.create_task(off_loop(made.set))
        await asyncio.sleep(0)
        first.cancel()
        second.cancel()
        ended = await asyncio.gather(first, second, return_exceptions=True)
        may_end.set()
        return list(ended)

    ended = asyncio.run(cancel())

    assert [type(each) for each in ended] == [asyncio.CancelledError] * 2
    assert made.wait(PATIENCE)


@pytest.mark.parametrize("cancelled", [0, 1], ids=["while it runs", "while it is queued"])
def test_threads_that_withdraw_make_no_call_whose_caller_is_cancelled_before_it_begins(
    cancelled: int,
) -> None:
    begun, may_end = threading.Event(), threading.Event()
    made: list[int] = []

    def hold(number: int) -> None:
        begun.set()
        assert may_end.wait(PATIENCE)
        made.append(number)

    async def cancel() -> list[object]:
        off_loop = ThreadPool(1, "test", withdraws=True)
        calls = [asyncio.create_task(off_loop(partial(hold, number))) for number in range(3)]
        assert await asyncio.to_thread(begun.wait, PATIENCE)
        calls[cancelled].cancel()
        await asyncio.wait([calls[cancelled]], timeout=PATIENCE)
        may_end.set()
        return list(await asyncio.gather(*calls, return_exceptions=True))

    ended = asyncio.run(cancel())

    assert [each is None for each in ended] == [number != cancelled for number in range(3)]
    assert made == ([0, 1, 2] if cancelled == 0 else [0, 2])


def test_work_waits_for_a_thread_that_there_is() -> None:
    """It was refused and done all the same: an invocation failed, and its events went out twice."""
    may_end = threading.Event()

    async def run() -> tuple[bool, str]:
        off_loop = ThreadPool(4, "test")
        first = asyncio.create_task(off_loop(lambda: may_end.wait(PATIENCE)))
        await asyncio.sleep(0)
        with no_more_threads():
            second = asyncio.create_task(off_loop(lambda: "second"))
            await asyncio.sleep(0)
        may_end.set()
        return await first, await second

    assert asyncio.run(run()) == (True, "second")


def test_without_any_thread_work_is_refused_and_never_done() -> None:
    """The pool queues work before it starts a thread."""
    made: list[str] = []

    async def run() -> str:
        off_loop = ThreadPool(1, "test")
        with no_more_threads(), pytest.raises(StorageUnavailable):
            await off_loop(lambda: made.append("refused"))
        return await off_loop(lambda: "made later")

    assert asyncio.run(run()) == "made later"
    assert made == []


@contextmanager
def no_more_threads() -> Iterator[None]:
    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(threading.Thread, "start", start)
        yield
