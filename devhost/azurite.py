"""Runs a private Azurite on free ports, in memory or on disk."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from devhost.errors import HostError

ACCOUNT = "devstoreaccount1"
# Azurite's published account key, the same everywhere: not a secret.
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

_SCRIPT = Path(__file__).parents[1] / "node_modules/azurite/dist/src/azurite.js"
# Azurite ends when its stdin is closed, which happens even if the parent is killed.
_END_WITH_PARENT = (
    "data:text/javascript,process.stdin.resume();"
    "process.stdin.on('end',()=>process.kill(process.pid,'SIGKILL'))"
)
_START_SECONDS = 120.0
_END_SECONDS = 60.0
_TRIES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Azurite:
    """The addresses of a running Azurite."""

    connection_string: str
    blob_url: str
    queue_url: str
    table_url: str
    process: subprocess.Popen[bytes]


@contextlib.contextmanager
def running_azurite(
    *, certificate: Path | None = None, account: str = ACCOUNT, folder: Path | None = None
) -> Iterator[Azurite]:
    """
    Run an empty Azurite with one *account* until the block ends or this process is killed.

    With a *folder* it keeps its data there, and finds what an earlier one has left.

    With a *certificate* (of 127.0.0.1, with its key in the same file) it serves https and accepts
    Entra ID tokens, whose signature it does not verify.

    Raises:
        HostError: Node or Azurite is missing, or Azurite does not start.
    """
    azurite = _start(certificate, account, folder)
    try:
        yield azurite
    finally:
        if folder:
            _end(azurite.process)
        _kill(azurite.process)


def _start(certificate: Path | None, account: str, folder: Path | None) -> Azurite:
    command = _command() + _secured(certificate)
    command += ["--location", str(folder)] if folder else ["--inMemoryPersistence"]
    scheme = "https" if certificate else "http"
    for _ in range(_TRIES):
        ports = _free_ports(3)
        with tempfile.TemporaryFile() as output:
            process = _spawn(command, account, ports, output)
            # Azurite ends if another process has taken a port first; it is started again then.
            try:
                listens = _listens(process, ports)
            except BaseException:
                _kill(process)
                raise
            if listens:
                return _azurite(process, scheme, account, ports)
            _kill(process)
            output.seek(0)
            last_lines = output.read().decode(errors="replace").strip().splitlines()
    raise HostError(
        f"Azurite does not start: {last_lines[-1] if last_lines else 'it printed nothing'}"
    )


def _command() -> list[str]:
    # Set-up puts one beside Python where the machine's is missing or too old.
    beside_python = Path(sys.executable).with_name("node")
    node = str(beside_python) if beside_python.exists() else shutil.which("node")
    if node is None:
        raise HostError("Node, which Azurite requires, is missing: run `make setup`.")
    if not _SCRIPT.exists():
        raise HostError("Azurite is missing from node_modules: run `make setup`.")
    return [node, "--no-warnings", "--import", _END_WITH_PARENT, str(_SCRIPT)]


def _secured(certificate: Path | None) -> list[str]:
    if certificate is None:
        return []
    return ["--oauth", "basic", "--cert", str(certificate), "--key", str(certificate)]


def _spawn(
    command: list[str], account: str, ports: list[int], output: IO[bytes]
) -> subprocess.Popen[bytes]:
    named = zip(("blob", "queue", "table"), ports, strict=True)
    addresses = [flag for service, port in named for flag in _address(service, port)]
    quiet = ["--disableTelemetry", "--skipApiVersionCheck"]
    return subprocess.Popen(
        [*command, *quiet, "--silent", *addresses],
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=output,
        cwd=tempfile.gettempdir(),
        env={**os.environ, "AZURITE_ACCOUNTS": f"{account}:{KEY}"},
        # Ctrl-C in a terminal must not reach it: the host needs storage until it is drained.
        start_new_session=True,
    )


def _address(service: str, port: int) -> list[str]:
    return [f"--{service}Host", "127.0.0.1", f"--{service}Port", str(port)]


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _listens(process: subprocess.Popen[bytes], ports: list[int]) -> bool:
    deadline = time.monotonic() + _START_SECONDS
    waiting = list(ports)
    while waiting and process.poll() is None and time.monotonic() < deadline:
        waiting = [port for port in waiting if not _is_open(port)]
        if waiting:
            time.sleep(0.02)
    return not waiting and process.poll() is None


def _is_open(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def _azurite(
    process: subprocess.Popen[bytes], scheme: str, account: str, ports: list[int]
) -> Azurite:
    blob_url, queue_url, table_url = (f"{scheme}://127.0.0.1:{port}/{account}" for port in ports)
    return Azurite(
        connection_string=(
            f"DefaultEndpointsProtocol={scheme};AccountName={account};AccountKey={KEY};"
            f"BlobEndpoint={blob_url};QueueEndpoint={queue_url};TableEndpoint={table_url};"
        ),
        blob_url=blob_url,
        queue_url=queue_url,
        table_url=table_url,
        process=process,
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    """Let it store what it still has in memory."""
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_END_SECONDS)


def _kill(process: subprocess.Popen[bytes]) -> None:
    if os.name == "posix":
        # The whole group: `node` may be a wrapper that runs the real one.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    if process.stdin:
        with contextlib.suppress(OSError):
            process.stdin.close()
    process.wait()
