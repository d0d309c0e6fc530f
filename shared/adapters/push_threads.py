"""Provides pools of threads, and inboxes for those that wait for pushes."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from queue import Empty, SimpleQueue
from threading import Lock
from typing import Any, Generic, TypeVar

from shared.delivery.slots.slots import THREADS

T = TypeVar("T")


class QueueInbox(Generic[T]):
    """Implements the port ``Inbox``."""

    def __init__(self) -> None:
        self._items: SimpleQueue[T] = SimpleQueue()
        self.put = self._items.put

    def wait(self, seconds: float) -> list[T]:
        """Do the port's work."""
        found: list[T] = []
        try:
            found.append(self._items.get(timeout=seconds))
            while True:
                found.append(self._items.get_nowait())
        except Empty:
            return found


class PatientPool(ThreadPoolExecutor):
    """
    A pool whose work waits for one of its threads if the process can have no more.

    The standard pool queues work, and then says that it could not start a thread: the caller takes
    it for not done, and it is done all the same.
    """

    def _adjust_thread_count(self) -> None:
        try:
            super()._adjust_thread_count()
        except RuntimeError:
            if not self._threads:
                raise


class PooledThreads:
    """Implements the port ``PushThreads`` with a pool."""

    def __init__(self, threads: int = THREADS.total) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="push")

    def start(self, lane: Callable[[], None]) -> bool:
        """
        Do the port's work; there is no thread when the process ends, or has too many.

        The pool queues work before it starts a thread: what is refused must not run later.
        """
        claim = Lock()

        def claimed() -> None:
            if claim.acquire(blocking=False):
                lane()

        try:
            self._pool.submit(claimed)
        except RuntimeError:
            return not claim.acquire(blocking=False)  # unless it has begun
        return True

    def inbox(self) -> QueueInbox[Any]:
        """Return a new inbox."""
        return QueueInbox()
