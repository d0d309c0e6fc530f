"""Durations as ISO 8601 writes them: ``P1D``, ``PT23H12M``."""

from __future__ import annotations

import re
from datetime import timedelta

_NUMBER = r"(?:(\d{{1,6}}){})?"
_DATE = "".join(_NUMBER.format(unit) for unit in "YMWD")
_TIME = _NUMBER.format("H") + _NUMBER.format("M") + r"(?:(\d{1,8}(?:\.\d{1,6})?)S)?"
_DURATION = re.compile(rf"P(?=[\dT]){_DATE}(?:T(?=\d){_TIME})?", re.ASCII)
_DAYS = (365, 30, 7, 1)  # of years and months, as .NET reads them


def parse_duration(text: str) -> timedelta | None:
    """Read a duration; ``None`` if it is none."""
    found = _DURATION.fullmatch(text)
    if found is None:
        return None
    *days, hours, minutes, seconds = (float(each or 0) for each in found.groups())
    whole = sum(count * length for count, length in zip(days, _DAYS, strict=True))
    return timedelta(days=whole, hours=hours, minutes=minutes, seconds=seconds)
