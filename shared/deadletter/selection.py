"""Selects dead letters: by reason, and by the paths of their blobs, a folder for each hour."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

LEVELS = 4  # of folders: year, month, day, hour
_TICK = timedelta(microseconds=1)
_FIRST = datetime.min.replace(tzinfo=UTC) + _TICK  # which has a time before it
Hour = tuple[int, ...]  # year, month, day, hour in UTC; or the first of these


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The wanted dead letters; empty and ``None`` exclude none."""

    prefix: str = ""  # of their blobs
    since: datetime | None = None
    until: datetime | None = None  # the last hour in which their blobs were written
    reason: str | None = None  # whatever its case
    event: str | None = None  # its id

    def has_event(self, event_id: object) -> bool:
        """Tell whether an event of that id is wanted; a damaged one has any JSON as its id."""
        return self.event is None or self.event == event_id

    def has_reason(self, reason: str) -> bool:
        return self.reason is None or reason.casefold() == self.reason.casefold()

    def has_hour(self, hour: Hour) -> bool:
        """Tell whether part of an hour, day, month or year is in the wanted time."""
        depth = len(hour)
        if self.since and hour < hour_of(self.since)[:depth]:
            return False
        last = self.until and max(self.until, _FIRST) - _TICK
        return not (last and hour > hour_of(last)[:depth])

    def may_have(self, folder: str, hour: Hour) -> bool:
        """Tell whether a folder, whose path ends with a slash, can have wanted blobs."""
        shared = min(len(folder), len(self.prefix))
        return folder[:shared] == self.prefix[:shared] and self.has_hour(hour)


def hour_of(moment: datetime) -> Hour:
    """Return the folder hour of a blob written at *moment*."""
    at = moment.astimezone(UTC)
    return at.year, at.month, at.day, at.hour
