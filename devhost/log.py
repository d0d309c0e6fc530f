"""Prints the host's lines and the app's log."""

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

#: The function that is running; threads that the app starts do not have it.
running: ContextVar[str] = ContextVar("running", default="")

_CATEGORY_OF_INVOCATIONS = "function"
# The worker hides these as well.
_NOT_THE_APPS = ("azure.functions", "azure_functions_worker")


class LineOutput:
    """
    Writes whole lines to a terminal or a pipe.

    When the reader has gone, the output ends and the host continues.
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

    def error(self, text: str) -> None:
        """Print *text*, one line or more, to stderr."""
        with self._lock:
            self._err = _write(self._err, text)


class LogLines(logging.Handler):
    """Prints the app's log records as lines, their tracebacks to stderr."""

    def __init__(self, console: LineOutput) -> None:
        super().__init__()
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        """Print one record."""
        if record.name.startswith(_NOT_THE_APPS):
            return
        try:
            text = record.getMessage()
            source = running.get() or record.name
            self._console.line(f"{record.levelname:<7} {source}  {text}")
            if record.exc_info:
                formatter = self.formatter or logging.Formatter()
                self._console.error(formatter.formatException(record.exc_info))
        # A record that cannot be formatted is a fault of the app.
        except Exception:  # noqa: BLE001
            self.handleError(record)


def configure(console: LineOutput, levels: Mapping[str, int]) -> None:
    """
    Send all logging to *console* at host.json's *levels*.

    A category is the logger with its lower-cased name: `Azure.Core` is `azure.core`.
    """
    root = logging.getLogger()
    root.handlers[:] = [LogLines(console)]
    root.setLevel(levels.get("default", logging.INFO))
    # uvicorn logs its own start and end, which the host prints already.
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    for category, level in levels.items():
        if category != "default":
            logging.getLogger(category).setLevel(level)


def shows_successes(name: str, levels: Mapping[str, int]) -> bool:
    """Return whether host.json wants a line for each success of function *name*."""
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
    # Python flushes its streams when it exits and would report an error for this one.
    with contextlib.suppress(OSError, ValueError):
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, stream.fileno())
        os.close(nothing)


def _time_of_day() -> str:
    return datetime.now().isoformat(timespec="milliseconds")[11:]  # noqa: DTZ005 - the local time of day
