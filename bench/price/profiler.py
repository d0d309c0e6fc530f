"""Samples who holds the interpreter's lock in a process, and sums the samples by room."""

from __future__ import annotations

import signal
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# A sample is of the first room of which a file is on its stack. Files are named from their package.
ROOMS = {
    "sending": ("devhost/http/response.py",),
    "storing": ("shared/adapters/group_commit.py", "shared/adapters/storage/"),
    "function": ("publish_function/",),
    "delivering": (
        "deliver_function/",
        "retry_function/",
        "shared/engine/delivering/",
        "shared/adapters/http/",
    ),
    "queue listener": ("devhost/queue/", "devhost/triggers.py"),
    "invocation": ("devhost/functions/",),
    "server": ("devhost/http/", "uvicorn/"),
}
ANSWERING = ("function", "invocation", "sending", "server")
_REST = "rest"
_COLUMNS = (*ANSWERING, "storing", "delivering", "queue listener", _REST)
_A_SECOND = 200
_BEGINS = "Sampling process"
_ENDS_WITHIN = 30.0


class ProfilerError(Exception):
    """The profiler is missing, or may not attach; the text is one line."""


@contextmanager
def sampled(profiler: Path, pid: int) -> Iterator[dict[str, float]]:
    """
    Sample a process and its children; the yielded shares are filled in when the block ends.

    Raises:
        ProfilerError: the profiler is missing, may not attach, or has found nothing.
    """
    if not profiler.exists():
        raise ProfilerError(f"{profiler.name} is missing: make bench OF=price")
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        raw = Path(folder) / "raw"
        command = [str(profiler), "record", "--pid", str(pid), "--subprocesses", "--gil"]
        command += ["--rate", str(_A_SECOND), "--format", "raw", "--output", str(raw)]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            try:
                _await_beginning(process, profiler.name)
                yield found
                process.send_signal(signal.SIGINT)  # it writes what it has found
                with suppress(subprocess.TimeoutExpired):
                    process.communicate(timeout=_ENDS_WITHIN)
            finally:
                process.kill()
        found.update(shares(raw.read_text() if raw.exists() else ""))


def _await_beginning(process: subprocess.Popen[str], name: str) -> None:
    last = "it printed nothing"
    for line in process.stdout or ():
        if _BEGINS in line:
            return
        last = line.strip() or last
    raise ProfilerError(f"{name} may not attach: {last}")


def shares(raw: str) -> dict[str, float]:
    """
    Return the percentage of each room of *raw*, whose lines are a stack, root first, and a count.

    Raises:
        ProfilerError: there is no sample.
    """
    counts: Counter[str] = Counter()
    for line in raw.splitlines():
        stack, _, count = line.rpartition(" ")
        counts[_room(stack)] += int(count)
    total = counts.total()
    if not total:
        raise ProfilerError("there is no sample")
    of = {room: counts[room] * 100 / total for room in _COLUMNS}
    told = {"answering": sum(of[room] for room in ANSWERING)} | of
    return {f"{room} %": share for room, share in told.items()} | {"samples": total}


def _room(stack: str) -> str:
    named = (room for room, files in ROOMS.items() if any(f" ({file}" in stack for file in files))
    return next(named, _REST)
