"""Narrows a search for dead-letter blobs to the folders that can have them: one for each hour."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

LEVELS = 4  # of folders: year, month, day, hour
Hour = tuple[int, ...]  # year, month, day, hour in UTC; or the first of these


def hour_of(moment: datetime) -> Hour:
    """Return the hour in which a blob is that was written at *moment*."""
    at = moment.astimezone(UTC)
    return at.year, at.month, at.day, at.hour


def has_time_between(hour: Hour, since: datetime | None, until: datetime | None) -> bool:
    """Tell whether part of an hour, day, month or year is from *since* to before *until*."""
    depth = len(hour)
    if since and hour < hour_of(since)[:depth]:
        return False
    return not (until and hour > hour_of(until - timedelta(microseconds=1))[:depth])


def can_begin_with(folder: str, prefix: str) -> bool:
    """Tell whether paths in *folder*, which ends with a slash, can begin with *prefix*."""
    shared = min(len(folder), len(prefix))
    return folder[:shared] == prefix[:shared]
