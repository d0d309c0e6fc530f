"""Reads the clock, and formats times as Event Grid does and waits for people."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> datetime:
        """Return the current time, aware, in UTC."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)


def format_us_datetime(moment: datetime) -> str:
    """Format *moment* as in Event Grid's error messages: ``1/2/2025 3:04:05 AM``."""
    half = "AM" if moment.hour < 12 else "PM"  # noqa: PLR2004 - noon
    hour = moment.hour % 12 or 12
    return f"{moment.month}/{moment.day}/{moment.year} {hour}:{moment:%M:%S} {half}"


def timestamp(moment: datetime) -> str:
    """Format *moment* as Event Grid does: UTC, seven fractional digits, ``Z``."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f") + "0Z"


def optional_timestamp(moment: datetime | None) -> str | None:
    return timestamp(moment) if moment else None


def moment_of(text: str) -> datetime:
    """
    Return a time of ISO 8601.

    Raises:
        ValueError: it has no zone, or is no time.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("a time without its zone")
    return moment


def in_words(wait: timedelta) -> str:
    """Return a wait as text: 30 s, 5 min, 12 h."""
    seconds = wait.total_seconds()
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"
