"""
Writes one line of compact JSON per unit of work: the Functions worker forwards nothing but that.

A line may come with a *text* that says the same within `TEXT_WIDTH` characters, for a terminal;
`TextLines` puts it in the line's place. Texts are clipped, whoever has written them.

Lines go to Python's `logging`, or where `lines_to` says: several apps of one process have a log
each, which tasks and threads carry on.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar
from datetime import datetime
from enum import Enum
from typing import NamedTuple

from shared.clip import LONGEST, clip
from shared.clock import timestamp

LOGGER = "pushgrid"
_LONGEST = {"message": 4096}  # Event Grid's record, which has clipped texts and a URL
_log = logging.getLogger(LOGGER)

TEXT_WIDTH = 160  # of the 200 that a line may have: hosts put time, level and function before it

Field = str | int | float | bool | None | datetime | Enum | list[str]


class LogLine(NamedTuple):
    """What one call logs."""

    level: int  # as `logging` has it
    event: str
    fields: dict[str, Field]  # those that are ``None`` are not written
    text: str | None = None  # the same for a terminal

    @property
    def json(self) -> str:
        """The line as it is written."""
        line = {"event": self.event} | {
            name: _clipped(value, _LONGEST.get(name, LONGEST))
            for name, value in self.fields.items()
            if value is not None
        }
        return _compact(line)


def _to_logging(line: LogLine) -> None:
    if _log.isEnabledFor(line.level):
        _log.log(line.level, "%s", line.json, extra={"text": line.text})


_sink: ContextVar[Callable[[LogLine], object]] = ContextVar("log", default=_to_logging)


@contextmanager
def lines_to(sink: Callable[[LogLine], object]) -> Iterator[None]:
    """Have *sink* get the lines of what is called, and begun, within; from any thread."""
    token = _sink.set(sink)
    try:
        yield
    finally:
        _sink.reset(token)


def own_context() -> Context:
    """
    Return an empty context whose lines go where those of the caller go.

    For what may outlive its caller: the host drops log lines of an invocation that has ended.
    """
    context = Context()
    context.run(_sink.set, _sink.get())
    return context


def info(event: str, text: str | None = None, /, **fields: Field) -> None:
    """Write what happened, endpoint failures included."""
    _sink.get()(LogLine(logging.INFO, event, fields, text))


def warning(event: str, **fields: Field) -> None:
    """Write what an operator should look at: an event given up, a message that came back."""
    _sink.get()(LogLine(logging.WARNING, event, fields))


def error(event: str, **fields: Field) -> None:
    """Write a fault of the app."""
    _sink.get()(LogLine(logging.ERROR, event, fields))


class TextLines(logging.Filter):
    """Replaces a line by its text, if it has one."""

    def filter(self, record: logging.LogRecord) -> bool:
        if text := getattr(record, "text", None):
            record.msg, record.args = "%s", (text,)
        return True


def shortened(text: str, width: int) -> str:
    """Return *text* on one printable line; beyond *width* characters it loses its middle."""
    plain = "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)
    if len(plain) <= width:
        return plain
    kept = width - 1
    return f"{plain[: kept - kept // 2]}…{plain[len(plain) - kept // 2 :]}"


def _clipped(value: Field, longest: int) -> Field:
    if isinstance(value, list):
        return [clip(each, longest) for each in value]
    return clip(value, longest) if isinstance(value, str) else value


def _plain(value: object) -> str:
    return timestamp(value) if isinstance(value, datetime) else str(value)


_compact = json.JSONEncoder(default=_plain, separators=(",", ":")).encode
