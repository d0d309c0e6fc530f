"""Measures how long the disk of the temporary folder takes to sync, and makes it slower."""

from __future__ import annotations

import os
import statistics
import tempfile
import time

_TRIES = 50
_PAGE = bytes(4096)


def sync_ms() -> float:
    """Return the median of the milliseconds that 4 KiB take, written to a place that exists."""
    took = []
    with tempfile.TemporaryFile() as file:
        for _ in range(_TRIES):
            os.pwrite(file.fileno(), _PAGE, 0)
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            took.append(time.perf_counter() - began)
    return statistics.median(took) * 1000
