"""The threads of a process: what would keep the event loop waiting is done on them."""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, TypeVar

from shared import telemetry
from shared.errors import StorageUnavailable

T = TypeVar("T")


class SystemThreads:
    """Implements the port ``Threads``; `attach` makes the running loop the app's (`Bridge`)."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.monotonic = monotonic
        self._bridge = Bridge()
        self.attach = self._bridge.attach
        self.on_loop = self._bridge.run

    def pool(self, name: str, most: int, *, withdraws: bool = False) -> ThreadPool:
        return ThreadPool(most, name, withdraws=withdraws)

    def begin(self, work: Callable[[], object], /) -> None:
        context = telemetry.own_context()
        Thread(target=context.run, args=(work,), daemon=True).start()

    def result(self, of: Future[T], seconds: float | None = None) -> T:
        return of.result(seconds)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def lock(self) -> Lock:
        return Lock()

    def channel(self) -> SimpleQueue[Any]:
        return SimpleQueue()


class Bridge:
    """
    The one way from threads to the event loop that all state of delivering belongs to.

    The loop is that on which the functions run, once it is *attached*; a process without one (a
    command, a test) gets a loop on a thread of its own at the first call.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def attach(self) -> None:
        """
        Use the running loop of this thread, if there is one, from now on.

        Raises:
            RuntimeError: another loop is in use, and state belongs to that one.
        """
        loop = _running_loop()
        if loop is None:
            return
        with self._lock:
            if self._loop is None or self._loop.is_closed():
                self._loop = loop
            elif self._loop is not loop:
                raise RuntimeError("another event loop runs the app")

    def run(self, coroutine: Coroutine[Any, Any, T], /) -> T:
        """
        Run *coroutine* on the loop, and wait for its result.

        Raises:
            RuntimeError: called on the loop's own thread, which would wait for itself.
        """
        loop = self._get_loop()
        if _running_loop() is loop:
            coroutine.close()
            raise RuntimeError("the event loop would wait for itself")
        result = asyncio.run_coroutine_threadsafe(coroutine, loop)
        try:
            return result.result()
        finally:
            result.cancel()  # where the caller was interrupted

    def _get_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._loop.is_closed():
                self._loop = asyncio.new_event_loop()
                Thread(target=self._loop.run_forever, name="app-loop", daemon=True).start()
            return self._loop


class ThreadPool:
    """
    Implements the port ``OffLoop`` with at most *most* threads, which begin when needed.

    *withdraws*: a call that has not begun is not made if its caller is cancelled. Else an overload
    would never end: all threads would work for callers that have given up.
    """

    def __init__(self, most: int, name: str, *, withdraws: bool = False) -> None:
        self._withdraws = withdraws
        self._pool = _PatientPool(most, thread_name_prefix=name)

    async def __call__(self, call: Callable[[], T]) -> T:
        work = Future[T]()
        context = contextvars.copy_context()
        try:
            self._pool.submit(_work, work, partial(context.run, call))
        except RuntimeError as error:
            # The pool queues work before it starts a thread: what is refused must not run later.
            if work.cancel():
                raise StorageUnavailable from error
        made = asyncio.wrap_future(work)  # Cancelling it has no effect on what has begun.
        return await (made if self._withdraws else asyncio.shield(made))


class _PatientPool(ThreadPoolExecutor):
    """A pool whose work waits for one of its threads if the process can have no more."""

    def _adjust_thread_count(self) -> None:
        try:
            super()._adjust_thread_count()
        except RuntimeError:
            if not self._threads:
                raise


def _work(work: Future[T], call: Callable[[], T]) -> None:
    if work.set_running_or_notify_cancel():
        try:
            work.set_result(call())
        except BaseException as error:  # noqa: BLE001 - raised where the result is awaited
            work.set_exception(error)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
