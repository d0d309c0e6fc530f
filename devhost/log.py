"""What the host prints: one line per invocation, and the app's own log lines."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import datetime
from typing import TextIO

#: The function that is running, for the lines it logs; threads of the app's own do not have it.
running: ContextVar[str] = ContextVar("running", default="")

_CATEGORY_OF_INVOCATIONS = "function"
# Hidden from the app's log by the worker as well.
_NOT_THE_APPS = ("azure.functions", "azure_functions_worker")


class Console:
    """
    Lines to a terminal or a pipe, each written at once.

    A reader who goes away ends the output, not the host.
    """

    def __init__(self, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self._out: TextIO | None = out or sys.stdout
        self._err: TextIO | None = err or sys.stderr
        self._lock = threading.Lock()

    def plain(self, text: str) -> None:
        """Print *text* as it is."""
        with self._lock:
            self._out = _write(self._out, text)

    def line(self, text: str) -> None:
        """Print *text* after the time of day."""
        self.plain(f"{_time_of_day()} {text}")

    def trouble(self, text: str) -> None:
        """Print *text*, one or many lines, to stderr."""
        with self._lock:
            self._err = _write(self._err, text)


class LogLines(logging.Handler):
    """The app's log records as lines; their tracebacks go to stderr."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        """Print one record."""
        if record.name.startswith(_NOT_THE_APPS):
            return
        try:
            text = record.getMessage()
            who = running.get() or record.name
            self._console.line(f"{record.levelname:<7} {who}  {text}")
            if record.exc_info:
                formatter = self.formatter or logging.Formatter()
                self._console.trouble(formatter.formatException(record.exc_info))
        # A record that cannot be formatted is the app's fault, and no reason to stop it.
        except Exception:  # noqa: BLE001
            self.handleError(record)


def configure(console: Console, levels: Mapping[str, int]) -> None:
    """
    Send all logging to *console*, at host.json's levels.

    A category is the logger of the same name, whatever its capitals: `Azure.Core` is `azure.core`.
    """
    root = logging.getLogger()
    root.handlers[:] = [LogLines(console)]
    root.setLevel(levels.get("default", logging.INFO))
    # uvicorn tells of its own starts and ends, which the host does already.
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    for category, level in levels.items():
        if category != "default":
            logging.getLogger(category).setLevel(level)


def shows_successes(name: str, levels: Mapping[str, int]) -> bool:
    """Say whether host.json wants a line for each invocation of *name* that went well."""
    for category in (f"function.{name.lower()}", _CATEGORY_OF_INVOCATIONS, "default"):
        if category in levels:
            return levels[category] <= logging.INFO
    return True


def _write(stream: TextIO | None, text: str) -> TextIO | None:
    if stream is None:
        return None
    try:
        stream.write(text + "\n")
        stream.flush()
    except (OSError, ValueError):
        _silence(stream)
        return None
    return stream


def _silence(stream: TextIO) -> None:
    # Python flushes its streams once more when it ends, and would complain about this one.
    with contextlib.suppress(OSError, ValueError):
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, stream.fileno())
        os.close(nothing)


def _time_of_day() -> str:
    return datetime.now().astimezone().isoformat(timespec="milliseconds")[11:23]
