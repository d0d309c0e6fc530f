"""Runs what never waits: without an event loop, and without threads."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def finished(running: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits."""
    try:
        running.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    running.close()
    raise RuntimeError("the coroutine waits")


async def at_once(call: Callable[[], T], /) -> T:
    """Do as the port ``OffLoop``, on the caller's thread."""
    return call()
