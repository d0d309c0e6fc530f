"""The host as a program: started, read and stopped as a person would."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

CHECKOUT = Path(__file__).parents[3]
PATIENCE = 20.0


class Program:
    """A running `python -m devhost`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self._new = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_for(self, words: str) -> str:
        """Return the first line with *words*, waiting for it."""
        deadline = time.monotonic() + PATIENCE
        with self._new:
            while True:
                for line in self.lines:
                    if words in line:
                        return line
                if not self._reader.is_alive() or not self._new.wait(deadline - time.monotonic()):
                    break
        raise AssertionError(f"no line with {words!r} in:\n" + "\n".join(self.lines))

    @property
    def url(self) -> str:
        return self.wait_for("ready ").split()[1]

    @property
    def connection_string(self) -> str:
        return self.wait_for("storage ").split(" ", 1)[1]

    def get(self, path: str, data: bytes | None = None) -> tuple[int, bytes]:
        request = urllib.request.Request(self.url + path, data=data)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as answer:
            with answer:
                return answer.code, answer.read()

    def stop(self, number: int = signal.SIGINT) -> int:
        """Ask it to end; returns its exit code."""
        self.process.send_signal(number)
        return self.end()

    def end(self) -> int:
        code = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return code

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._new:
                self.lines.append(line.rstrip("\n"))
                self._new.notify_all()
        with self._new:
            self._new.notify_all()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Program]]:
    """Start the host on the app in tmp_path, with these arguments."""
    programs: list[Program] = []

    def go(*arguments: str, **environ: str) -> Program:
        clean = {
            name: text
            for name, text in os.environ.items()
            if not name.startswith(("AzureWebJobs", "AzureFunctionsJobHost", "PYTHON_THREADPOOL"))
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "devhost", "--root", str(tmp_path), "--port", "0", *arguments],
            cwd=CHECKOUT,
            env=clean | environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        programs.append(Program(process))
        return programs[-1]

    yield go
    for program in programs:
        program.process.kill()
        program.end()
        assert program.process.stdout is not None
        program.process.stdout.close()


@pytest.fixture
def function(tmp_path: Path) -> Callable[..., None]:
    """Add a function to the app in tmp_path."""
    host: dict[str, Any] = {
        "version": "2.0",
        "extensions": {
            "http": {"routePrefix": ""},
            "queues": {"messageEncoding": "none", "maxPollingInterval": "00:00:00.200"},
        },
    }
    (tmp_path / "host.json").write_text(json.dumps(host))

    def add(folder: str, source: str, **trigger: Any) -> None:
        bindings = [{"direction": "in", **trigger}]
        if trigger["type"] == "httpTrigger":
            bindings[0].setdefault("authLevel", "anonymous")
            bindings.append({"type": "http", "direction": "out", "name": "$return"})
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "function.json").write_text(json.dumps({"bindings": bindings}))
        (tmp_path / folder / "__init__.py").write_text(source)

    return add
