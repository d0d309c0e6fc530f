"""When something happened, as publishers write it."""

from __future__ import annotations

import re
from datetime import datetime

_DATE = r"\d{4}-\d\d-\d\d"
_ISO_8601 = re.compile(
    rf"(?P<date>{_DATE})[Tt ](?P<minute>\d\d:\d\d)(?P<second>:\d\d(?:[.,]\d+)?)?"
    r"(?:[Zz]|(?P<hours>[+-]\d\d)(?::?(?P<minutes>\d\d))?)?",
    re.ASCII,
)
_RFC_3339 = re.compile(rf"{_DATE}[Tt ]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)", re.ASCII)


def is_iso_8601(text: str) -> bool:
    """Tell whether it is a date and a time of day; the offset may be missing."""
    return _exists(_ISO_8601, text)


def is_rfc_3339(text: str) -> bool:
    """Tell whether it is a date, a time with seconds, and an offset."""
    return _exists(_RFC_3339, text)


def as_rfc_3339(text: str) -> str:
    """
    Write a time in ISO 8601 form in that of RFC 3339; one that has it already stays as it is.

    Without seconds it is the full minute, without an offset it is UTC.
    """
    parts = _ISO_8601.fullmatch(text)
    if parts is None or _RFC_3339.fullmatch(text):
        return text
    second = (parts["second"] or ":00").replace(",", ".")
    offset = f"{parts['hours']}:{parts['minutes'] or '00'}" if parts["hours"] else "Z"
    return f"{parts['date']}T{parts['minute']}{second}{offset}"


def _exists(form: re.Pattern[str], text: str) -> bool:
    if not form.fullmatch(text):
        return False
    try:
        datetime.fromisoformat(text.upper())
    except ValueError:  # the 30th of February
        return False
    return True
