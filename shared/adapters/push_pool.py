"""The threads that push: a pool of their own, with so many slots for each subscription."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from queue import Empty, SimpleQueue
from threading import Lock
from typing import Any, Generic, TypeVar

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


class _Todo(Generic[T]):
    """The items of a run that may still be begun: true while there are any, and time is left."""

    def __init__(self, items: Sequence[T], clock: Callable[[], float], stop_at: float) -> None:
        self._items = deque(items)
        self._clock = clock
        self._stop_at = stop_at

    def __bool__(self) -> bool:
        return bool(self._items) and self._clock() < self._stop_at

    def take(self) -> tuple[T] | None:
        try:
            return (self._items.popleft(),) if self else None
        except IndexError:  # Another lane took the last one meanwhile.
            return None

    def give_up(self) -> None:
        self._items.clear()


class _Run(Generic[T, R]):
    """One run on its lanes: threads that push one item after the other, a slot each."""

    def __init__(self, key: str, todo: _Todo[T], work: Callable[[T], R]) -> None:
        self.key = key
        self.todo = todo
        self.inbox: Inbox = SimpleQueue()
        self.lanes = 0
        self.is_waiting = False  # for another slot
        self.broken: list[BaseException] = []
        self._work = work
        self._done: deque[tuple[T, R]] = deque()

    def finished(self) -> list[tuple[T, R]]:
        return [self._done.popleft() for _ in range(len(self._done))]

    def push(self) -> None:
        """Push what is left; the run is not woken for each, that would cost more."""
        try:
            while taken := self.todo.take():
                self._done.append((taken[0], self._work(taken[0])))
        except BaseException as error:  # noqa: BLE001 - raised again in the thread of the run
            self.todo.give_up()
            self.broken.append(error)


class ThreadedPushPool:
    """Implements the port ``PushPool``. *clock* is monotonic, in seconds; so is *tick*."""

    def __init__(
        self,
        threads: int = THREADS,
        slots: int = SLOTS,
        *,
        clock: Callable[[], float] = time.monotonic,
        tick: float = TICK,
    ) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="push")
        self._slots = _Slots(slots)
        self._clock = clock
        self._tick = tick

    def run(
        self, key: str, items: Sequence[T], work: Callable[[T], R], stop_after: timedelta
    ) -> Iterator[list[tuple[T, R]]]:
        """Do the port's work. What *work* raises ends the run: nothing more is begun."""
        stop_at = self._clock() + stop_after.total_seconds()
        run = _Run(key, _Todo(items, self._clock, stop_at), work)
        try:
            while run.lanes < len(items) and self._slots.take(key):
                self._begin(run)
            if run.lanes < len(items):
                run.is_waiting = True
                self._slots.wait(key, run.inbox)
            while run.lanes or run.todo:
                for token in _arrivals(run.inbox, self._tick):
                    self._heed(run, token)
                yield run.finished()
        finally:
            run.todo.give_up()  # Whoever closes the run early wants nothing more begun.
            if run.is_waiting:
                self._slots.leave(key, run.inbox)
        yield run.finished()
        if run.broken:
            raise run.broken[0]

    def _heed(self, run: _Run[T, R], token: object) -> None:
        if token is _ENDED:
            run.lanes -= 1
        elif run.todo:
            self._begin(run)
            self._slots.wait(run.key, run.inbox)
        else:
            run.is_waiting = False
            self._slots.give_back(run.key)

    def _begin(self, run: _Run[T, R]) -> None:
        def lane() -> None:
            try:
                run.push()
            finally:
                self._slots.give_back(run.key)
                run.inbox.put(_ENDED)

        self._threads.submit(lane)
        run.lanes += 1


def _arrivals(inbox: Inbox, tick: float) -> Iterator[object]:
    """Yield what has arrived, after waiting for the first at most one tick."""
    try:
        yield inbox.get(timeout=tick)
        while True:
            yield inbox.get_nowait()
    except Empty:
        return
