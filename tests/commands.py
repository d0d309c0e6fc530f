"""Runs commands, as processes or `pushgrid` in this one, and sees what they start."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import pytest

from cli.program import main
from testbed.subscriber import PATIENCE


class Command:
    """A command that runs; *lines* are what it has printed."""

    def __init__(self, command: Sequence[str], folder: Path, environ: Mapping[str, str]) -> None:
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._changed = threading.Condition()
        self._has_ended = False
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def see(self, *words: str) -> str:
        """Wait for a line with all *words*; return it."""

        def found() -> str | None:
            return next((line for line in self.lines if all(w in line for w in words)), None)

        with self._changed:
            self._changed.wait_for(lambda: found() or self._has_ended, PATIENCE)
            line = found()
        assert line, f"{words} is not in:\n" + "\n".join(self.lines)
        return line

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Terminate it if it still runs, and wait for its end."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(PATIENCE)
        finally:
            self.process.kill()
            self._reader.join()
            if self.process.stdout:
                self.process.stdout.close()

    def _read(self) -> None:
        for line in self.process.stdout or ():
            with self._changed:
                self.lines.append(line.rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()


class Printed(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Printed]


def runner(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    url: str = "",
    admin_key: str = "",
) -> Run:
    """
    Return a function that runs the command; it returns exit code, output and errors.

    *url* and *admin_key* are those of the environment.
    """
    for variable, value in {"PUSHGRID_URL": url, "PUSHGRID_ADMIN_KEY": admin_key}.items():
        if value:
            monkeypatch.setenv(variable, value)

    def run(*arguments: str, given: str = "", is_terminal: bool = False) -> Printed:
        stdin = io.TextIOWrapper(io.BytesIO(given.encode()))
        monkeypatch.setattr(stdin, "isatty", lambda: is_terminal)
        monkeypatch.setattr(sys, "stdin", stdin)
        code = main(arguments)
        out, err = capsys.readouterr()
        return Printed(code, out, err)

    return run


def is_running(pid: int) -> bool:
    """Tell whether a process runs; one that nobody has waited for yet (``Z``) does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rsplit(")", 1)[1].split()[0] != "Z"


def children(parent: int) -> dict[int, str]:
    """Return the command lines of the processes that *parent* has started."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            if int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1]) == parent:
                found[int(folder.name)] = (folder / "cmdline").read_text()
    return found
