"""
Parses NCRONTAB schedules: six fields, seconds first, or five, without seconds.

Source: NCrontab 3.3.3 (atifaziz/NCrontab) CrontabFieldImpl.cs and CrontabSchedule.cs;
azure-webjobs-sdk-extensions Timers/Scheduling/CronSchedule.cs (2024-10).
"""

from __future__ import annotations

import re
from calendar import monthrange, weekday
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import product
from typing import NamedTuple

_PART = re.compile(r"(?P<low>[a-z]+|\d+|\*)(?:-(?P<high>[a-z]+|\d+))?(?:/(?P<step>\d+))?")
# 29 February on a given weekday recurs within 40 years, even across a century.
_YEARS = 41


class ScheduleError(ValueError):
    """A schedule is malformed or never due; the text says which."""


class _Field(NamedTuple):
    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()  # of its values


_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_FIELDS = (
    _Field("second", 0, 59),
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of week", 0, 6, ("sun", "mon", "tue", "wed", "thu", "fri", "sat")),
)


@dataclass(frozen=True, slots=True)
class Schedule:
    """When a timer is due: the accepted values of each field, ascending."""

    seconds: list[int]
    minutes: list[int]
    hours: list[int]
    days: list[int]
    months: list[int]
    weekdays: list[int]  # Sunday is 0

    @property
    def fires_more_than_once_a_minute(self) -> bool:
        """Whether the real host keeps no status of the timer."""
        return len(self.seconds) > 1

    def next_after(self, moment: datetime) -> datetime:
        """
        Return the first due time after *moment*.

        Raises:
            ScheduleError: there is none.
        """
        start = moment.replace(microsecond=0) + timedelta(seconds=1)
        today, now = start.timetuple()[:3], start.timetuple()[3:6]
        years = range(start.year, start.year + _YEARS)
        for year, month, day in product(years, self.months, self.days):
            if (year, month, day) < today or day > monthrange(year, month)[1]:
                continue
            # Day and weekday must both match, unlike in Vixie cron.
            if (weekday(year, month, day) + 1) % 7 not in self.weekdays:
                continue
            earliest = now if (year, month, day) == today else (0, 0, 0)
            hours = [hour for hour in self.hours if hour >= earliest[0]]
            for at in product(hours, self.minutes, self.seconds):
                if at >= earliest:
                    return datetime(year, month, day, *at, tzinfo=moment.tzinfo)
        raise ScheduleError("it is never due")


def parse(text: str) -> Schedule:
    """
    Parse an NCRONTAB expression.

    Raises:
        ScheduleError: it is malformed.
    """
    fields = text.lower().split()
    if len(fields) == len(_FIELDS) - 1:
        fields.insert(0, "0")
    if len(fields) != len(_FIELDS):
        raise ScheduleError(
            f"it has {len(fields)} fields; a schedule has six, "
            "or five without seconds; time spans are not supported"
        )
    return Schedule(*map(_values, fields, _FIELDS))


def _values(text: str, field: _Field) -> list[int]:
    found: set[int] = set()
    for part in text.split(","):
        match = _PART.fullmatch(part)
        if match is None or (match["low"] == "*" and match["high"]):
            raise _fault(field)
        low = field.low if match["low"] == "*" else _number(match["low"], field)
        high = low
        if match["high"]:
            low, high = sorted((low, _number(match["high"], field)))
        elif match["low"] == "*" or match["step"]:  # `5/10` means from 5 to the end
            high = field.high
        step = int(match["step"] or 1)
        if step < 1:
            raise ScheduleError(f"{field.name}: a step is at least 1")
        found.update(range(low, high + 1, step))
    return sorted(found)


def _number(text: str, field: _Field) -> int:
    if text in field.names:
        return field.low + field.names.index(text)
    if text.isdecimal() and field.low <= int(text) <= field.high:
        return int(text)
    raise _fault(field)


def _fault(field: _Field) -> ScheduleError:
    """Return what to raise about a field, which is not quoted: a setting may hold it."""
    names = f", or {field.names[0]} to {field.names[-1]}" if field.names else ""
    return ScheduleError(f"{field.name} is not from {field.low} to {field.high}{names}")
