"""Reads dates, times and durations in the forms of ISO 8601 and RFC 3339."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_DATE = r"\d{4}-\d\d-\d\d"
_ISO_8601 = re.compile(
    rf"(?P<date>{_DATE})[Tt ](?P<minute>\d\d:\d\d)(?P<second>:\d\d(?:[.,]\d+)?)?"
    r"(?:[Zz]|(?P<hours>[+-]\d\d)(?::?(?P<minutes>\d\d))?)?",
    re.ASCII,
)
_RFC_3339 = re.compile(rf"{_DATE}[Tt ]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)", re.ASCII)
_NUMBER = r"(?:(\d{{1,6}}){})?"
_DAYS_PART = "".join(_NUMBER.format(unit) for unit in "YMWD")
_TIME_PART = _NUMBER.format("H") + _NUMBER.format("M") + r"(?:(\d{1,8}(?:\.\d{1,6})?)S)?"
_DURATION = re.compile(rf"P(?=[\dT]){_DAYS_PART}(?:T(?=\d){_TIME_PART})?", re.ASCII)
_DAYS = (365, 30, 7, 1)  # in a year, month, week and day, as in .NET
_SECOND = slice(16, 19)  # with its colon
_LEAP = ":60"


def is_iso_8601(text: str) -> bool:
    """Tell whether *text* is an existing date and time; the offset is optional."""
    return _ISO_8601.fullmatch(text) is not None and _moment(text) is not None


def is_rfc_3339(text: str) -> bool:
    """Tell whether *text* is an existing date and time with seconds and offset."""
    return _RFC_3339.fullmatch(text) is not None and _moment(text) is not None


def parse_iso_8601(text: str) -> datetime | None:
    """
    Parse a date and time; ``None`` if there is none such.

    The result has the offset of *text*, if any. A leap second is the second after it.
    """
    return _moment(text) if _ISO_8601.fullmatch(text) else None


def as_rfc_3339(text: str) -> str:
    """
    Return a time in ISO 8601 form in that of RFC 3339; other text is returned unchanged.

    Missing seconds become ``:00``, and a missing offset ``Z``; ``T`` and ``Z`` are capitals.
    """
    parts = _ISO_8601.fullmatch(text)
    if parts is None:
        return text
    second = (parts["second"] or ":00").replace(",", ".")
    offset = f"{parts['hours']}:{parts['minutes'] or '00'}" if parts["hours"] else "Z"
    return f"{parts['date']}T{parts['minute']}{second}{offset}"


def parse_duration(text: str) -> timedelta | None:
    """Parse a duration such as ``P1DT12H``; ``None`` if it is malformed."""
    found = _DURATION.fullmatch(text)
    if found is None:
        return None
    *days, hours, minutes, seconds = (float(each or 0) for each in found.groups())
    whole = sum(count * length for count, length in zip(days, _DAYS, strict=True))
    return timedelta(days=whole, hours=hours, minutes=minutes, seconds=seconds)


def _moment(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text.upper())
    except ValueError:  # such as 30 February
        return _after_leap_second(text.upper()) if text[_SECOND] == _LEAP else None


def _after_leap_second(text: str) -> datetime | None:
    """
    Return the second after a leap second, which a month can end with in UTC.

    Source: RFC 3339, 5.7.
    """
    try:
        last = datetime.fromisoformat(f"{text[: _SECOND.start]}:59{text[_SECOND.stop :]}")
        after = last.replace(microsecond=0) + timedelta(seconds=1)
        utc = after.replace(tzinfo=after.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    is_first = (utc.day, utc.hour, utc.minute, utc.second) == (1, 0, 0, 0)
    return after if is_first else None
