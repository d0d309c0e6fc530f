"""Measures the syncs of a disk, counts those of a server, and makes them slower."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_SOURCE = Path(__file__).with_name("slow_syncs.c")
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


def compiler() -> str | None:
    """Return the C compiler, without which syncs are neither counted nor made slower."""
    return shutil.which("cc")


@dataclass(frozen=True, slots=True)
class Syncs:
    """What counts the syncs of a process that has *environ*."""

    environ: Mapping[str, str]
    _file: Path

    @property
    def count(self) -> int:
        return int.from_bytes(self._file.read_bytes(), "little")


@contextmanager
def counted_syncs(slower_by_ms: int = 0) -> Iterator[Syncs]:
    """
    Compile what counts the syncs of a process, and makes each take longer.

    Raises:
        RuntimeError: there is no compiler.
    """
    if (cc := compiler()) is None:
        raise RuntimeError("no C compiler is installed (cc)")
    with tempfile.TemporaryDirectory() as folder:
        library, count = Path(folder) / "slow_syncs.so", Path(folder) / "count"
        command = [cc, "-shared", "-fPIC", "-O1", "-o", str(library), str(_SOURCE), "-ldl"]
        subprocess.run(command, check=True)
        environ = {"LD_PRELOAD": str(library), "SYNCS": str(count), "SYNC_MS": str(slower_by_ms)}
        yield Syncs(environ, count)
