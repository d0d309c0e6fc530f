"""A private Azurite, in memory and on free ports, for as long as somebody needs it."""

from __future__ import annotations

import contextlib
import http.client
import os
import shutil
import signal
import socket
import ssl
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
# Azurite's published account key: the same on every machine, a secret of nobody.
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

_SCRIPT = Path(__file__).parents[1] / "node_modules/azurite/dist/src/azurite.js"
# Whoever started Azurite holds the other end of its stdin, and lets go of it even when killed.
_END_WITH_PARENT = (
    "data:text/javascript,process.stdin.resume();"
    "process.stdin.on('end',()=>process.kill(process.pid,'SIGKILL'))"
)
_START_SECONDS = 30.0
_TRIES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Azurite:
    """Where a running Azurite answers."""

    connection_string: str
    blob_url: str
    queue_url: str
    table_url: str
    process: subprocess.Popen[bytes]


@contextlib.contextmanager
def running_azurite(*, silent: bool = True, certificate: Path | None = None) -> Iterator[Azurite]:
    """
    Run an Azurite of one's own, empty at the start and forgotten at the end.

    It ends with the block, and also when this process is killed. With a *certificate* (of
    127.0.0.1, and its key in the same file) it speaks https, and takes tokens of Entra ID: it reads
    what they say, and does not ask who signed them.

    Raises:
        HostError: Node or Azurite is missing, or Azurite does not start.
    """
    azurite = _start(certificate, silent=silent)
    try:
        yield azurite
    finally:
        _kill(azurite.process)


def _start(certificate: Path | None, *, silent: bool) -> Azurite:
    command = _command() + _secured(certificate)
    scheme = "https" if certificate else "http"
    for _ in range(_TRIES):
        ports = _free_ports(3)
        with tempfile.TemporaryFile() as output:
            process = _spawn(command, ports, output if silent else None)
            # A port may be taken between our look and Azurite's: then it ends, and we look again.
            try:
                answers = _answers(process, scheme, ports)
            except BaseException:
                _kill(process)
                raise
            if answers:
                return _azurite(process, scheme, ports)
            _kill(process)
            output.seek(0)
            last_words = output.read().decode(errors="replace").strip().splitlines()
    raise HostError(
        f"Azurite does not start: {last_words[-1] if last_words else 'it says nothing'}"
    )


def _command() -> list[str]:
    # Set-up puts one beside Python where the machine's is missing or too old.
    beside_python = Path(sys.executable).with_name("node")
    node = str(beside_python) if beside_python.exists() else shutil.which("node")
    if node is None:
        raise HostError("Node is missing, and Azurite needs it: run `make setup`.")
    if not _SCRIPT.exists():
        raise HostError("Azurite is missing from node_modules: run `make setup`.")
    return [node, "--no-warnings", "--import", _END_WITH_PARENT, str(_SCRIPT)]


def _secured(certificate: Path | None) -> list[str]:
    if certificate is None:
        return []
    return ["--oauth", "basic", "--cert", str(certificate), "--key", str(certificate)]


def _spawn(
    command: list[str], ports: list[int], output: IO[bytes] | None
) -> subprocess.Popen[bytes]:
    named = zip(("blob", "queue", "table"), ports, strict=True)
    where = [flag for service, port in named for flag in _where(service, port)]
    quiet = ["--inMemoryPersistence", "--disableTelemetry", "--skipApiVersionCheck"]
    return subprocess.Popen(
        [*command, *quiet, *(["--silent"] if output else []), *where],
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=output,
        cwd=tempfile.gettempdir(),
        # Ctrl-C in the terminal is for the host, which still needs storage while it drains.
        start_new_session=True,
    )


def _where(service: str, port: int) -> list[str]:
    return [f"--{service}Host", "127.0.0.1", f"--{service}Port", str(port)]


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _answers(process: subprocess.Popen[bytes], scheme: str, ports: list[int]) -> bool:
    deadline = time.monotonic() + _START_SECONDS
    waiting = list(ports)
    while waiting and process.poll() is None and time.monotonic() < deadline:
        waiting = [port for port in waiting if not _answers_at(scheme, port)]
        if waiting:
            time.sleep(0.05)
    return not waiting and process.poll() is None


def _answers_at(scheme: str, port: int) -> bool:
    connection = _connection(scheme, port)
    try:
        connection.request("GET", f"/{ACCOUNT}")
        connection.getresponse().read()
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
    return True


def _connection(scheme: str, port: int) -> http.client.HTTPConnection:
    if scheme == "http":
        return http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    # Whether somebody answers: who it is will be asked by those who have something to lose.
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return http.client.HTTPSConnection("127.0.0.1", port, timeout=5, context=context)


def _azurite(process: subprocess.Popen[bytes], scheme: str, ports: list[int]) -> Azurite:
    blob_url, queue_url, table_url = (f"{scheme}://127.0.0.1:{port}/{ACCOUNT}" for port in ports)
    return Azurite(
        connection_string=(
            f"DefaultEndpointsProtocol={scheme};AccountName={ACCOUNT};AccountKey={KEY};"
            f"BlobEndpoint={blob_url};QueueEndpoint={queue_url};TableEndpoint={table_url};"
        ),
        blob_url=blob_url,
        queue_url=queue_url,
        table_url=table_url,
        process=process,
    )


def _kill(process: subprocess.Popen[bytes]) -> None:
    if os.name == "posix":
        # The whole group: `node` may be a wrapper with the real one below it.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    if process.stdin:
        with contextlib.suppress(OSError):
            process.stdin.close()
    process.wait()
