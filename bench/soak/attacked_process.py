"""A server as a process, whose faults can be chosen: see `attacked_server`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from testbed.serving import OPTIONS

_ROOT = Path(__file__).parents[2]
_START_SECONDS = 120.0
_END_SECONDS = 60.0  # after SIGTERM
_KEPT_LINES = 20_000
_EVENT = re.compile(r'"event":"([^"]+)"')


@dataclass(kw_only=True)
class AttackedProcess:
    """`pushgrid serve` with more *options* and *settings*; *before* begins its command line."""

    options: Sequence[str]
    settings: Mapping[str, str]
    before: Sequence[str] = ()
    url: str = "http://127.0.0.1:9"  # where nobody listens
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=_KEPT_LINES))
    logged: Counter[str] = field(default_factory=Counter)  # by the event
    process: subprocess.Popen[str] = field(init=False)
    _is_ready: threading.Event = field(init=False)

    @property
    def is_dead(self) -> bool:
        return self.process.poll() is not None

    def begin_start(self) -> None:
        """Start it; see `wait_until_ready`."""
        command = (sys.executable, "-m", "bench.soak.attacked_server", *OPTIONS, *self.options)
        self.process = subprocess.Popen(
            [*self.before, *command],
            cwd=_ROOT,
            env={**os.environ, **self.settings},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,  # Ctrl-C in a terminal reaches this process alone
        )
        self._is_ready = threading.Event()  # or has ended
        given = self.process, self._is_ready
        threading.Thread(target=self._read, args=given, daemon=True).start()

    def wait_until_ready(self) -> None:
        """
        Wait for a server that was started.

        Raises:
            RuntimeError: it has ended; the message has its last lines.
        """
        self._is_ready.wait(_START_SECONDS)
        if self.is_dead:
            last = "\n".join([*self.lines][-20:])
            raise RuntimeError(f"the server has ended with {self.process.returncode}:\n{last}")

    def start(self) -> None:
        """Start it, and wait until it is ready."""
        self.begin_start()
        self.wait_until_ready()

    def _read(self, process: subprocess.Popen[str], is_ready: threading.Event) -> None:
        for line in process.stdout or ():
            self.lines.append(line.rstrip("\n"))
            if found := _EVENT.search(line):
                self.logged[found[1]] += 1
            if line.startswith("ready "):
                self.url = line.split()[1]
                is_ready.set()
        process.wait()
        is_ready.set()
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError):  # of a line that it has not read
                if pipe:
                    pipe.close()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def end_in_order(self, number: int) -> int:
        """Send a signal; return the exit code."""
        self.process.send_signal(number)
        return self.process.wait(_END_SECONDS)

    def say(self, *words: str) -> None:
        """Ask for a fault."""
        with suppress(OSError, ValueError):  # it has ended
            if self.process.stdin:
                self.process.stdin.write("\t".join(words) + "\n")
                self.process.stdin.flush()
