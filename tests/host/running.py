"""Starts the host that HOST_CMD names on an app and ends it."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tests.host.app import App

_CHECKOUT = Path(__file__).parents[2]
COMMAND = os.environ.get("HOST_CMD", "")
#: Whether the local host is tested, which has options of its own.
IS_DEVHOST = not COMMAND
#: Seconds that end a hung test; none of them decides whether a test passes.
#: Another host may download its parts when it starts for the first time.
_START_SECONDS = 120.0 if IS_DEVHOST else 300.0
PATIENCE = 120.0


@dataclass(frozen=True, slots=True)
class Answer:
    """A response."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key.lower() == name.lower()]


@dataclass(slots=True)
class Host:
    """A running host on an app."""

    app: App
    port: int
    process: subprocess.Popen[bytes]
    output: IO[bytes]

    def calls(self, function: str, moment: str = "start") -> list[dict[str, Any]]:
        """Return the recorded calls of *function*, oldest first."""
        if not self.app.records.exists():
            return []
        # The last line may be half written.
        lines = self.app.records.read_bytes().split(b"\n")[:-1]
        return [
            call
            for call in map(json.loads, lines)
            if call["function"] == function and call["moment"] == moment
        ]

    def wait_calls(
        self, function: str, count: int = 1, moment: str = "start", seconds: float = PATIENCE
    ) -> list[dict[str, Any]]:
        """Wait until *function* has been called *count* times."""
        until(lambda: len(self.calls(function, moment)) >= count, seconds)
        return self.calls(function, moment)

    def most_at_once(self, function: str) -> int:
        """Return the largest number of calls of *function* that overlapped."""
        steps = [(call["at"], 1) for call in self.calls(function)]
        steps += [(call["at"], -1) for call in self.calls(function, "end")]
        return max(itertools.accumulate(step for _, step in sorted(steps)))

    def request(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Send one request on a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        with contextlib.closing(connection):
            chunked = body is not None and not isinstance(body, bytes)
            connection.request(method, path, body, dict(headers or {}), encode_chunked=chunked)
            answer = connection.getresponse()
            return Answer(answer.status, answer.getheaders(), answer.read())

    def is_listening(self) -> bool:
        """Return whether it accepts connections."""
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", self.port)) == 0

    def signal(self, number: int) -> None:
        """Send a signal to the host."""
        self.process.send_signal(number)

    def kill(self) -> None:
        """End it as a crash would."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def end(self) -> int:
        """Wait until it has ended and return its exit code."""
        return self.process.wait(PATIENCE)

    def said(self) -> str:
        """Return all its output."""
        self.output.seek(0)
        return self.output.read().decode(errors="replace")


def until(condition: Any, seconds: float = PATIENCE) -> Any:
    """Wait until *condition* returns something true, and return that."""
    deadline = time.monotonic() + seconds
    while not (truth := condition()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)
    return truth


@contextlib.contextmanager
def running(
    app: App,
    settings: Mapping[str, str],
    *,
    invisibility: float | None = None,
) -> Iterator[Host]:
    """
    Run the host on *app* until the block ends.

    *invisibility* is how many seconds a received message is hidden, which only the local host can
    change. On another host it is ten minutes, and the test waits for them.
    """
    port = _free_port()
    command = _command(COMMAND, app.root, port)
    if invisibility is not None and IS_DEVHOST:
        command += ["--invisibility", f"{invisibility:g}"]
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command,
            cwd=_CHECKOUT,
            env=_environment() | {"PROBE_RECORDS": str(app.records)} | dict(settings),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        host = Host(app, port, process, output)
        try:
            until(lambda: _is_up(host), _START_SECONDS)
            yield host
        finally:
            host.kill()


def _command(template: str, root: Path, port: int) -> list[str]:
    if not template:
        return [sys.executable, "-m", "devhost", "--root", str(root), "--port", str(port)]
    fields = {"root": str(root), "port": str(port)}
    return [part.format(**fields) for part in shlex.split(template)]


def _environment() -> dict[str, str]:
    ours = ("AzureWebJobs", "AzureFunctions", "PYTHON_THREADPOOL", "PROBE_", "DEVHOST_")
    return {name: text for name, text in os.environ.items() if not name.startswith(ours)} | {
        "FUNCTIONS_CORE_TOOLS_TELEMETRY_OPTOUT": "1"
    }


def _is_up(host: Host) -> bool:
    assert host.process.poll() is None, f"the host did not start:\n{host.said()}"
    try:
        answer = host.request("GET", "/admin/host/status")
    except OSError:
        return False
    return answer.status == 200 and answer.json()["state"] == "Running"


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port
