"""Defines what the comparison knows of a system: what it needs, its versions, how it is started."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from bench.load import Case

IN_FLIGHT = 64  # pushes at a time of a job queue
_START_SECONDS = 60.0
_PATH = ":".join(
    (
        str(Path(sys.executable).parent),  # where set-up puts Node if the machine has none
        "/usr/lib/rabbitmq/bin",  # Debian's scripts in PATH run RabbitMQ as another user
        os.environ.get("PATH", os.defpath),
        "/usr/sbin",
    )
)


class SystemFailedError(Exception):
    """A system did not start; the text is one line."""


class PublishTarget(NamedTuple):
    """Where to publish, the topic's key, and the processes that serve."""

    url: str
    key: str = ""
    processes: Sequence[int] = ()
    database: Sequence[int] = ()  # those of a database, whose memory is a setting of its own


class Need(NamedTuple):
    """A program (a name) or an installed part (a path), and the command that installs it."""

    what: str | Path
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """One of the systems that are compared."""

    name: str
    needs: tuple[Need, ...]
    versions: Callable[[], dict[str, str]]
    # Runs it on storage of its own, subscribed for a case to a sink's URL.
    start: Callable[[Case, str], AbstractContextManager[PublishTarget]]

    def missing(self) -> list[str]:
        """Name what is not installed, each with its remedy."""
        return [
            f"{getattr(need.what, 'name', need.what)} is missing: {need.remedy}"
            for need in self.needs
            if not (need.what.exists() if isinstance(need.what, Path) else program(need.what))
        ]


def program(name: str) -> str | None:
    """Return a program's path."""
    return shutil.which(name, path=_PATH)


def output_of(command: Sequence[str], env: Mapping[str, str] | None = None) -> str:
    """Return what a command prints."""
    environ = os.environ | (env or {})
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout


def free_port() -> int:
    """Return a port of 127.0.0.1 on which nothing listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


@contextmanager
def running(
    command: Sequence[str],
    *,
    port: int | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Iterator[int]:
    """
    Run a program in a process group of its own until the block ends; yield its process.

    It listens on *port*.

    Raises:
        SystemFailedError: it ended, or does not listen.
    """
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command,
            env=os.environ | (env or {}),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            if port and not _listens(process, port):
                output.seek(0)
                lines = output.read().decode(errors="replace").split("\n")
                last = next(filter(None, reversed(lines)), "it printed nothing")
                raise SystemFailedError(f"{Path(command[0]).name} does not start: {last}")
            yield process.pid
        finally:
            with suppress(ProcessLookupError):  # it has ended, and so have its children
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _listens(process: subprocess.Popen[bytes], port: int) -> bool:
    give_up_at = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < give_up_at:
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return True
        time.sleep(0.05)
    return False
