"""Work that outlives its invocation: what it knows of it, and what is left."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar

from shared import telemetry
from shared.tasks import Tasks

INVOCATION: ContextVar[str] = ContextVar("invocation", default="none")


def test_a_task_has_nothing_of_its_invocation_but_where_its_lines_go() -> None:
    lines: list[telemetry.LogLine] = []

    async def work() -> str:
        telemetry.info("said")
        return INVOCATION.get()

    async def invocation() -> str:
        INVOCATION.set("one")
        with telemetry.lines_to(lines.append):
            task = Tasks().spawn(work())
        return await task

    assert asyncio.run(invocation()) == "none"
    assert [line.event for line in lines] == ["said"]


def test_what_has_not_ended_is_named_in_the_order_of_its_beginning() -> None:
    async def write(until: asyncio.Event) -> None:
        await until.wait()

    async def read(until: asyncio.Event) -> None:
        await until.wait()

    async def main() -> tuple[list[str], list[str]]:
        tasks, may_end = Tasks(), asyncio.Event()
        begun = [tasks.spawn(work(may_end)) for work in (write, read)]
        left = list(tasks.leftovers())
        may_end.set()
        await asyncio.gather(*begun)
        return left, list(tasks.leftovers())

    left, at_the_end = asyncio.run(main())

    assert [each.rpartition(".")[2] for each in left] == ["write", "read"]
    assert at_the_end == []
