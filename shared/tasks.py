"""Begins work on the event loop that outlives what has begun it, and reads the loop's clock."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

from shared import telemetry

T = TypeVar("T")


def loop_time() -> float:
    """Return the seconds of the running loop's clock, which no wall clock moves."""
    return asyncio.get_running_loop().time()


class Tasks:
    """The tasks of one app's engine that belong to no invocation."""

    def __init__(self) -> None:
        # In the order of their beginning; the loop itself refers to them weakly.
        self._under_way: dict[asyncio.Task[Any], None] = {}

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """
        Have work done on the running loop that may outlive the invocation in which it begins.

        It has a context of its own (`telemetry.own_context`).
        """
        loop = asyncio.get_running_loop()
        task = loop.create_task(work, context=telemetry.own_context())
        self._under_way[task] = None
        task.add_done_callback(self._under_way.pop)
        return task

    def leftovers(self) -> Iterator[str]:
        """Yield what has not ended."""
        for each in self._under_way:
            work = each.get_coro()
            yield f"task {getattr(work, '__qualname__', work)}"
