"""NCRONTAB: six fields, seconds first."""

from datetime import UTC, datetime

import pytest

from devhost.timer import ncrontab


@pytest.mark.parametrize(
    ("text", "after", "due"),
    [
        ("*/5 * * * * *", "2026-11-21T12:00:04.999", "2026-11-21T12:00:05"),
        ("0 */5 * * * *", "2026-11-21T12:59:59", "2026-11-21T13:00:00"),
        ("0 0 0 * * *", "2026-12-31T23:59:59", "2027-01-01T00:00:00"),
        ("0 0 0 29 2 *", "2026-11-21T12:00:00", "2028-02-29T00:00:00"),
        ("0 30 9 * * Mon", "2026-11-21T12:00:00", "2026-11-23T09:30:00"),
        ("0 0 0 * * 0", "2026-11-21T12:00:00", "2026-11-22T00:00:00"),
        ("0 0 0 * Jan-Mar *", "2026-11-21T12:00:00", "2027-01-01T00:00:00"),
        ("0 0 0 13 * fri", "2026-11-21T12:00:00", "2027-08-13T00:00:00"),
        ("0 50/5 * * * *", "2026-11-21T12:55:00", "2026-11-21T13:50:00"),
        ("0 1,3,6-5 * * * *", "2026-11-21T12:03:00", "2026-11-21T12:05:00"),
        ("*/30 * * * *", "2026-11-21T12:00:00", "2026-11-21T12:30:00"),
    ],
    ids=str,
)
def test_next_due_time(text, after, due):
    schedule = ncrontab.parse(text)

    found = schedule.next_after(datetime.fromisoformat(after).replace(tzinfo=UTC))

    assert found == datetime.fromisoformat(due).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("* * * *", "has 4 fields"),
        ("60 * * * * *", "second is not from 0 to 59"),
        ("* * * * 13 *", "month is not from 1 to 12, or jan to dec"),
        ("* * * * * 7", "day of week is not"),
        ("* * * * * monday", "day of week is not from 0 to 6, or sun to sat"),
        ("? * * * * *", "second is not"),
        ("* * * L * *", "day is not from 1 to 31"),
        ("*/0 * * * * *", "at least 1"),
        ("*-5 * * * * *", "second is not"),
        ("1, * * * * *", "second is not"),
    ],
    ids=str,
)
def test_refuses(text, words):
    with pytest.raises(ncrontab.ScheduleError, match=words.replace("?", r"\?")):
        ncrontab.parse(text)
