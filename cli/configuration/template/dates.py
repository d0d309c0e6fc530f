"""
Defines the functions for dates.

Source: "Date functions for ARM templates" (2025), "Custom date and time format strings" (.NET);
held against Bicep's own evaluator. A month has 30 days there, a year 365.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from cli.configuration.template.expressions import ExpressionFault

_USUAL = "yyyy-MM-ddTHH:mm:ssZ"
_DURATION = re.compile(
    r"(?P<sign>-?)P(?=.)(?:(?P<years>\d{1,9})Y)?(?:(?P<months>\d{1,9})M)?(?:(?P<days>\d{1,9})D)?"
    r"(?:T(?=.)(?:(?P<hours>\d{1,9})H)?(?:(?P<minutes>\d{1,9})M)?"
    r"(?:(?P<seconds>\d{1,9}(?:\.\d{1,6}0*)?)S)?)?"
)
_ISO = re.compile(  # not all that Python reads; no more than microseconds
    r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,6}0*)?)?(?:Z|[+-]\d\d(?::?\d\d)?)?)?",
    re.ASCII,
)


def _read_iso(text: str) -> datetime:
    if not _ISO.fullmatch(text):
        raise ValueError(text)
    return datetime.fromisoformat(text)


_READERS: tuple[Callable[[str], datetime], ...] = (
    _read_iso,
    lambda text: datetime.strptime(text, "%m/%d/%Y %H:%M:%S"),  # noqa: DTZ007 - UTC is added
    lambda text: datetime.strptime(text, "%m/%d/%Y"),  # noqa: DTZ007 - UTC is added
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
_STANDARD = {
    "d": "MM/dd/yyyy",
    "D": "dddd, dd MMMM yyyy",
    "f": "dddd, dd MMMM yyyy HH:mm",
    "F": "dddd, dd MMMM yyyy HH:mm:ss",
    "g": "MM/dd/yyyy HH:mm",
    "G": "MM/dd/yyyy HH:mm:ss",
    "m": "MMMM dd",
    "M": "MMMM dd",
    "o": "yyyy-MM-ddTHH:mm:ss.fffffffK",
    "O": "yyyy-MM-ddTHH:mm:ss.fffffffK",
    "r": "ddd, dd MMM yyyy HH:mm:ss 'GMT'",
    "R": "ddd, dd MMM yyyy HH:mm:ss 'GMT'",
    "s": "yyyy-MM-ddTHH:mm:ss",
    "t": "HH:mm",
    "T": "HH:mm:ss",
    "u": "yyyy-MM-dd HH:mm:ssZ",
    "y": "yyyy MMMM",
    "Y": "yyyy MMMM",
}
_PART = re.compile(
    r"'[^']*'|\"[^\"]*\"|\\.|y{1,5}|M{1,4}|d{1,4}|H{1,2}|h{1,2}|m{1,2}|s{1,2}|f{1,7}|F{1,7}"
    r"|t{1,2}|z{1,3}|K|.",
    re.DOTALL,
)


def formatted_date(moment: datetime, form: str = _USUAL) -> str:
    """
    Return a moment as a .NET format shows it.

    Raises:
        ExpressionFault: there is no such format.
    """
    if (len(form) == 1 and form not in _STANDARD) or form.endswith("%"):
        raise ExpressionFault(f"the form {form} of a date is not available here")
    is_utc = form in {"r", "R", "u"}
    shown = moment.astimezone(UTC) if is_utc else moment
    return "".join(_part(shown, each) for each in _PART.findall(_STANDARD.get(form, form)))


def _part(moment: datetime, part: str) -> str:
    letter, count = part[0], len(part)
    if letter == "%":  # a single letter follows that is no standard form
        return ""
    if letter in "'\"":
        return part[1:-1] if count > 1 else ""
    if letter == "\\":
        return part[1:]
    if letter in "fF":
        digits = f"{moment.microsecond:06}0"[:count]
        return digits.rstrip("0") if letter == "F" else digits
    if letter in "MdtzK":
        return _named(moment, part)
    numbers = {
        "y": moment.year % 100 if count <= 2 else moment.year,  # noqa: PLR2004 - letters
        "H": moment.hour,
        "h": moment.hour % 12 or 12,
        "m": moment.minute,
        "s": moment.second,
    }
    return f"{numbers[letter]:0{count}}" if letter in numbers else part


def _named(moment: datetime, part: str) -> str:
    month, day = _MONTHS[moment.month - 1], _DAYS[moment.weekday()]
    offset = moment.strftime("%z")
    offset = f"{offset[:3]}:{offset[3:5]}"
    half = "AM" if moment.hour < 12 else "PM"  # noqa: PLR2004 - noon
    parts = {
        "M": str(moment.month),
        "MM": f"{moment.month:02}",
        "MMM": month[:3],
        "MMMM": month,
        "d": str(moment.day),
        "dd": f"{moment.day:02}",
        "ddd": day[:3],
        "dddd": day,
        "t": half[0],
        "tt": half,
        "z": f"{offset[0]}{int(offset[1:3])}",
        "zz": offset[:3],
        "zzz": offset,
        "K": offset,
    }
    return parts[part]


def _moment(name: str, text: str) -> datetime:
    for read in _READERS:
        with suppress(ValueError):
            found = read(text)
            return found if found.tzinfo else found.replace(tzinfo=UTC)
    raise ExpressionFault(f"{name}(): argument 1 must be a date such as 2027-01-31T12:00:00Z")


def _add(base: str, duration: str, form: str = _USUAL) -> str:
    moment, match = _moment("dateTimeAdd", base), _DURATION.fullmatch(duration)
    if match is None:
        raise ExpressionFault("dateTimeAdd(): argument 2 must be a duration such as P1DT12H")
    parts = {name: float(text or 0) for name, text in match.groupdict().items() if name != "sign"}
    days = 365 * parts.pop("years") + 30 * parts.pop("months") + parts.pop("days")
    try:
        by = timedelta(days=days, **parts)
        return formatted_date(moment - by if match["sign"] else moment + by, form)
    except OverflowError:
        raise ExpressionFault("dateTimeAdd(): the date is beyond the year 9999") from None


def _from_epoch(seconds: int) -> str:
    try:
        return formatted_date(_EPOCH + timedelta(seconds=seconds))
    except OverflowError:
        raise ExpressionFault("dateTimeFromEpoch(): the date is beyond the year 9999") from None


DATES: Mapping[str, Callable[..., Any]] = {
    "dateTimeAdd(text, text, text?)": _add,
    "dateTimeFromEpoch(int)": _from_epoch,
    "dateTimeToEpoch(text)": lambda text: int(
        (_moment("dateTimeToEpoch", text) - _EPOCH).total_seconds()
    ),
}
