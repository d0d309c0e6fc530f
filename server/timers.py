"""Runs the app's timers as tasks of the process that the home has elected."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial

from server.home import Home
from shared import telemetry
from shared.engine.ports import OffLoop
from shared.engine.timers.timer_runs import JobsFailed, Timer

#: Seconds from the end of a run to the next.
PERIODS = {"deadletter": 10.0, "wake": 30.0}


class Timers:
    """
    Runs each of *timers* again and again, each on a thread, while this process is elected.

    *timers* are made at their first run: what they consist of is not needed before.
    """

    def __init__(
        self,
        home: Home,
        timers: Mapping[str, Callable[[], Timer]],
        off_loop: OffLoop,
        periods: Mapping[str, float] = PERIODS,
    ) -> None:
        self._home = home
        self._timers = timers
        self._off_loop = off_loop
        self._periods = periods
        self._tasks: list[asyncio.Task[None]] = []

    def begin(self) -> None:
        """Begin the first runs."""
        self._tasks = [
            asyncio.create_task(self._keep(make, self._periods[name]))
            for name, make in self._timers.items()
        ]

    async def stop(self) -> None:
        """Begin no more runs; one that is under way goes on on its thread."""
        for each in self._tasks:
            each.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _keep(self, make: Callable[[], Timer], period: float) -> None:
        while True:
            if self._home.is_elected:
                await self._run(make)
            await asyncio.sleep(period)

    async def _run(self, make: Callable[[], Timer]) -> None:
        try:
            await self._off_loop(partial(_run, make))
        except JobsFailed:
            pass  # Each job has logged why, and runs again.
        except Exception as error:  # noqa: BLE001 - a fault of ours ends no timer
            telemetry.error("timer.failed", detail=f"{type(error).__name__}: {error}")


def _run(make: Callable[[], Timer]) -> None:
    make().run()
