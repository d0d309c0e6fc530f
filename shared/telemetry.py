"""One line of compact JSON per unit of work: the Functions worker forwards nothing but the text."""

from __future__ import annotations

import json
import logging
from datetime import datetime
from enum import Enum

from shared.clock import timestamp

LOGGER = "pushgrid"
_log = logging.getLogger(LOGGER)

Field = str | int | float | bool | None | datetime | Enum | list[str]


def info(event: str, **fields: Field) -> None:
    """Write what happened, endpoint failures included."""
    _write(logging.INFO, event, fields)


def warning(event: str, **fields: Field) -> None:
    """Write what an operator should look at: an event given up, a message that came back."""
    _write(logging.WARNING, event, fields)


def error(event: str, **fields: Field) -> None:
    """Write a fault of ours."""
    _write(logging.ERROR, event, fields)


def _write(level: int, event: str, fields: dict[str, Field]) -> None:
    if _log.isEnabledFor(level):
        line = {"event": event} | {
            name: value for name, value in fields.items() if value is not None
        }
        _log.log(level, "%s", json.dumps(line, default=_plain, separators=(",", ":")))


def _plain(value: object) -> str:
    return timestamp(value) if isinstance(value, datetime) else str(value)
