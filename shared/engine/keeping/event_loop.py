"""Reads the clock of the event loop."""

from __future__ import annotations

import asyncio


def loop_time() -> float:
    """Return the seconds of the running loop's clock, which no wall clock moves."""
    return asyncio.get_running_loop().time()
