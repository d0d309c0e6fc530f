"""Composes the app on ports in memory, on an event loop whose time a test moves."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NoReturn

from pushgrid.testing.memory import (
    Counted,
    DrivenLoop,
    DrivenThreads,
    FakeClock,
    MemoryStore,
    SeededChance,
    off_loop,
)
from shared.app import App
from shared.engine.delivering.deliver import Deliver
from shared.engine.delivering.endpoints import Endpoints
from shared.engine.delivering.in_hand import Attempted, PushRequest, Shortage
from shared.engine.delivering.scheduler import PUSHES
from shared.engine.ports import Pusher, Queue, ReserveConnection
from shared.settings import Settings
from shared.watched_clock import WatchedClock

ACCOUNT = MemoryStore.account


class MemoryOutbound:
    """Outbound by *pusher*, without connections."""

    most = PUSHES
    app_addresses: frozenset[tuple[str, int]] = frozenset()
    tracing = None

    def __init__(self, pusher: Pusher) -> None:
        self.pusher = pusher
        self.free: ReserveConnection = lambda _url, _again: True

    def reserve_connection(self, url: str, again: Callable[[], None], /) -> bool:
        return self.free(url, again)

    def tokens(self, _audiences: object) -> NoReturn:
        raise AssertionError("the settings of a test accept no tokens")

    def stop(self) -> None:
        pass


class InMemoryApp(App):
    """
    The app in a test's thread, perhaps on what another has *stored*.

    *process* names it where several share *stored*. *settings* are those of `Settings` that matter.
    """

    admin_key = "the-test-s-admin-key"
    reader_key = "the-test-s-reader-key"
    health_kept = status_kept = 0.0  # a test sees at once what it does

    def __init__(
        self,
        pusher: Pusher,
        clock: FakeClock,
        stored: MemoryStore | None = None,
        process: str = "",
        **settings: Any,
    ) -> None:
        self.pusher = pusher
        self.clock = clock
        self.loop = DrivenLoop(clock)
        self.watched = WatchedClock(clock.now, clock.monotonic)
        self.slept: list[float] = []
        self._spans = itertools.count(1)
        self.store: MemoryStore = (stored or MemoryStore(clock, off_loop)).of(process)
        self.outbound: MemoryOutbound = MemoryOutbound(pusher)
        self.chance = SeededChance(f"{process}{next(self.store.numbers)}")
        self.resources, self.queues = self.store.documents, self.store.queues
        self.payloads, self.dead_letters = self.store.payloads, self.store.dead_letters
        self.attempts, self.counts = self.store.attempts, self.store.counts
        for port in (self.queues, self.resources, self.dead_letters):
            port.answered = lambda: self.watched.storage_answered(None, 0.0)  # without a time
        super().__init__(
            settings=Settings(
                storage={},
                wake_schedule="0 * * * * *",
                deadletter_schedule="0 */5 * * * *",
                admin_key=self.admin_key,
                reader_key=self.reader_key,
                **settings,
            ),
            store=lambda: self.store,
            outbound=lambda: self.outbound,
            clock=self.watched,
            threads=DrivenThreads(self.loop),
            chance=self.chance,
        )
        self.metrics: Counted = Counted()
        self.requeue = replace(self.requeue, sleep=self._sleep)

    def work(self, text: str, queue: Queue = Queue.DELIVERIES, by: Deliver | None = None) -> None:
        """Deliver a message to the end, and finish what it leaves to be done at once."""
        self.loop.run((by or self.deliver).run(text.encode(), queue))
        self.loop.settle()

    def _endpoints(self) -> Endpoints:
        endpoints = super()._endpoints()
        number = next(self.store.numbers)  # in the order of their beginning
        endpoints.scheduler.processes.name = f"p{number}"
        return endpoints

    def _new_span_id(self) -> str:
        return f"{next(self._spans):016x}"

    def _pushing(self) -> Any:
        async def push(request: PushRequest) -> Attempted | Shortage:
            return await self.push(request)  # the one that the test has chosen by now

        return push

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(seconds)
