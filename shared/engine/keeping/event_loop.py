"""Reads the clock of the event loop, and begins work on it that outlives its invocation."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Coroutine
from typing import Any

_TASKS: set[asyncio.Task[None]] = set()  # the loop itself refers to them weakly


def loop_time() -> float:
    """Return the seconds of the running loop's clock, which no wall clock moves."""
    return asyncio.get_running_loop().time()


def spawn(work: Coroutine[Any, Any, None]) -> None:
    """
    Have work done that may outlive the invocation in which it begins.

    It has a context of its own: the host drops log lines of an invocation that has ended.
    """
    task = asyncio.get_running_loop().create_task(work, context=contextvars.Context())
    _TASKS.add(task)
    task.add_done_callback(_TASKS.discard)
