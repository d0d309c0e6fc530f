"""Runs the event loops and threads of several processes in one thread, on one virtual clock."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextvars import Context, copy_context
from datetime import datetime, timedelta
from functools import partial
from queue import Empty
from random import Random
from typing import Any, Generic, TypeVar

from greenlet import getcurrent, greenlet

from pushgrid.testing.memory import START, FakeClock
from pushgrid.testing.memory.clock import Elsewhere

T = TypeVar("T")
_EventLoop: Any = asyncio.AbstractEventLoop  # of which a simulated one needs little

MOST_TURNS = 200_000  # in which time has to pass
YIELDS = 0.05  # of the times that a thread takes a lock: another one runs first


class Stuck(Exception):
    """Time does not pass any more."""


class Kernel:
    """
    Chooses what runs next, and moves the clock when nothing can run.

    A strand is a thread: that of an event loop, which makes one callback a turn, or one that
    blocks, which runs until it waits. *chance* chooses among those that can run. If it *shuffles*,
    the callbacks of a loop are not made in their order.
    """

    def __init__(self, chance: Random, *, shuffles: bool) -> None:
        self.chance, self.shuffles = chance, shuffles
        self.now = 0.0  # seconds
        self.current: Strand | None = None
        self.hub = getcurrent()
        self._turns, self._turned_at = 0, 0.0
        self._runnable: list[Strand] = []
        self._timers: list[tuple[float, float, int, Timer]] = []
        self._numbers = itertools.count()

    def at(self, when: float, call: Callable[[], object]) -> Timer:
        """Call it at that time; of what is due together, chance chooses the first."""
        timer = Timer(when, call)
        heapq.heappush(self._timers, (when, self.chance.random(), next(self._numbers), timer))
        return timer

    def run(self, until: float) -> None:
        """
        Run everything that happens up to that time.

        Raises:
            Stuck: there is no end to what happens at one moment.
        """
        while True:
            while self._runnable:
                self._turn()
                place = int(self.chance.random() * len(self._runnable))
                strand, self._runnable[place] = self._runnable[place], self._runnable[-1]
                self._runnable.pop()
                if strand.process.is_alive:
                    strand.is_ready = False
                    self.current = strand
                    strand.greenlet.switch()
                    self.current = None
            if not self._timers or self._timers[0][0] > until:
                self.now = max(self.now, until)
                return
            when, _, _, timer = heapq.heappop(self._timers)
            self.now = max(self.now, when)
            timer.run()

    def _turn(self) -> None:
        """Count the turns of one moment."""
        self._turns = self._turns + 1 if self._turned_at == self.now else 1
        self._turned_at = self.now
        if self._turns > MOST_TURNS:
            raise Stuck(f"{MOST_TURNS} turns at {self.now:.3f}")

    def is_next(self, strand: Strand) -> bool:
        """Tell whether the current strand goes on at once: no other can run. Else it is ready."""
        if self._runnable or strand.process.is_frozen or not strand.process.is_alive:
            self.ready(strand)
            return False
        self._turn()
        return True

    def ready(self, strand: Strand) -> None:
        """Let a strand run, once, unless its process is dead; if that is frozen, after it."""
        process = strand.process
        if process.is_alive and not strand.is_ready:
            strand.is_ready = True
            (process.frozen if process.is_frozen else self._runnable).append(strand)

    def switch(self) -> None:
        """Let others run until the current strand is `ready` again, for whatever reason."""
        running = asyncio._get_running_loop()
        if running:
            asyncio._set_running_loop(None)
        self.hub.switch()
        if running:
            asyncio._set_running_loop(running)

    def sleep(self, seconds: float) -> None:
        """Keep the current strand waiting."""
        if seconds:
            self.wait(lambda: False, self.now + seconds)

    def wait(self, is_over: Callable[[], bool], until: float | None = None) -> None:
        """Keep the current strand waiting until it is over, or until that time."""
        strand = self.current
        if strand is None:
            raise RuntimeError("only a strand of a process can wait")
        timer = None if until is None else self.at(until, lambda: self.ready(strand))
        while not is_over() and (until is None or self.now < until):
            self.switch()
        if timer:
            timer.cancel()


class StorageClock(FakeClock):
    """The clock of storage, which is right."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self._kernel = kernel

    def now(self) -> datetime:
        return START + timedelta(seconds=self._kernel.now)

    @property
    def elsewhere(self) -> Elsewhere:
        return Elsewhere(self.now)


class Timer:
    """A call at a time; also what asyncio calls a handle."""

    __slots__ = ("_at", "_call")

    def __init__(self, at: float, call: Callable[[], object] | None) -> None:
        self._at, self._call = at, call

    def when(self) -> float:
        return self._at

    def cancel(self) -> None:
        self._call = None

    @property
    def is_cancelled(self) -> bool:
        return self._call is None

    def run(self) -> None:
        call, self._call = self._call, None
        if call:
            call()


class Strand:
    """A thread of a process, which does its *work* when it is ready."""

    __slots__ = ("greenlet", "is_ready", "process", "work")

    def __init__(self, process: Process, body: Callable[[], object]) -> None:
        self.process = process
        self.is_ready = False
        self.work: Callable[[], object] | None = None
        self.greenlet = greenlet(body, parent=process.kernel.hub)


class Process:
    """
    A process: its event loop and its threads, which end without a word when it is killed.

    What is buried keeps where it stands until the kernel is gone: no `finally` runs.
    """

    def __init__(self, kernel: Kernel, name: str, context: Context) -> None:
        self.kernel, self.name = kernel, name
        self.context = context  # of what begins by itself
        self.is_alive, self.is_frozen = True, False
        self.frozen: list[Strand] = []  # that could run
        self.unheard: list[str] = []  # exceptions that no task awaits
        self._strands: list[Strand] = []
        self._idle: list[Strand] = []  # of them
        self.loop = Loop(self)

    def begin(self, work: Callable[[], object], /) -> None:
        """Begin work that may wait, on a thread and in a context of its own."""
        if not self._idle:
            self._idle.append(Strand(self, self._work))
            self._strands += self._idle
        strand = self._idle.pop()
        strand.work = work
        self.kernel.ready(strand)

    def _work(self) -> None:
        """Do one work after the other."""
        strand = self.kernel.current
        assert strand
        while True:
            work, strand.work = strand.work, None
            if work:  # else a late result has woken it
                try:
                    self.context.copy().run(work)
                except Exception as error:  # noqa: BLE001 - nobody else hears of it
                    self.unheard.append(f"a thread ended: {error!r}")
                self._idle.append(strand)
            self.kernel.switch()

    def kill(self) -> None:
        self.is_alive = False
        if self.kernel.current and self.kernel.current.process is self:
            self.kernel.switch()  # for ever

    def thaw(self) -> None:
        """Go on after `is_frozen` was set."""
        self.is_frozen = False
        waiting, self.frozen = self.frozen, []
        for strand in waiting:
            strand.is_ready = False
            self.kernel.ready(strand)


class Loop(_EventLoop):  # type: ignore[misc]
    """The event loop of a process."""

    def __init__(self, process: Process) -> None:
        self._process, self._kernel = process, process.kernel
        self._ready: deque[Timer] = deque()
        self._strand = Strand(process, self._serve)

    def _serve(self) -> None:
        kernel, ready = self._kernel, self._ready
        asyncio._set_running_loop(self)
        while True:
            if kernel.shuffles and len(ready) > 1:
                ready.rotate(-int(kernel.chance.random() * len(ready)))
            if ready:
                ready.popleft().run()
            if not ready or not kernel.is_next(self._strand):
                kernel.switch()

    def time(self) -> float:
        return self._kernel.now

    def call_soon(self, callback: Any, *args: Any, context: Context | None = None) -> Timer:
        if context is None:
            is_within = self._kernel.current is not None
            context = copy_context() if is_within else self._process.context.copy()
        handle = Timer(self._kernel.now, partial(context.run, callback, *args))
        self._enqueue(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_at(
        self, when: float, callback: Any, *args: Any, context: Context | None = None
    ) -> Timer:
        handle = Timer(when, partial((context or copy_context()).run, callback, *args))
        self._kernel.at(when, partial(self._enqueue, handle))
        return handle

    def _enqueue(self, handle: Timer) -> None:
        if not handle.is_cancelled:
            self._ready.append(handle)
            if self._kernel.current is not self._strand:
                self._kernel.ready(self._strand)

    def call_later(self, delay: float, callback: Any, *args: Any, **named: Any) -> Timer:
        return self.call_at(self._kernel.now + delay, callback, *args, **named)

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, work: Coroutine[Any, Any, T], **named: Any) -> asyncio.Task[T]:
        return asyncio.Task(work, loop=self, **named)

    def is_running(self) -> bool:
        return self._process.is_alive

    def is_closed(self) -> bool:
        return not self._process.is_alive

    def get_debug(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self._process.is_alive:
            self._process.unheard.append(f"{context['message']} {context.get('exception')!r}")


class Lock:
    """A lock between strands; chance chooses who gets it next."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._is_taken = False
        self._waiting: list[Strand] = []

    def acquire(self, blocking: bool = True) -> bool:  # noqa: FBT001, FBT002 - as `threading`
        kernel, strand = self._kernel, self._kernel.current
        if strand and kernel.chance.random() < YIELDS:
            kernel.ready(strand)
            kernel.switch()
        if self._is_taken and not blocking:
            return False
        while self._is_taken and strand:
            self._waiting.append(strand)
            kernel.switch()
        self._is_taken = True
        return True

    def release(self) -> None:
        self._is_taken = False
        while self._waiting:
            self._kernel.ready(self._waiting.pop())

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class Channel(Generic[T]):
    """Hands things over between strands; one strand at most takes them."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._items: deque[T] = deque()
        self._waiting: Strand | None = None

    def put(self, item: T, /) -> None:
        self._items.append(item)
        if self._waiting:
            self._kernel.ready(self._waiting)

    def get(self) -> T:
        self._waiting = self._kernel.current
        self._kernel.wait(lambda: bool(self._items))
        return self._items.popleft()

    def get_nowait(self) -> T:
        if not self._items:
            raise Empty
        return self._items.popleft()


class Threads:
    """Implements the port ``Threads`` by the strands of a process."""

    def __init__(self, process: Process) -> None:
        self._process, self._kernel = process, process.kernel
        self.begin, self.monotonic = process.begin, process.loop.time
        self.sleep = process.kernel.sleep
        self._awaited: dict[Future[Any], list[Strand]] = {}

    def pool(self, name: str, most: int, *, withdraws: bool = False) -> Pool:
        del name
        return Pool(self._process, most, withdraws=withdraws)

    def on_loop(self, coroutine: Coroutine[Any, Any, T], /) -> T:
        loop = self._process.loop
        if asyncio._get_running_loop() is loop:
            coroutine.close()
            raise RuntimeError("the event loop would wait for itself")
        return self.result(asyncio.run_coroutine_threadsafe(coroutine, loop))

    def result(self, of: Future[T], seconds: float | None = None) -> T:
        kernel = self._kernel
        if not of.done() and (strand := kernel.current):
            if of not in self._awaited:
                of.add_done_callback(self._is_there)
            waiting = self._awaited.setdefault(of, [])
            waiting.append(strand)
            kernel.wait(of.done, None if seconds is None else kernel.now + seconds)
            waiting.remove(strand)
        return of.result(0)

    def _is_there(self, of: Future[Any]) -> None:
        for strand in self._awaited.pop(of):
            self._kernel.ready(strand)

    def lock(self) -> Lock:
        return Lock(self._kernel)

    def channel(self) -> Channel[Any]:
        return Channel(self._kernel)


class Pool:
    """Implements the port ``OffLoop`` by *most* strands."""

    def __init__(self, process: Process, most: int, *, withdraws: bool = False) -> None:
        self._process, self._most, self._withdraws = process, most, withdraws
        self._running = 0
        self._waiting: deque[tuple[asyncio.Future[Any], Callable[[], Any]]] = deque()

    async def __call__(self, call: Callable[[], T], /) -> T:
        made: asyncio.Future[T] = self._process.loop.create_future()
        context = copy_context()
        self._waiting.append((made, lambda: context.run(call)))
        if self._running < self._most:
            self._running += 1
            self._process.begin(self._work)
        return await (made if self._withdraws else asyncio.shield(made))

    def _work(self) -> None:
        while self._waiting:
            made, call = self._waiting.popleft()
            if made.cancelled():
                continue
            try:
                settle, outcome = made.set_result, call()
            except Exception as error:  # noqa: BLE001 - raised where it is awaited
                settle, outcome = made.set_exception, error
            self._process.loop.call_soon(_unless_done, made, settle, outcome)
        self._running -= 1


def _unless_done(made: asyncio.Future[Any], settle: Callable[[Any], object], outcome: Any) -> None:
    if not made.done():
        settle(outcome)
