"""What the app does by itself goes on whatever fails, and timers only where they are elected."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

from server.own_work import OwnWork, timers_of
from shared.app import BackgroundWork
from shared.engine.timers.timer_runs import JobsFailed

_AT_ONCE = timedelta()


async def at_once(call: Any) -> Any:
    return call()


THREADS: Any = SimpleNamespace(pool=lambda *_: at_once)


async def turns() -> None:
    """Let everything have many turns."""
    for _ in range(50):
        await asyncio.sleep(0)


def test_work_goes_on_until_it_is_done_and_timers_while_elected():
    home: Any = SimpleNamespace(is_elected=False)
    runs: list[str] = []

    def call(name: str) -> bool:
        runs.append(name)
        if name == "failing":
            raise ValueError
        return name == "once"

    async def test() -> None:
        works = {
            name: BackgroundWork(name, _AT_ONCE, partial(call, name))
            for name in ("once", "failing", "timer")
        }
        timer = works.pop("timer")
        own = OwnWork(home, THREADS, everywhere=works.values(), elected=[timer])
        own.begin()
        await turns()
        assert runs.count("once") == 1
        assert runs.count("failing") > 3
        assert "timer" not in runs
        home.is_elected = True
        await turns()
        assert runs.count("timer") > 3
        await own.stop()
        count = len(runs)
        await turns()
        assert len(runs) == count

    asyncio.run(test())


class _Timer:
    def run(self) -> None:
        raise JobsFailed


def test_the_wake_timer_runs_only_where_messages_can_not_hide_for_ever():
    def names(hiding: object) -> list[str]:
        traits = SimpleNamespace(hiding=hiding)
        app = SimpleNamespace(
            store=SimpleNamespace(traits=traits), deadletter_timer=_Timer(), wake_timer=_Timer()
        )
        works = timers_of(cast("Any", app))
        assert [each.call() for each in works] == [False] * len(works)
        return [each.name for each in works]

    assert names(None) == ["deadletter_timer"]
    assert names("ten minutes") == ["deadletter_timer", "wake_timer"]
