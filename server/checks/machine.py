"""Checks the machine: disk, clock, descriptors and the version of SQLite."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from server.checks.finding import Finding, doubtful, good, refused
from shared.clock import SystemClock
from shared.wiring.process import descriptors

_TRIES = 50
_PAGE = b"\0" * 4096
_SLOW_MS, _IMPOSSIBLE_MS = 20.0, 0.02
_LITTLE, _TOO_LITTLE = 2 << 30, 256 << 20  # bytes
_FEW = 4096  # descriptors
_UNSYNCHRONISED = 5  # TIME_ERROR of adjtimex(2)
_TIMEX = 512  # bytes, more than struct timex has
_DAY = 86_400.0
#: The first releases in which two connections that write or checkpoint can't lose a commit.
_MENDED = ((3, 44, 6), (3, 50, 7), (3, 51, 3))


def check_sync(folder: Path, sync: Callable[[int], object] | None = None) -> Finding:
    """Measure how long the disk takes to keep 4 KiB: a publisher waits for one such sync."""
    what, took = "disk sync", []
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            for _ in range(_TRIES):
                os.pwrite(file.fileno(), _PAGE, 0)
                began = time.perf_counter()
                (sync or _sync)(file.fileno())
                took.append(1000 * (time.perf_counter() - began))
    except OSError as error:
        return refused(what, f"{folder} can't be written to ({error.strerror}): correct that.")
    return judge_sync(what, statistics.median(took), max(took))


def judge_sync(what: str, median: float, longest: float) -> Finding:
    """Judge the times of syncs, in milliseconds."""
    said = f"{median:.2f} ms (median of {_TRIES}; longest {longest:.1f} ms)"
    if median < _IMPOSSIBLE_MS:
        return doubtful(
            what,
            f"{said}: no disk is so fast, so a power failure may lose acknowledged events",
            "Turn off the volatile write cache of the disk, or of the virtual machine's host.",
        )
    if median > _SLOW_MS:
        return doubtful(
            what,
            f"{said}: at most {1000 / median:.0f} commits a second",
            "Use a faster disk, such as an SSD with power-loss protection.",
        )
    return good(what, said)


def check_space(folder: Path) -> Finding:
    """Check how much is free."""
    return judge_space(shutil.disk_usage(folder).free)


def judge_space(free: int) -> Finding:
    """Judge the free bytes."""
    what, said = "free space", f"{free / (1 << 30):.1f} GiB"
    if free < _TOO_LITTLE:
        return refused(what, f"Only {said} are free: free some, or name a folder on another disk.")
    if free < _LITTLE:
        remedy = "Free some, or name a folder on a larger disk: events that wait need room."
        return doubtful(what, said, remedy)
    return good(what, said)


def check_sqlite(version: str) -> Finding:
    """Check the version of the SQLite library for its bug that loses commits."""
    found = tuple(map(int, re.findall(r"\d+", version)[:3]))
    if found >= max(_MENDED) or any(found[:2] == each[:2] and found >= each for each in _MENDED):
        return good("SQLite", version)
    return doubtful(
        "SQLite",
        f"{version}: loses commits if a second program writes to the database or checkpoints it. "
        "The server itself has one writer",
        "Let no other program open the database, or use SQLite 3.51.3 or newer.",
    )


def check_clock(folder: Path, state: Callable[[], int | None] | None = None) -> Finding:
    """Check that the clock is kept right, and is not behind the latest file of *folder*."""
    what, remedy = "clock", "Set the clock, and keep it right with an NTP client such as chrony."
    latest = 0.0
    with suppress(OSError):  # what is wrong with the folder is another finding
        latest = max((each.stat().st_mtime for each in folder.iterdir()), default=latest)
    behind = latest - SystemClock().now().timestamp()
    if behind > _DAY:
        said = f"{behind / _DAY:.0f} days behind the latest file in {folder}"
        return doubtful(what, said, remedy)
    if (state or _kernel_clock)() == _UNSYNCHRONISED:
        return doubtful(what, "nothing keeps it right, says the kernel", remedy)
    return good(what, "in order")


def check_descriptors() -> Finding:
    """Check how many files and connections the process may have."""
    count = descriptors()
    if count < _FEW:
        remedy = "Raise the limit: LimitNOFILE=16384 (systemd), ulimits (Compose), ulimit -n."
        return doubtful("descriptors", f"{count}: few connections at a time", remedy)
    return good("descriptors", str(count))


def _kernel_clock() -> int | None:
    """Return the state of the kernel's clock; ``None``: it can't be asked. Source: adjtimex(2)."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        return int(ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(_TIMEX)))
    except (AttributeError, OSError):
        return None


def _sync(descriptor: int) -> None:
    """Have the disk itself keep it: on macOS a plain sync stops at the drive's cache."""
    if sys.platform == "darwin":
        import fcntl

        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fdatasync(descriptor)
