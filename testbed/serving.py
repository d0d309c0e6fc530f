"""Runs `pushgrid serve` in a process, for the benchmarks and the tests."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from devhost.process import RunningHost, running_program
from testbed.arm import ADMIN_KEY
from testbed.places import ServedPlace

_LOCAL = {
    "PUSHGRID_ADMIN_KEY": ADMIN_KEY,
    "PUSHGRID_ALLOW_HTTP": "true",
    "PUSHGRID_ALLOWED_NETWORKS": "127.0.0.0/8",
    "PUSHGRID_LOG_FORMAT": "json",
}
OPTIONS = ("--port", "0")


def server_settings(**changes: str) -> dict[str, str]:
    """Return the settings of a server, overridden by *changes*."""
    return _LOCAL | changes


@contextmanager
def running_server(
    place: ServedPlace, settings: Mapping[str, str], on_line: Callable[[str], None] | None = None
) -> Iterator[RunningHost]:
    """
    Run a server on a *place*; it ends in order at the end of the block.

    Raises:
        HostError: it did not become ready; the message has its last lines.
    """
    command = (sys.executable, "-m", "cli", "serve", *OPTIONS, *place.options)
    with running_program(command, settings, on_line) as server:
        yield server
