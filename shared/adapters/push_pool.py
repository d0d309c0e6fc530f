"""The threads that push: a pool of their own, with so many slots for each subscription."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from queue import Empty, SimpleQueue
from threading import Lock
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")

THREADS = 128
SLOTS = 16  # of one key at a time
TICK = 1.0  # seconds after which a run reports even if nothing is finished

_SLOT = object()  # a slot was handed to this run
_ENDED = object()  # one of this run's lanes has ended

Inbox = SimpleQueue[Any]


class _Slots:
    """Counts the slots in use for each key; who waits longest gets the next one."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = Lock()
        self._used: dict[str, int] = defaultdict(int)
        self._waiting: dict[str, deque[Inbox]] = defaultdict(deque)

    def take(self, key: str) -> bool:
        with self._lock:
            if self._used[key] >= self._limit:
                return False
            self._used[key] += 1
            return True

    def wait(self, key: str, inbox: Inbox) -> None:
        """Ask for a slot: ``_SLOT`` is put into *inbox* when there is one."""
        with self._lock:
            if self._used[key] < self._limit:
                self._used[key] += 1
                inbox.put(_SLOT)
            else:
                self._waiting[key].append(inbox)

    def give_back(self, key: str) -> None:
        with self._lock:
            if self._waiting[key]:
                self._waiting[key].popleft().put(_SLOT)
            else:
                self._used[key] -= 1
            if not self._used[key]:
                del self._used[key], self._waiting[key]

    def leave(self, key: str, inbox: Inbox) -> None:
        """Stop waiting; a slot that was handed over meanwhile goes back."""
        with self._lock:
            waits = inbox in self._waiting[key]
            if waits:
                self._waiting[key].remove(inbox)
        if not waits:
            self.give_back(key)


class ThreadedPushPool:
    """Implements the port ``PushPool``."""

    def __init__(self, threads: int = THREADS, slots: int = SLOTS) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="push")
        self._slots = _Slots(slots)

    def run(
        self, key: str, items: Sequence[T], work: Callable[[T], R], stop_after: timedelta
    ) -> Iterator[list[tuple[T, R]]]:
        stop_at = time.monotonic() + stop_after.total_seconds()
        todo = deque(items)
        done: deque[tuple[T, R]] = deque()
        inbox: Inbox = SimpleQueue()

        def lane() -> None:
            """Push one after the other; the run is not woken for each, that would cost more."""
            try:
                while time.monotonic() < stop_at:
                    item = todo.popleft()
                    done.append((item, work(item)))
            except IndexError:
                pass  # Nothing is left to do.
            finally:
                self._slots.give_back(key)
                inbox.put(_ENDED)

        lanes = 0
        while lanes < len(items) and self._slots.take(key):
            self._threads.submit(lane)
            lanes += 1
        is_waiting = lanes < len(items)
        if is_waiting:
            self._slots.wait(key, inbox)
        while lanes or (todo and time.monotonic() < stop_at):
            for token in _arrivals(inbox):
                if token is _ENDED:
                    lanes -= 1
                elif todo:
                    self._threads.submit(lane)
                    lanes += 1
                    self._slots.wait(key, inbox)
                else:
                    self._slots.give_back(key)
                    is_waiting = False
            yield [done.popleft() for _ in range(len(done))]
        if is_waiting:
            self._slots.leave(key, inbox)
        yield [done.popleft() for _ in range(len(done))]


def _arrivals(inbox: Inbox) -> Iterator[object]:
    """Yield what has arrived, after waiting for the first at most one tick."""
    try:
        yield inbox.get(timeout=TICK)
        while True:
            yield inbox.get_nowait()
    except Empty:
        return
