"""The app's timers run in the process that the home has elected."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from server.timers import Timers
from shared.engine.timers.timer_runs import JobsFailed

_OFTEN = {"deadletter": 0.0, "wake": 0.0}


async def at_once(call: Any) -> Any:
    return call()


def test_a_timer_runs_again_whatever_fails_and_only_while_elected():
    home = SimpleNamespace(is_elected=False)
    runs: list[str] = []

    class Scripted:
        def __init__(self, name: str) -> None:
            self.name = name

        def run(self) -> None:
            assert home.is_elected
            runs.append(self.name)
            if self.name == "wake":
                raise (JobsFailed("x") if len(runs) % 2 else ValueError("y"))

    async def test() -> None:
        made = {name: lambda name=name: Scripted(name) for name in _OFTEN}
        timers = Timers(cast("Any", home), cast("Any", made), at_once, _OFTEN)
        timers.begin()
        for _ in range(20):
            await asyncio.sleep(0)
        assert runs == []
        home.is_elected = True
        for _ in range(20):
            await asyncio.sleep(0)
        assert runs.count("wake") > 3
        assert runs.count("deadletter") > 3
        await timers.stop()
        count = len(runs)
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(runs) == count

    asyncio.run(test())
