"""How waits are written for people."""

from __future__ import annotations

from datetime import timedelta


def in_words(wait: timedelta) -> str:
    """Write a wait as people say it: 30 s, 5 min, 12 h."""
    seconds = wait.total_seconds()
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"
