"""Runs a private Azurite on free ports, in memory or on disk."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import quote

from devhost.azurite_files import node_and_azurite
from devhost.errors import HostError

ACCOUNT = "devstoreaccount1"
# Azurite's published account key, the same everywhere: not a secret.
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

_START_SECONDS = 120.0
_END_SECONDS = 60.0
# Node runs this before Azurite.
# Azurite ends when its stdin is closed, which happens even if the parent is killed. It stores what
# it has in memory at a SIGTERM.
# Half of its start would be loading what sends telemetry, which is switched off.
# Once a minute it deletes what no message refers to any more. In memory it would remove these
# extents one by one, each by sorting and copying all; this removes them together.
_PRELOADED = """
import {createRequire} from 'node:module'
const end = signal => process.kill(process.pid, signal)
process.stdin.resume().on('end', () => {
  setTimeout(end, %(end_ms)d, 'SIGKILL').unref()
  end(%(signal)s)
})
const require = createRequire(%(script)s)
const telemetry = require.resolve('applicationinsights')
require.cache[telemetry] = {id: telemetry, filename: telemetry, loaded: true, exports: {}}
const store = require('./common/persistence/MemoryExtentStore.js').default
store.prototype.deleteExtents = async function (ids) {
  const gone = new Set(ids), metadata = this.metadataStore
  for (const id of gone) this.chunks.delete(this.categoryName, id)
  metadata.db.getCollection(metadata.EXTENTS_COLLECTION).removeWhere(extent => gone.has(extent.id))
  return gone.size
}
"""
_FREE_SECONDS = 10.0  # what a killed process has left behind may still be storing
_OWNER_ONLY = 0o700
_CLOSED = "successfully closed"
_MOST_PRINTED = 65536  # bytes that are read of it
_SERVICES = ("blob", "queue", "table")
_ERROR = re.compile(r"(Uncaught )?\w*Error( \[\w+\])?: ")
_LISTENS = re.compile(r"Azurite (\w+) service is successfully listening at \S+:(\d+)")


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
    *,
    certificate: Path | None = None,
    account: str = ACCOUNT,
    folder: Path | None = None,
) -> Iterator[Azurite]:
    """
    Run an empty Azurite with one *account* until the block ends or this process is killed.

    With a *folder* it keeps its data there, and finds what an earlier one has left; only one runs
    in a folder at a time.

    With a *certificate* (of 127.0.0.1, with its key in the same file) it serves https and accepts
    Entra ID tokens, whose signature it does not verify.

    Raises:
        HostError: Node or Azurite is missing, Azurite does not start, or the folder is in use.
    """
    command = _command("SIGTERM" if folder else "SIGKILL")
    if certificate:
        command += ["--oauth", "basic", "--cert", str(certificate), "--key", str(certificate)]
    for name in _SERVICES:
        # A port that the system chooses: one that was free before could be another's by now.
        command += [f"--{name}Host", "127.0.0.1", f"--{name}Port", "0"]
    command += ["--location", str(folder.resolve())] if folder else ["--inMemoryPersistence"]
    with tempfile.TemporaryFile() as output, contextlib.ExitStack() as stack:
        lock = [stack.enter_context(_locked(folder))] if folder else []
        process = _spawn(command, account, output, lock)
        stack.callback(_kill, process)
        taken = _ports(process, output)
        if folder:
            stack.callback(_end, process, output)
        yield _azurite(process, "https" if certificate else "http", account, taken)


def _command(end_signal: str) -> list[str]:
    node, script = node_and_azurite()
    names = {"signal": json.dumps(end_signal), "script": json.dumps(str(script))}
    source = _PRELOADED % {"end_ms": _END_SECONDS * 1000, **names}
    preloaded = f"data:text/javascript,{quote(source)}"
    return [node, "--no-warnings", "--import", preloaded, str(script)]


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[int]:
    """
    Give the descriptor of the folder's lock; processes that inherit it hold it too.

    Raises:
        HostError: another holds it, or the folder can't be used or has files that others reach.
    """
    try:
        folder.mkdir(mode=_OWNER_ONLY, parents=True, exist_ok=True)
        if folder.stat().st_mode & 0o077:
            if any(folder.iterdir()):  # whose folder this is not to change
                raise HostError(
                    f"other users reach the files in {folder}: choose an empty folder for "
                    f"storage, or run chmod 700 {folder}"
                )
            folder.chmod(_OWNER_ONLY)
        file = (folder / "pushgrid.lock").open("w")
    except OSError as fault:
        text = f"storage cannot be kept in {folder}: {fault.strerror}"
        if isinstance(fault, PermissionError):
            text += f": choose a folder of your own, or run chmod 700 {folder}"
        raise HostError(text) from fault
    deadline = time.monotonic() + _FREE_SECONDS
    with file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    text = f"another local deployment keeps its storage in {folder}"
                    raise HostError(text) from None
            time.sleep(0.1)
        yield file.fileno()


def _spawn(
    command: list[str], account: str, output: IO[bytes], inherited: Sequence[int]
) -> subprocess.Popen[bytes]:
    quiet = ["--disableTelemetry", "--skipApiVersionCheck"]
    return subprocess.Popen(
        [*command, *quiet, "--silent"],
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=output,
        cwd=tempfile.gettempdir(),
        env={**os.environ, "AZURITE_ACCOUNTS": f"{account}:{KEY}"},
        pass_fds=inherited,
        # Ctrl-C in a terminal must not reach it: the host needs storage until it is drained.
        start_new_session=True,
    )


def _ports(process: subprocess.Popen[bytes], output: IO[bytes]) -> list[int]:
    """Wait until the services listen; return their ports."""
    deadline = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        found = {name.lower(): port for name, port in _LISTENS.findall(_printed(output))}
        if len(found) == len(_SERVICES):
            return [int(found[service]) for service in _SERVICES]
        time.sleep(0.02)
    raise HostError(f"Azurite does not start: {why_it_ended(_printed(output))}")


def why_it_ended(printed: str) -> str:
    """Return the line with the error: after it Node prints a stack, and its own version."""
    lines = printed.splitlines() or ["it printed nothing"]
    return next((each.strip() for each in lines if _ERROR.match(each)), lines[-1])


def _printed(output: IO[bytes]) -> str:
    # Without moving the place at which it writes, which it shares with this process.
    return os.pread(output.fileno(), _MOST_PRINTED, 0).decode(errors="replace").strip()


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


def _end(process: subprocess.Popen[bytes], output: IO[bytes]) -> None:
    """Let it store what it has in memory: it has when it has closed its services."""
    process.terminate()
    deadline = time.monotonic() + _END_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        if _printed(output).count(_CLOSED) == len(_SERVICES):
            return  # It goes on until all connections are closed.
        time.sleep(0.02)


def _kill(process: subprocess.Popen[bytes]) -> None:
    # The whole group: `node` may be a wrapper that runs the real one.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    if process.stdin:
        process.stdin.close()
    process.wait()
