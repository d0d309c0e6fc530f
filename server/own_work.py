"""Does what the app does by itself: its background work, and its timers where they are elected."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
from functools import partial

from server.home import Home
from shared import telemetry
from shared.app import App, BackgroundWork
from shared.engine.ports import Threads
from shared.engine.timers.timer_runs import JobsFailed
from shared.wiring import process

#: From the end of a timer's run to the next.
TIMERS_EVERY = timedelta(seconds=10)
_MEMORY_EVERY = timedelta(seconds=5)


class OwnWork:
    """
    Does *everywhere* in each process, and *elected* in the one that *home* has elected.

    Each piece has a thread of its own: one that hangs keeps no other waiting.
    """

    def __init__(
        self,
        home: Home,
        threads: Threads,
        *,
        everywhere: Iterable[BackgroundWork],
        elected: Iterable[BackgroundWork],
    ) -> None:
        self._home = home
        self._threads = threads
        self._everywhere = everywhere
        self._elected = elected
        self._tasks: list[asyncio.Task[None]] = []

    def begin(self) -> None:
        """Begin all of it."""
        self._tasks = [
            *(asyncio.create_task(self._keep(each)) for each in self._everywhere),
            *(asyncio.create_task(self._keep(each, is_elected=True)) for each in self._elected),
        ]

    async def stop(self) -> None:
        """Begin nothing more; what is under way goes on on its thread."""
        for each in self._tasks:
            each.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _keep(self, work: BackgroundWork, *, is_elected: bool = False) -> None:
        off_loop = self._threads.pool(work.name, 1)
        is_done = False
        while not is_done:
            if not is_elected or self._home.is_elected:
                try:
                    is_done = await off_loop(work.call)
                except Exception as error:  # noqa: BLE001 - a fault of ours ends no work
                    fault = f"{type(error).__name__}: {error}"
                    telemetry.error("work.failed", work=work.name, detail=fault)
            await asyncio.sleep(work.period.total_seconds())


def timers_of(app: App) -> list[BackgroundWork]:
    """Return the timers of *app*: the wake timer only where messages can't hide for ever."""
    names = ["deadletter_timer"]
    if app.store.traits.hiding is not None:
        names.append("wake_timer")

    return [BackgroundWork(each, TIMERS_EVERY, partial(_run, app, each)) for each in names]


def _return_memory() -> bool:
    process.return_memory()
    return False


#: What each process does for its machine.
RETURN_MEMORY = BackgroundWork("memory", _MEMORY_EVERY, _return_memory)


def _run(app: App, timer: str) -> bool:
    with suppress(JobsFailed):  # Each job has logged why, and runs again.
        getattr(app, timer).run()
    return False
