"""The host as a process: its output, requests to it and its end."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

from tests.host.running import PATIENCE, until


class Program:
    """A running `python -m devhost`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        #: Processor time until it was ready.
        self.start_cpu_seconds = 0.0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_for(self, words: str) -> str:
        """Wait for a line with *words* and return the first one."""

        def found() -> str | None:
            has_ended = not self._reader.is_alive()  # asked before the lines are read
            line = next((line for line in list(self.lines) if words in line), None)
            assert line or not has_ended, f"no line with {words!r} in:\n" + "\n".join(self.lines)
            return line

        return str(until(found))

    def count(self, words: str) -> int:
        """Return how many lines have *words*."""
        return sum(words in line for line in self.lines)

    def assert_said(self, words: str, times: int) -> None:
        """Assert that exactly so many lines have *words*."""
        assert self.count(words) == times, "\n".join(self.lines)

    def assert_no_traceback(self) -> None:
        """Assert that no traceback was printed."""
        self.assert_said("Traceback", 0)

    def warnings_after(self, known: int) -> list[str]:
        """Return the lines after the first *known*, without those of invocations, sorted."""
        usual = ("  ok  ", "  in ", "  waiting", "  out ")
        lines = [line for line in self.lines[known:] if not any(each in line for each in usual)]
        return sorted(line.split("  ", 1)[-1] for line in lines)

    def idle_cost(self, seconds: float) -> float:
        """
        Return the processor time of the next so many *seconds*, as a part of that of its start.

        The start is the control: it takes as much longer on a slow or busy machine.
        """
        used = self._cpu_seconds()
        time.sleep(seconds)
        return (self._cpu_seconds() - used) / self.start_cpu_seconds

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
        """Ask it to end and return its exit code."""
        self.process.send_signal(number)
        return self.end()

    def end(self) -> int:
        code = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return code

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("ready "):
                self.start_cpu_seconds = self._cpu_seconds()
            self.lines.append(line.rstrip("\n"))

    def _cpu_seconds(self) -> float:
        stat = Path(f"/proc/{self.process.pid}/stat").read_text()
        user, system = stat.rsplit(")", 1)[1].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
