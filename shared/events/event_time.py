"""When something happened, as publishers write it."""

from __future__ import annotations

import re
from datetime import datetime

_DATE = r"\d{4}-\d\d-\d\d"
_ISO_8601 = re.compile(
    rf"{_DATE}[Tt ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:[Zz]|[+-]\d\d(?::?\d\d)?)?", re.ASCII
)
_RFC_3339 = re.compile(rf"{_DATE}[Tt ]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)", re.ASCII)


def is_iso_8601(text: str) -> bool:
    """Tell whether it is a date and a time of day; the offset may be missing."""
    return _exists(_ISO_8601, text)


def is_rfc_3339(text: str) -> bool:
    """Tell whether it is a date, a time with seconds, and an offset."""
    return _exists(_RFC_3339, text)


def _exists(form: re.Pattern[str], text: str) -> bool:
    if not form.fullmatch(text):
        return False
    try:
        datetime.fromisoformat(text.upper())
    except ValueError:  # the 30th of February
        return False
    return True
