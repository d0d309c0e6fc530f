"""Runs the local host in a process, for `pushgrid dev`, the demo, the benchmark and the tests."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from devhost.errors import HostError

_ROOT = Path(__file__).parents[1]
_START_SECONDS = 120.0
_DRAIN_SECONDS = 40.0
_KEPT_LINES = 20_000
_LAST_WORDS = "devhost: "  # how the host begins the line that says why it ends


@dataclass(slots=True, kw_only=True)
class RunningHost:
    """A running host."""

    process: subprocess.Popen[str]
    url: str = ""
    blob_url: str = ""  # the blob service, for programs whose changes the app gets
    # What clients need in their environment if the URL is https.
    variables: dict[str, str] = field(default_factory=dict)
    # The last 20,000 of its output, oldest first.
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=_KEPT_LINES))

    def kill(self) -> None:
        """End it as a crash would."""
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def running_host(
    settings: Mapping[str, str],
    *,
    options: Sequence[str] = (),
    root: Path = _ROOT,
    on_line: Callable[[str], None] | None = None,
    program: Sequence[str] = (sys.executable, "-m", "devhost", "--end-with-stdin"),
) -> Iterator[RunningHost]:
    """
    Run *program*, the local host, with *settings*; it is drained at the end of the block.

    The local host also ends if this process is killed.

    Raises:
        HostError: as `running_program`.
    """
    port = () if "--port" in options else ("--port", "0")
    command = [*program, "--root", str(root), *port, *options]
    for name in settings:  # without the values: anybody on the machine can read a command line
        command += ["--env", name]
    with running_program(command, settings, on_line) as host:
        yield host


@contextlib.contextmanager
def running_program(
    command: Sequence[str],
    settings: Mapping[str, str],
    on_line: Callable[[str], None] | None = None,
) -> Iterator[RunningHost]:
    """
    Run a program that prints ``ready URL``, with *settings* in its environment.

    It gets SIGINT at the end of the block.

    Raises:
        HostError: it did not become ready; the message says why, or has its last lines.
    """
    process = subprocess.Popen(
        command,
        cwd=_ROOT,
        env={**os.environ, "PYTHONUNBUFFERED": "1", **settings},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # Ctrl-C in a terminal reaches this process, which stops the host
    )
    host = RunningHost(process=process)
    ready = threading.Event()
    reader = threading.Thread(target=_read, args=(host, ready, on_line), daemon=True)
    reader.start()
    try:
        if not ready.wait(_START_SECONDS) or not host.url:
            raise HostError(_why_not(list(host.lines)))
        yield host
    finally:
        _stop(process)
        reader.join()
        for pipe in (process.stdin, process.stdout):
            if pipe:
                pipe.close()


def _why_not(lines: Sequence[str]) -> str:
    if lines and lines[-1].startswith(_LAST_WORDS):
        return lines[-1].removeprefix(_LAST_WORDS)
    return "the host did not start:\n" + "\n".join(lines[-20:])


def _read(host: RunningHost, ready: threading.Event, on_line: Callable[[str], None] | None) -> None:
    for raw in host.process.stdout or ():
        line = raw.rstrip("\n")
        host.lines.append(line)
        if line.startswith("export "):
            name, _, value = shlex.split(line)[1].partition("=")
            host.variables[name] = value
        if line.startswith("blobs "):
            host.blob_url = line.split()[1]
        if line.startswith("ready "):
            host.url = line.split()[1]
            ready.set()
        if on_line:
            on_line(line)
    ready.set()


def _stop(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    try:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_DRAIN_SECONDS)
    finally:  # also at a second Ctrl-C
        if process.poll() is None:
            process.kill()
            process.wait()
