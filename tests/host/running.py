"""Starts the host that HOST_CMD names on an app, and ends it."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shlex
import shutil
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
_COMMAND = os.environ.get("HOST_CMD", "")
#: Whether the local host is tested, which has switches of its own.
IS_DEVHOST = not _COMMAND
#: A host may download its parts when it starts for the first time.
_START_SECONDS = 60.0 if IS_DEVHOST else 300.0
PATIENCE = 30.0
#: What asks the host for keys; `func` of version 4 says `--enableAuth`.
_AUTH_OPTION = os.environ.get("HOST_AUTH_OPTION", "--enable-auth")


def trouble_with_the_command() -> str | None:
    """Say why HOST_CMD cannot start a host; None: it can, as far as is seen without trying."""
    try:
        command = _command(Path("root"), 1)
    except (ValueError, LookupError) as fault:
        return f"HOST_CMD {_COMMAND!r} cannot be read: {type(fault).__name__}: {fault}"
    if not command or shutil.which(command[0]) is None:
        return f"HOST_CMD {_COMMAND!r}: there is no such command"
    missing = [place for place in ("{root}", "{port}") if not IS_DEVHOST and place not in _COMMAND]
    return f"HOST_CMD {_COMMAND!r} has no {' and no '.join(missing)}" if missing else None


@dataclass(frozen=True, slots=True)
class Answer:
    """What a client saw."""

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
        """Return the recorded calls of *function* so far, the oldest first."""
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

    def request(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Send one request on a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(connection):
            chunked = body is not None and not isinstance(body, bytes)
            connection.request(method, path, body, dict(headers or {}), encode_chunked=chunked)
            answer = connection.getresponse()
            return Answer(answer.status, answer.getheaders(), answer.read())

    def signal(self, number: int) -> None:
        """Send a signal to the host."""
        self.process.send_signal(number)

    def kill(self) -> None:
        """End it as a crash would."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def end(self) -> int:
        """Wait until it has ended; returns its exit code."""
        return self.process.wait(PATIENCE + 30)

    def said(self) -> str:
        """Return all its output."""
        self.output.seek(0)
        return self.output.read().decode(errors="replace")


def until(condition: Any, seconds: float = PATIENCE) -> Any:
    """Return the first truth that *condition* tells, waiting for it."""
    deadline = time.monotonic() + seconds
    while not (truth := condition()):
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.05)
    return truth


@contextlib.contextmanager
def running(
    app: App,
    settings: Mapping[str, str],
    *,
    invisibility: float | None = None,
    auth: bool = False,
) -> Iterator[Host]:
    """
    Run the host on *app* until the block ends.

    *invisibility* is a switch of the local host's own: seconds for which a received message is
    hidden. Another host has ten minutes, and the test waits for them.
    """
    port = _free_port()
    command = _command(app.root, port)
    if invisibility is not None and IS_DEVHOST:
        command += ["--invisibility", f"{invisibility:g}"]
    if auth:
        command.append(_AUTH_OPTION)
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


def _command(root: Path, port: int) -> list[str]:
    if IS_DEVHOST:
        return [sys.executable, "-m", "devhost", "--root", str(root), "--port", str(port)]
    places = {"root": str(root), "port": str(port)}
    return [part.format(**places) for part in shlex.split(_COMMAND)]


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
    # 401: it asks for keys, and so it is there.
    return answer.status == 401 or (answer.status == 200 and answer.json()["state"] == "Running")


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port
