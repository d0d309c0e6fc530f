"""An event loop whose time is that of a clock which tests move."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextvars import Context, copy_context
from datetime import timedelta
from functools import partial
from queue import SimpleQueue
from threading import Lock, RLock
from typing import Any, TypeVar, TypeVarTuple, Unpack

from pushgrid.testing.memory.clock import FakeClock
from shared import telemetry
from shared.engine.ports import OffLoop

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_RESOLUTION = 0.5e-6  # seconds: the clock counts microseconds
_LONGEST = timedelta(days=1)  # a run: what waits longer waits for ever, whatever timers there are


class NothingWillHappen(Exception):
    """What is run waits for something that no task and no timer will bring about."""


class DrivenLoop(asyncio.BaseEventLoop):
    """
    An event loop that runs only while a test calls it, and then in the test's thread.

    `settle` does what needs no time, `advance` lets time pass, `run` as much of it as a coroutine
    needs. In between, tasks keep where they are. An exception that no task awaits is raised there.

    What asyncio would run on other threads (`run_in_executor`, `asyncio.to_thread`) is called in
    the test's thread between the loop's steps, when no loop runs: so it may `run` a coroutine.
    Threads of a test that `run` coroutines take turns.
    It works while another loop runs in the test's thread, too; then its steps have a thread.
    """

    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self._clock = clock
        self._clock_resolution = _RESOLUTION
        self._selector = _NothingElse(self.stop)
        self._calls: deque[tuple[asyncio.Future[Any], Callable[[], Any]]] = deque()
        self._unheard: list[BaseException] = []
        self._turn = RLock()

    @property
    def next_in(self) -> timedelta | None:
        """How long after the last step a timer was due; ``None``: there was no timer."""
        return self._selector.next_in

    @property
    def is_current(self) -> bool:
        """Whether it is asked by what runs on this loop."""
        return asyncio._get_running_loop() is self  # noqa: SLF001 - `get_running_loop` raises

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """
        Run *coroutine* to its end; return its result.

        Raises:
            NothingWillHappen: it would wait for ever, or for more than a day.
            RuntimeError: called by what runs on this loop, which would wait for itself.
        """
        if self.is_current:
            coroutine.close()
            raise RuntimeError("the event loop would wait for itself")
        with self._turn:
            return self._run(coroutine)

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        task = self.create_task(coroutine)
        left = _LONGEST
        self._step()
        while not task.done():
            if self._calls:
                self._call_next()
            elif self.next_in is not None and self.next_in <= left:
                left -= self.next_in
                self._clock.advance(self.next_in)
            else:
                waiting = "\n".join(sorted(map(repr, asyncio.all_tasks(self))))
                task.cancel()
                self._step()
                raise NothingWillHappen(f"These wait for what no timer brings:\n{waiting}")
            self._step()
        result = task.result()
        self._raise_unheard()
        return result

    def settle(self) -> None:
        """Do all that can be done without time passing."""
        self._step()
        while self._calls:
            self._call_next()
            self._step()
        self._raise_unheard()

    def advance(self, by: timedelta) -> None:
        """Let time pass: each timer is due at its moment."""
        elsewhere = self._clock.elsewhere  # that never jumps
        until = elsewhere.now() + by
        self.settle()
        while self.next_in is not None and elsewhere.now() + self.next_in <= until:
            self._clock.advance(self.next_in)
            self.settle()
        self._clock.advance(max(until - elsewhere.now(), timedelta()))
        self.settle()

    def end(self) -> None:
        """Cancel all tasks, as a process does that stops, and close."""
        while tasks := asyncio.all_tasks(self):
            for each in tasks:
                each.cancel()
            self.run(_ended(tasks))
        self.settle()
        self.close()

    def time(self) -> float:
        return self._clock.monotonic()

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Call it at the next of the moments that the clock knows."""
        known = timedelta(seconds=when).total_seconds()
        return super().call_at(known, callback, *args, context=context)

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Return what *func* will return: it is called in the test's thread, in its turn."""
        del executor
        future: asyncio.Future[T] = self.create_future()
        self._calls.append((future, partial(func, *args)))
        return future

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep for the test what nobody will hear of."""
        error = context.get("exception")
        if error is None and self.is_running():  # otherwise the test has forgotten the loop itself
            error = RuntimeError(f"{context['message']} {context.get('task', '')}")
        if error is not None:
            self._unheard.append(error)

    def __del__(self) -> None:
        """Say nothing of a loop that was not closed: it has nothing to close."""

    def _step(self) -> None:
        """Run what is ready, and what becomes ready by that."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            self.run_forever()
        else:
            with ThreadPoolExecutor(1) as threads:
                threads.submit(self.run_forever).result()

    def _call_next(self) -> None:
        future, call = self._calls.popleft()
        if future.cancelled():
            return
        others, self._calls = self._calls, deque()  # not while it runs another coroutine
        try:
            result = call()
        except Exception as error:  # noqa: BLE001 - whoever awaits the call gets it
            if not future.done():
                future.set_exception(error)
        except BaseException:  # such as `pytest.fail`
            future.cancel()
            raise
        else:
            if not future.done():
                future.set_result(result)
        finally:
            self._calls = others + self._calls

    def _raise_unheard(self) -> None:
        if self._unheard:
            first, *_ = self._unheard
            self._unheard.clear()
            raise first

    # What a loop of asyncio has for sockets, and for calls from other threads.

    def _process_events(self, event_list: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass


class DrivenThreads:
    """Threads: what blocks is done in the test's thread, in its turn."""

    def __init__(self, loop: DrivenLoop) -> None:
        self._loop = loop
        self.on_loop = loop.run
        self.monotonic = loop.time

    def pool(self, name: str, most: int, *, withdraws: bool = False) -> OffLoop:
        del name, most, withdraws
        return off_loop

    def begin(self, work: Callable[[], object], /) -> None:
        """Do *work* at once; what the loop begins is done in its turn, since it may wait."""
        context = telemetry.own_context()
        if self._loop.is_current:
            self._loop.run_in_executor(None, lambda: context.run(work))
        else:
            context.run(work)

    def result(self, of: Future[T], seconds: float | None = None) -> T:
        del seconds
        return of.result(0)  # it is there, or never will be

    def sleep(self, seconds: float) -> None:
        self.on_loop(asyncio.sleep(seconds))

    def lock(self) -> Lock:
        return Lock()

    def channel(self) -> SimpleQueue[Any]:
        return SimpleQueue()


async def off_loop(call: Callable[[], T]) -> T:
    """Do as the port ``OffLoop``: in the test's thread, between the loop's steps."""
    in_context = partial(copy_context().run, call)
    return await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, in_context))


class _NothingElse:
    """The selector of a loop without sockets: when nothing is ready, the loop's step is over."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        self.next_in: timedelta | None = None

    def select(self, timeout: float | None) -> list[Any]:
        """Wait for nothing; *timeout* is when the next timer is due."""
        if timeout != 0:
            self.next_in = None if timeout is None else timedelta(seconds=timeout)
            self._stop()
        return []


async def _ended(tasks: set[asyncio.Task[Any]]) -> None:
    await asyncio.wait(tasks)
