"""Delivers what a home hands over, and does what the app and the home do by themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from server.deliveries import Deliveries
from server.home import Home
from server.own_work import OwnWork, timers_of
from shared import telemetry
from shared.app import App, BackgroundWork
from shared.engine.ports import Queue, Threads
from shared.engine.ports.leases import Lease
from shared.subscriptions.subscription import SubscriptionKey

HANDING_SECONDS = 1.0  # at the end, for messages that others can have
DELIVERING_SECONDS = 20.0  # at the end, for messages under way
STORING_SECONDS = 5.0  # and for what is in memory


class Worker:
    """
    Works on *home* with *app*, on its event loop, and on *threads* for what blocks.

    *also* is done in each process, beside the app's own; *as_here* says how work is done here.
    """

    def __init__(
        self,
        app: App,
        home: Home,
        threads: Threads,
        *,
        also: Sequence[BackgroundWork] = (),
        as_here: Callable[[BackgroundWork], BackgroundWork] = lambda each: each,
    ) -> None:
        self._app, self._home, self._threads = app, home, threads
        self._also, self._as_here = also, as_here
        self._deliveries: Deliveries  # once it is open
        self._own_work: OwnWork

    async def open(self) -> None:
        """Open the home, and prepare all work. Raises InvalidSettings: it can't be used."""
        app, home = self._app, self._home
        await home.open(self._give_up, self._has_share)
        self._deliveries = Deliveries(home.leases, self.deliver, app.store.traits.most_in_hand)
        self._own_work = OwnWork(
            home,
            self._threads,
            everywhere=map(self._as_here, [*app.background, *self._also]),
            elected=map(self._as_here, [*timers_of(app), *home.background]),
        )

    @property
    def under_way(self) -> int:
        """How many messages are being delivered."""
        return self._deliveries.under_way

    def begin(self) -> None:
        """Begin to take messages, and all other work."""
        self._deliveries.begin()
        self._own_work.begin()

    async def deliver(self, lease: Lease) -> None:
        """Deliver a message in hand, which the home settles."""
        settling = self._home.settling(lease, self._app.metrics)
        await self._app.deliver.run(lease.body, lease.queue, settling)

    async def finish(self) -> int:
        """Begin nothing more, and finish what is under way; return how many messages are left."""
        await self._deliveries.stop_taking()
        await _within(HANDING_SECONDS, self._home.leases.hand_back())
        await self._own_work.stop()
        self._app.stop()
        return await self._deliveries.finish(DELIVERING_SECONDS)

    async def store(self) -> None:
        """Store what is in memory: nothing follows any more."""
        await _within(STORING_SECONDS, self._app.end())

    async def close(self) -> None:
        """Let go of the home."""
        await _within(STORING_SECONDS, self._home.close())

    def _give_up(self, queue: Queue, body: str, reason: str) -> None:
        self._app.intake.give_up(queue, body, reason)

    def _has_share(self, key: SubscriptionKey) -> bool:
        return self._app.deliver.endpoints.has_share(key)


async def _within(seconds: float, work: Awaitable[object]) -> None:
    """Wait for the last *work*; what fails in it, or takes longer, ends no other."""
    try:
        async with asyncio.timeout(seconds):
            await work
    except Exception as error:  # noqa: BLE001 - the process ends
        fault = f"{type(error).__name__}: {error}"
        telemetry.error("server.unfinished", detail=fault)
