"""Writes the log: a line of JSON for each record on standard error, or text for a terminal."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

from shared.settings import LogFormat
from shared.telemetry import LOGGER, TextLines

_OWN_TIME = ',"time":'  # as a compact line of flat fields has it: within texts quotes are escaped


def begin_log(chosen: LogFormat) -> None:
    """Log what the app tells as information, and warnings of everything else."""
    lines = logging.StreamHandler(sys.stderr)
    lines.setFormatter(_Text() if chosen is LogFormat.TEXT else _Json())
    root = logging.getLogger()
    root.handlers = [lines]
    root.setLevel(logging.WARNING)
    ours = logging.getLogger(LOGGER)
    ours.setLevel(logging.INFO)
    if chosen is LogFormat.TEXT:
        ours.addFilter(TextLines())
    # What uvicorn warns of, such as requests that are not HTTP, are faults of others.
    logging.getLogger("uvicorn").setLevel(logging.ERROR)


class _Json(logging.Formatter):
    """
    ``{"time": …, "level": …}`` and the members of the app's line, or logger and message.

    An app's line that has a time of its own keeps that one alone.
    """

    def format(self, record: logging.LogRecord) -> str:
        level = {"level": record.levelname.lower()}
        head = json.dumps({"time": _time(record)} | level)
        if record.name == LOGGER:
            line = record.getMessage()
            if _OWN_TIME in line:
                head = json.dumps(level)
            return f"{head[:-1]}, {line[1:]}"
        told = {"logger": record.name, "message": _message(record)}
        return f"{head[:-1]}, {json.dumps(told)[1:]}"


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return f"{_time(record)} {record.levelname} {_message(record)}"


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")


def _message(record: logging.LogRecord) -> str:
    text = record.getMessage()
    if record.exc_info:
        text = f"{text}\n{logging.Formatter().formatException(record.exc_info)}"
    return text
