"""Runs `pushgrid serve` in a process, for the benchmarks and the tests."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from devhost.process import RunningHost, running_program
from testbed.arm import ADMIN_KEY

_LOCAL = {
    "PUSHGRID_ADMIN_KEY": ADMIN_KEY,
    "PUSHGRID_ALLOW_HTTP": "true",
    "PUSHGRID_ALLOWED_NETWORKS": "127.0.0.0/8",
    "PUSHGRID_LOG_FORMAT": "json",
}
#: A test's folder may be in memory, and the port is any free one.
OPTIONS = ("--unsafe-folder", "--port", "0")


def server_settings(**changes: str) -> dict[str, str]:
    """Return the settings of a server, overridden by *changes*."""
    return _LOCAL | changes


@contextmanager
def running_server(
    data: Path, settings: Mapping[str, str], on_line: Callable[[str], None] | None = None
) -> Iterator[RunningHost]:
    """
    Run a server on the folder *data*; it ends in order at the end of the block.

    Raises:
        HostError: it did not become ready; the message has its last lines.
    """
    command = (sys.executable, "-m", "cli", "serve", *OPTIONS, "--data", str(data))
    with running_program(command, settings, on_line) as server:
        yield server
