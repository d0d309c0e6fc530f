"""What is begun on a thread or on the loop logs where its caller does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from threading import Event

import pytest

from pushgrid.testing.memory import DrivenLoop, DrivenThreads, FakeClock
from shared import telemetry
from shared.adapters.threads import SystemThreads
from shared.engine.ports import Threads

PATIENCE = 60  # seconds after which a test that hangs fails
INVOCATION: ContextVar[str] = ContextVar("invocation", default="none")


def driven() -> DrivenThreads:
    return DrivenThreads(DrivenLoop(FakeClock()))


@pytest.fixture(params=[SystemThreads, driven], ids=["of the system", "driven"])
def threads(request: pytest.FixtureRequest) -> Threads:
    made: Threads = request.param()
    return made


def begin(threads: Threads) -> str:
    ended, found = Event(), []

    def work() -> None:
        found.append(INVOCATION.get())
        telemetry.info("said")
        ended.set()

    threads.begin(work)
    assert ended.wait(PATIENCE)
    return found[0]


def on_loop(threads: Threads) -> str:
    async def work() -> str:
        telemetry.info("said")
        return INVOCATION.get()

    return threads.on_loop(work())


def in_a_pool(threads: Threads) -> str:
    def work() -> str:
        telemetry.info("said")
        return INVOCATION.get()

    async def call() -> str:
        INVOCATION.set("of the task")
        return await threads.pool("test", 1)(work)

    return threads.on_loop(call())


@pytest.mark.parametrize(
    ("way", "invocation"), [(begin, "none"), (on_loop, "one"), (in_a_pool, "of the task")]
)
def test_a_line_goes_where_those_of_the_caller_go(
    threads: Threads, way: Callable[[Threads], str], invocation: str
) -> None:
    lines: list[telemetry.LogLine] = []
    token = INVOCATION.set("one")

    with telemetry.lines_to(lines.append):
        found = way(threads)
    telemetry.info("said to nobody of ours")
    INVOCATION.reset(token)

    assert [line.event for line in lines] == ["said"]
    assert found == invocation


def test_a_line_is_clipped_for_whoever_gets_it() -> None:
    lines: list[telemetry.LogLine] = []

    async def say() -> None:
        telemetry.warning("said", detail="x" * 100_000, missing=None)

    with telemetry.lines_to(lines.append):
        asyncio.run(say())

    (line,) = lines
    assert line.json.startswith('{"event":"said","detail":"xxx')
    assert len(line.json) < 5000
    assert "missing" not in line.json
