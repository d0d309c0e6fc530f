"""Reads the wait that an endpoint asks for with ``Retry-After``."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

# RFC 9110, 5.6.7: the current form, and the two obsolete ones that must be understood.
_DATES = ("%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %d %H:%M:%S %Y")
_LONGEST = timedelta(days=365)  # a limit that keeps larger numbers from overflowing
_SECOND = timedelta(seconds=1)


def asked_wait(text: str | None, now: datetime) -> timedelta | None:
    """
    Return the wait that ``Retry-After`` asks for from *now*, rounded up to whole seconds.

    *text* is the header's value: seconds, or an HTTP date. ``None``: the header is absent or is
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
