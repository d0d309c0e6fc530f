"""
Parses NCRONTAB schedules: six fields, seconds first, or five, without seconds.

Source: NCrontab 3.3.3 (atifaziz/NCrontab) CrontabFieldImpl.cs and CrontabSchedule.cs;
azure-webjobs-sdk-extensions Timers/Scheduling/CronSchedule.cs (2024-10).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_LONG_MONTHS = (
    "january february march april may june july august september october november december"
)
_LONG_DAYS = "sunday monday tuesday wednesday thursday friday saturday"
_SHORT_NAMES = {name: name[:3] for name in f"{_LONG_MONTHS} {_LONG_DAYS}".split()}
_PART = re.compile(r"(?P<low>[A-Za-z]+|\d+|\*)(?:-(?P<high>[A-Za-z]+|\d+))?(?:/(?P<step>\d+))?")
# 29 February on a given weekday recurs within 40 years, even across a century.
_YEARS = 41
_HOURS = 24


class ScheduleError(ValueError):
    """A schedule cannot be parsed; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Field:
    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()


_FIELDS = (
    _Field(name="second", low=0, high=59),
    _Field(name="minute", low=0, high=59),
    _Field(name="hour", low=0, high=23),
    _Field(name="day", low=1, high=31),
    _Field(name="month", low=1, high=12, names=_MONTHS),
    _Field(name="day of week", low=0, high=6, names=_DAYS),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When a timer is due: the accepted values of each field."""

    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    #: Sunday is 0.
    weekdays: frozenset[int]

    @property
    def fires_more_than_once_a_minute(self) -> bool:
        """Whether the real host keeps no status of the timer."""
        return len(self.seconds) > 1

    @property
    def names_hours(self) -> bool:
        """Whether it names hours of the day, and so follows changes of daylight saving time."""
        return len(self.hours) < _HOURS

    def next_after(self, moment: datetime) -> datetime | None:
        """Return the first due time after *moment*; None if there is none."""
        start = moment.replace(microsecond=0) + timedelta(seconds=1)
        day = start.date()
        while day.year < start.year + _YEARS:
            if day.month not in self.months:
                # Skip to the first day of the next month.
                day = (day.replace(day=28) + timedelta(days=4)).replace(day=1)
                continue
            if day.day in self.days and day.isoweekday() % 7 in self.weekdays:
                at_least = (start.hour, start.minute, start.second)
                found = self._time(at_least if day == start.date() else (0, 0, 0))
                if found:
                    hour, minute, second = found
                    midnight = start.replace(year=day.year, month=day.month, day=day.day)
                    return midnight.replace(hour=hour, minute=minute, second=second)
            day += timedelta(days=1)
        return None

    def _time(self, at_least: tuple[int, int, int]) -> tuple[int, int, int] | None:
        for hour in self.hours:
            if hour < at_least[0]:
                continue
            for minute in self.minutes:
                if (hour, minute) < at_least[:2]:
                    continue
                for second in self.seconds:
                    if (hour, minute, second) >= at_least:
                        return hour, minute, second
        return None


def parse(text: str) -> Schedule:
    """
    Parse an NCRONTAB expression.

    Raises:
        ScheduleError: it is malformed.
    """
    fields = text.split()
    if len(fields) == len(_FIELDS) - 1:
        fields.insert(0, "0")
    if len(fields) != len(_FIELDS):
        raise ScheduleError(
            f"it has {len(fields)} fields; a schedule has six, "
            "or five without seconds; time spans are not supported"
        )
    second, minute, hour, day, month, weekday = (
        _values(part, field) for part, field in zip(fields, _FIELDS, strict=True)
    )
    # Both must match, unlike in Vixie cron.
    return Schedule(
        seconds=tuple(sorted(second)),
        minutes=tuple(sorted(minute)),
        hours=tuple(sorted(hour)),
        days=frozenset(day),
        months=frozenset(month),
        weekdays=frozenset(weekday),
    )


def _values(text: str, field: _Field) -> set[int]:
    found: set[int] = set()
    for part in text.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise _fault(field)
        low, high = _reach(match, field)
        step = int(match["step"] or 1)
        if step < 1:
            raise ScheduleError(f"{field.name}: a step is at least 1")
        found.update(range(low, high + 1, step))
    return found


def _reach(match: re.Match[str], field: _Field) -> tuple[int, int]:
    if match["low"] == "*":
        if match["high"]:
            raise _fault(field)
        return field.low, field.high
    low = _number(match["low"], field)
    if match["high"]:
        high = _number(match["high"], field)
        return min(low, high), max(low, high)
    # `5/10` means from 5 to the end.
    return low, field.high if match["step"] else low


def _number(text: str, field: _Field) -> int:
    if text.isdecimal():
        number = int(text)
    else:
        short = _SHORT_NAMES.get(text.lower(), text.lower())
        if short not in field.names:
            raise _fault(field)
        number = field.names.index(short) + field.low
    if not field.low <= number <= field.high:
        raise _fault(field)
    return number


def _fault(field: _Field) -> ScheduleError:
    """Return what to raise about a field, which is not quoted: a setting may hold it."""
    names = f", or {field.names[0]} to {field.names[-1]}" if field.names else ""
    return ScheduleError(f"{field.name} is not from {field.low} to {field.high}{names}")
