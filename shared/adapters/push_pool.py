"""The threads that push: a pool of their own, with slots for each subscription."""

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

TICK = 1.0  # seconds after which a run reports even if nothing is finished

_ENDED = object()  # one of this run's lanes has ended


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
        """Push what is left; the run is not woken for each, that would cost more."""
        try:
            while taken := self.todo.take():
                began = clock()
                result = self._work(taken[0])
                self._done.append((taken[0], result))
                if result.succeeded is None:
                    continue  # Nothing was sent, nothing learnt.
                seconds = clock() - began
                if not slots.pushed(self.visit, seconds, succeeded=result.succeeded):
                    return
        except BaseException as error:  # noqa: BLE001 - raised again in the thread of the run
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
        hand_over: Callable[[], bool],
    ) -> Iterator[list[tuple[T, R]]]:
        """
        Do the port's work. What *work* raises ends the run: nothing more is begun.

        A run that has no slot does not wait for one of a key that gets nowhere: whoever waits
        holds one of the host's few messages, which others need.
        """
        if items and (visit := self._slots.enter(key)):
            stop_at = self._clock() + stop_after.total_seconds()
            run = _Run(visit, _Todo(items, self._clock, stop_at), work)
            try:
                yield from self._progress(run, len(items), hand_over)
            finally:
                run.todo.give_up()  # Whoever closes the run early wants nothing more begun.
                if run.is_waiting:
                    self._slots.stop_waiting(visit)
                self._slots.leave(visit)
            yield run.finished()
            if run.broken:
                raise run.broken[0]

    def pace(self, key: Hashable, count: int) -> timedelta:
        """Return how long *count* items that found no slot should stay away."""
        return self._slots.pace(key, count)

    def _progress(
        self, run: _Run[T, R], count: int, hand_over: Callable[[], bool]
    ) -> Iterator[list[tuple[T, R]]]:
        """Push *count* items on as many lanes as there are slots; yield what is finished."""
        while run.lanes < count and self._slots.take(run.visit):
            self._begin(run)
        if run.lanes < count:
            self._wait(run)
        may_leave = True
        while run.lanes or run.todo:
            if not run.lanes and self._slots.is_in_vain(run.visit):
                return
            if may_leave and self._slots.outstays(run.visit):
                may_leave = False
                if hand_over():
                    self._slots.go_on_outside(run.visit)
            for token in _arrivals(run.visit.inbox, self._tick):
                self._heed(run, token)
            yield run.finished()

    def _heed(self, run: _Run[T, R], token: object) -> None:
        if token is _ENDED:
            run.lanes -= 1
            if run.todo and not run.lanes and not run.is_waiting:  # The key lost slots.
                self._wait(run)
            return
        run.is_waiting = False
        if run.todo:
            self._begin(run)
            self._wait(run)
        else:
            self._slots.give_back(run.visit)

    def _wait(self, run: _Run[T, R]) -> None:
        run.is_waiting = True
        self._slots.wait(run.visit)

    def _begin(self, run: _Run[T, R]) -> None:
        def lane() -> None:
            try:
                run.push(self._slots, self._clock)
            finally:
                self._slots.give_back(run.visit)
                run.visit.inbox.put(_ENDED)

        self._threads.submit(lane)
        run.lanes += 1


def _arrivals(inbox: SimpleQueue[object], tick: float) -> Iterator[object]:
    """Yield what has arrived, after waiting for the first at most one tick."""
    try:
        yield inbox.get(timeout=tick)
        while True:
            yield inbox.get_nowait()
    except Empty:
        return
