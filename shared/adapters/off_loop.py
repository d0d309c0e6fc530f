"""Has threads do for delivering and publishing what would keep the event loop waiting."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from shared.errors import StorageUnavailable

T = TypeVar("T")


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
