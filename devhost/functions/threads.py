"""Runs plain functions on threads while the event loop waits for their results."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

# As in concurrent.futures, which the worker uses.
_DEFAULT = min(32, (os.cpu_count() or 1) + 4)

_Call = tuple[asyncio.AbstractEventLoop, asyncio.Future[object], Callable[[], object]]


class Threads:
    """
    A fixed number of threads; further calls wait for one.

    A call by way of `run_in_executor` takes half as much processor time again when many threads
    run: for a second future, the locks of both, and a semaphore of idle threads.
    """

    def __init__(self, count: int | None = None) -> None:
        self._count = count or _DEFAULT
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        for number in range(self._count):
            threading.Thread(target=self._work, name=f"function_{number}", daemon=True).start()

    async def run(self, call: Callable[[], object]) -> object:
        """Return what *call* returns on a thread, or raise what it raises."""
        loop = asyncio.get_running_loop()
        result: asyncio.Future[object] = loop.create_future()
        self._calls.put((loop, result, call))
        return await result

    def close(self) -> None:
        """Begin no more calls, and end the threads that are idle."""
        with contextlib.suppress(Empty):
            while True:
                self._calls.get_nowait()
        for _ in range(self._count):
            self._calls.put(None)

    def _work(self) -> None:
        while (waiting := self._calls.get()) is not None:
            _run(*waiting)
            del waiting  # or it would hold the last result until the next call


def _run(
    loop: asyncio.AbstractEventLoop, result: asyncio.Future[object], call: Callable[[], object]
) -> None:
    if result.cancelled():
        return
    returned: object = None
    fault: BaseException | None = None
    try:
        returned = call()
    except BaseException as raised:  # noqa: BLE001 - the caller gets it
        fault = raised
    with contextlib.suppress(RuntimeError):  # the loop has ended in the meantime
        loop.call_soon_threadsafe(_settle, result, returned, fault)
    del fault  # its traceback holds this frame


def _settle(result: asyncio.Future[object], returned: object, fault: BaseException | None) -> None:
    if result.done():
        return
    if fault is None:
        result.set_result(returned)
    else:
        result.set_exception(fault)
