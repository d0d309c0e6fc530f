"""Runs an app as Azure's host does: queue triggers by host.json, and timers, which may overlap."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random

from pushgrid.testing.memory import MemoryStore
from shared.app import App
from shared.engine.ports import Queue, Received
from shared.engine.timers.timer_runs import JobsFailed
from shared.errors import StorageUnavailable
from tests.simulation.kernel import Pool, Process, StorageClock, Threads, Timer

INVISIBILITY = timedelta(minutes=10)
RENEWED_AFTER = 300.0  # seconds
STEPS = (0.8, 1.6, 3.2, 6.4, 12.8)  # seconds between the tries of one step
POISON = {Queue.DELIVERIES: Queue.DELIVERIES_POISON, Queue.RETRIES: Queue.RETRIES_POISON}
_OPTIONS = json.loads((Path(__file__).parents[2] / "host.json").read_text())["extensions"]["queues"]
_HOURS, _MINUTES, _SECONDS = map(int, _OPTIONS["visibilityTimeout"].split(":"))
AGAIN_IN = timedelta(hours=_HOURS, minutes=_MINUTES, seconds=_SECONDS)
MOST_DEQUEUES: int = _OPTIONS["maxDequeueCount"]
POLLS = float(_OPTIONS["maxPollingInterval"].rpartition(":")[2])  # seconds
WAKE, DEADLETTER = "wake", "deadletter"
PERIODS = {WAKE: 60.0, DEADLETTER: 300.0}  # seconds


class FunctionsHost:
    """Runs an app as Azure Functions does, on the *store* as its process sees it."""

    def __init__(
        self,
        app: App,
        process: Process,
        store: MemoryStore,
        clock: StorageClock,
        chance: Random,
        *,
        rests: int,  # times as long as an app does, between two rounds of its background work
    ) -> None:
        self._app, self._process, self._store = app, process, store
        self._clock, self._chance, self._rests = clock, chance, rests
        self.open = 0  # invocations
        self._off_loop = Pool(process, most=1_000_000)
        self._polls: dict[Queue, Timer] = {}
        self._polling: set[Queue] = set()
        self._running: set[str] = set()

    def begin(self) -> None:
        for work in self._app.background:
            rarer = work._replace(period=work.period * self._rests)
            self._process.begin(partial(rarer.run, Threads(self._process).sleep))
        for queue in POISON:
            self._poll_at(queue, self._clock.now())

    def put(self, queue: Queue, visible_at: datetime) -> None:
        """Learn that a message becomes visible."""
        if queue in POISON and self._process.is_alive:
            self._poll_at(queue, visible_at)

    def fire(self, timer: str) -> None:
        """Run a timer's jobs, unless they are running."""
        if timer not in self._running and self._process.is_alive:
            self._running.add(timer)
            self.open += 1
            self._process.begin(partial(self._run, timer))

    def _run(self, timer: str) -> None:
        try:
            (self._app.wake_timer if timer == WAKE else self._app.deadletter_timer).run()
        except JobsFailed:
            pass  # The next run does what is left.
        finally:
            self._running.discard(timer)
            self.open -= 1

    def _poll_at(self, queue: Queue, visible_at: datetime) -> None:
        """Poll within the polling interval after a message becomes visible, if not before."""
        kernel = self._process.kernel
        wait = max((visible_at - self._clock.now()).total_seconds(), 0.0)
        when = kernel.now + wait + self._chance.random() * POLLS
        planned = self._polls.get(queue)
        if queue in self._polling or (planned and planned.when() <= when):
            return
        if planned:
            planned.cancel()
        self._polls[queue] = kernel.at(when, partial(self._begin_poll, queue))

    def _begin_poll(self, queue: Queue) -> None:
        del self._polls[queue]
        self._polling.add(queue)
        loop = self._process.loop
        loop.call_soon(lambda: loop.create_task(self._poll(queue)))

    async def _poll(self, queue: Queue) -> None:
        try:
            received = await self._off_loop(
                partial(self._store.queues.receive, queue, INVISIBILITY)
            )
        except StorageUnavailable:
            received = ()
            await asyncio.sleep(POLLS)
        for message in received:
            self._process.loop.create_task(self._handle(queue, message))
        self._polling.discard(queue)
        if found := self._store.queues.earliest(queue):
            self._poll_at(queue, found[1].visible_at)

    async def _handle(self, queue: Queue, message: Received) -> None:
        lease = _Lease(self._store, self._off_loop, queue, message)
        self.open += 1
        try:
            if message.count > MOST_DEQUEUES:
                await self._move_to_poison(queue, lease)
            elif await self._succeeds(queue, lease):
                await _retried(lease.delete)
            elif message.count == MOST_DEQUEUES:
                await self._move_to_poison(queue, lease)
            else:
                await _retried(partial(lease.hide, AGAIN_IN))
        except StorageUnavailable:
            pass  # It comes again.
        finally:
            self.open -= 1

    async def _succeeds(self, queue: Queue, lease: _Lease) -> bool:
        lease.renew_after(RENEWED_AFTER)
        try:
            await self._app.deliver.run(lease.message.text.encode(), queue)
        except Exception:  # noqa: BLE001 - an invocation that fails
            return False
        finally:
            await lease.end()
        return True

    async def _move_to_poison(self, queue: Queue, lease: _Lease) -> None:
        await _retried(partial(self._store.sender.put, POISON[queue], lease.message.text))
        await _retried(lease.delete)


class _Lease:
    """The claim to a message, renewed at half of its time."""

    def __init__(self, store: MemoryStore, off_loop: Pool, queue: Queue, message: Received) -> None:
        self._queues, self._off_loop, self._queue = store.queues, off_loop, queue
        self.message = message
        self._renewal: asyncio.Task[None] | None = None
        self._has_ended = False

    def renew_after(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()

        def begin() -> None:
            self._renewal = loop.create_task(self._renew())

        self._timer = loop.call_later(seconds, begin)

    async def end(self) -> None:
        self._has_ended = True
        self._timer.cancel()
        if self._renewal:
            await asyncio.wait([self._renewal])

    async def _renew(self) -> None:
        delay = RENEWED_AFTER
        try:
            await self.hide(INVISIBILITY)
        except StorageUnavailable:
            delay /= 4
        if not self._has_ended:
            self.renew_after(delay)

    async def delete(self) -> None:
        await self._off_loop(partial(self._queues.delete, self._queue, self.message))

    async def hide(self, wait: timedelta) -> None:
        """Hide it for so long from now on, unless another has received it."""
        text, receipt, count = self.message.text, self.message.receipt, self.message.count
        replace = partial(self._queues.replace, self._queue, receipt, text, wait)
        if renewed := await self._off_loop(replace):
            self.message = Received(text=text, receipt=renewed, count=count)


async def _retried(step: Callable[[], Awaitable[object]]) -> None:
    """Try a step as the host does. Raises StorageUnavailable."""
    for delay in STEPS:
        try:
            await step()
        except StorageUnavailable:
            await asyncio.sleep(delay)
        else:
            return
    await step()
