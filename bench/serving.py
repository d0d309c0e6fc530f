"""Runs `pushgrid serve` on a folder or a database, and tells what it takes of the machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.report import processor_seconds
from testbed.arm import ADMIN_KEY

_ROOT = Path(__file__).parents[1]
_END_SECONDS = 60.0
_OPEN = {
    "PUSHGRID_ADMIN_KEY": ADMIN_KEY,
    "PUSHGRID_ALLOW_HTTP": "true",
    "PUSHGRID_ALLOWED_NETWORKS": "127.0.0.0/8",
}


@dataclass(slots=True, kw_only=True)
class ServerProcess:
    """A running server; its log is a file."""

    process: subprocess.Popen[str]
    data: Path
    log: Path
    url: str = ""
    started_in: float = 0.0  # seconds from its start until it was ready

    @property
    def processor_seconds(self) -> float:
        """Processor time so far."""
        return processor_seconds(self.process.pid)

    @property
    def bytes_written(self) -> int:
        """What it had the disk write so far."""
        text = Path(f"/proc/{self.process.pid}/io").read_text()
        return int(text.partition("\nwrite_bytes: ")[2].split()[0])

    @property
    def wal_bytes(self) -> int:
        return (self.data / "pushgrid.db-wal").stat().st_size

    def logged(self, event: str) -> list[dict[str, Any]]:
        """Return its log lines of one kind."""
        lines = self.log.read_text().splitlines()
        return [json.loads(each) for each in lines if f'"event":"{event}"' in each]

    def kill(self) -> None:
        """End it as a crash would."""
        self.process.kill()
        self.process.wait()


@contextmanager
def running_server(
    folder: Path,
    environ: Mapping[str, str] | None = None,
    *,
    program: Sequence[str] = (sys.executable, "-m", "cli"),
    store: str = "",
) -> Iterator[ServerProcess]:
    """
    Run a server on *folder* with more of the environment; it is ended in order with the block.

    *store* is the URL of a database, which has the data in its place.

    Raises:
        RuntimeError: it did not become ready; the text is the end of its log.
    """
    data, log = folder / "data", folder / "log"
    kept = {name: text for name, text in os.environ.items() if "PUSHGRID" not in name}
    own = {"PYTHONPATH": str(_ROOT), "HOME": str(folder), **_OPEN, **(environ or {})}
    # A temporary folder may be in memory.
    place = ["--store", store] if store else ["--data", str(data), "--unsafe-folder"]
    command = [*program, "serve", *place, "--port", "0"]
    began = time.perf_counter()
    with log.open("a") as writing:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=kept | own,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=writing,
            text=True,
            start_new_session=True,
        )
    server = ServerProcess(process=process, data=data, log=log)
    with process:
        try:
            server.url = _ready(server)
            server.started_in = time.perf_counter() - began
            yield server
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            try:
                process.wait(_END_SECONDS)
            finally:
                process.kill()


@contextmanager
def serving(
    environ: Mapping[str, str] | None = None, *, store: str = ""
) -> Iterator[ServerProcess]:
    """Run a server on a new temporary folder, or a database, until the block ends."""
    with (
        tempfile.TemporaryDirectory() as folder,
        running_server(Path(folder), environ, store=store) as server,
    ):
        yield server


def _ready(server: ServerProcess) -> str:
    line = server.process.stdout.readline() if server.process.stdout else ""
    if not line.startswith("ready "):
        server.process.wait(_END_SECONDS)
        raise RuntimeError(f"the server did not start: {line}{server.log.read_text()[-2000:]}")
    return line.split()[1]
