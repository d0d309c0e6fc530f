"""Runs pushes on threads of its own, as many at a time as each subscription has slots."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from shared.delivery.slots.slots import MAX_SLOTS, START_SLOTS, THREADS, Slots, Visit
from shared.engine.ports import PushResult

T = TypeVar("T")
R = TypeVar("R", bound=PushResult)

TICK = 1.0  # seconds after which a job reports even if nothing is finished

_ENDED = object()  # put into an inbox: a lane of the job has ended


class _Todo(Generic[T]):
    """The items of a job that may still be begun: true while there are any, and time is left."""

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


class _Job(Generic[T, R]):
    """One job and its lanes: threads that push one item after the other, each with a slot."""

    def __init__(self, visit: Visit, todo: _Todo[T], work: Callable[[T], R]) -> None:
        self.visit = visit
        self.todo = todo
        self.lanes = 0
        self.is_waiting = False  # for another slot
        self.broken: list[BaseException] = []
        self._work = work
        self._done: deque[tuple[T, R]] = deque()

    def finished(self) -> list[tuple[T, R]]:
        return [self._done.popleft() for _ in range(len(self._done))]

    def push(self, slots: Slots, clock: Callable[[], float]) -> None:
        """Push what is left; waking the job's thread for each item would cost more."""
        try:
            while taken := self.todo.take():
                began = clock()
                result = self._work(taken[0])
                self._done.append((taken[0], result))
                if not result.was_sent:
                    continue
                seconds = clock() - began
                if not slots.pushed(self.visit, seconds, succeeded=result.succeeded):
                    return
        except BaseException as error:  # noqa: BLE001 - raised again in the job's thread
            self.todo.give_up()
            self.broken.append(error)


class ThreadedPushPool:
    """
    Implements the port ``PushPool``: threads of its own, and slots for each key.

    *clock* is monotonic, in seconds; so is *tick*.
    """

    def __init__(
        self,
        threads: int = THREADS.total,
        slots: Slots | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        tick: float = TICK,
    ) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="push")
        self._slots = slots or Slots(START_SLOTS, MAX_SLOTS, clock)
        self._clock = clock
        self._tick = tick

    def run(
        self,
        key: Hashable,
        items: Sequence[T],
        work: Callable[[T], R],
        *,
        stop_after: timedelta,
        detach: Callable[[], bool],
    ) -> Iterator[list[tuple[T, R]]]:
        """
        Do the port's work. What *work* raises ends the job: nothing more is begun.

        A job without a slot does not wait for a key that is stuck, because it would keep one of
        the host's few messages in flight from others.
        """
        if items and (visit := self._slots.enter(key)):
            stop_at = self._clock() + stop_after.total_seconds()
            job = _Job(visit, _Todo(items, self._clock, stop_at), work)
            try:
                yield from self._progress(job, len(items), detach)
            finally:
                job.todo.give_up()  # Closed early: nothing more is begun.
                if job.is_waiting:
                    self._slots.stop_waiting(visit)
                self._slots.leave(visit)
            yield job.finished()
            if job.broken:
                raise job.broken[0]

    def pace(self, key: Hashable, count: int) -> timedelta:
        """Return how long *count* items that found no slot should stay away."""
        return self._slots.pace(key, count)

    def _progress(
        self, job: _Job[T, R], count: int, detach: Callable[[], bool]
    ) -> Iterator[list[tuple[T, R]]]:
        """Push *count* items on as many lanes as there are slots; yield what is finished."""
        while job.lanes < count and self._slots.take(job.visit):
            self._begin(job)
        if job.lanes < count:
            self._wait(job)
        may_leave = True
        while job.lanes or job.todo:
            if not job.lanes and self._slots.is_starved(job.visit):
                return
            if may_leave and self._slots.should_detach(job.visit):
                may_leave = False
                if detach():
                    self._slots.detach(job.visit)
            for token in _tokens(job.visit.inbox, self._tick):
                self._handle(job, token)
            yield job.finished()

    def _handle(self, job: _Job[T, R], token: object) -> None:
        if token is _ENDED:
            job.lanes -= 1
            if job.todo and not job.lanes and not job.is_waiting:  # The key lost slots.
                self._wait(job)
            return
        job.is_waiting = False
        if job.todo:
            self._begin(job)
            self._wait(job)
        else:
            self._slots.release_slot(job.visit)

    def _wait(self, job: _Job[T, R]) -> None:
        job.is_waiting = True
        self._slots.wait(job.visit)

    def _begin(self, job: _Job[T, R]) -> None:
        def lane() -> None:
            try:
                job.push(self._slots, self._clock)
            finally:
                self._slots.release_slot(job.visit)
                job.visit.inbox.put(_ENDED)

        self._threads.submit(lane)
        job.lanes += 1


def _tokens(inbox: SimpleQueue[object], tick: float) -> Iterator[object]:
    """Yield what has arrived, after waiting for the first at most one tick."""
    try:
        yield inbox.get(timeout=tick)
        while True:
            yield inbox.get_nowait()
    except Empty:
        return
