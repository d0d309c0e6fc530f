"""Writes waits for people, and reads the waits that endpoints ask for with ``Retry-After``."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

# RFC 9110, 5.6.7: the form that is sent today, and the two obsolete ones that must be understood.
_DATES = ("%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %d %H:%M:%S %Y")
_LONGEST = timedelta(days=365)  # beyond it, numbers differ in nothing but their overflows
_SECOND = timedelta(seconds=1)


def asked_wait(text: str | None, now: datetime) -> timedelta | None:
    """
    Return how long from *now* the endpoint wants to be left alone, in whole seconds, rounded up.

    *text* is the header's value: seconds, or an HTTP date. ``None``: there is none, or it is
    neither. Source: RFC 9110, 10.2.3.
    """
    if text is None:
        return None
    if text.isascii() and text.isdigit():
        return min(float(text), _LONGEST.total_seconds()) * _SECOND
    for form in _DATES:
        try:
            until = datetime.strptime(text, form).replace(tzinfo=UTC)
        except ValueError:
            continue
        return max(-(-min(until - now, _LONGEST) // _SECOND), 0) * _SECOND
    return None


def in_words(wait: timedelta) -> str:
    """Write a wait as people say it: 30 s, 5 min, 12 h."""
    seconds = wait.total_seconds()
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"
