"""NCRONTAB: six fields, seconds first."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devhost.timer import ncrontab

SATURDAY = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "after", "due"),
    [
        ("* * * * * *", "2026-11-21T12:00:00", "2026-11-21T12:00:01"),
        ("*/5 * * * * *", "2026-11-21T12:00:00", "2026-11-21T12:00:05"),
        ("*/5 * * * * *", "2026-11-21T12:00:04.999", "2026-11-21T12:00:05"),
        ("0 * * * * *", "2026-11-21T12:00:00", "2026-11-21T12:01:00"),
        ("0 */5 * * * *", "2026-11-21T12:59:59", "2026-11-21T13:00:00"),
        ("0 0 0 * * *", "2026-12-31T23:59:59", "2027-01-01T00:00:00"),
        ("0 0 0 29 2 *", "2026-11-21T12:00:00", "2028-02-29T00:00:00"),
        ("59 59 23 31 12 *", "2026-11-21T12:00:00", "2026-12-31T23:59:59"),
        ("0 30 9 * * Mon", "2026-11-21T12:00:00", "2026-11-23T09:30:00"),
        ("0 30 9 * * monday", "2026-11-21T12:00:00", "2026-11-23T09:30:00"),
        ("0 0 0 * * 0", "2026-11-21T12:00:00", "2026-11-22T00:00:00"),
        ("0 0 0 * Jan-Mar *", "2026-11-21T12:00:00", "2027-01-01T00:00:00"),
        ("0 0 0 13 * fri", "2026-11-21T12:00:00", "2027-08-13T00:00:00"),
        ("0 50/5 * * * *", "2026-11-21T12:55:00", "2026-11-21T13:50:00"),
        ("0 1,3,5-6 * * * *", "2026-11-21T12:03:00", "2026-11-21T12:05:00"),
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
        ("", "has 0 fields"),
        ("* * * *", "has 4 fields"),
        ("* * * * * * *", "has 7 fields"),
        ("60 * * * * *", "second is not from 0 to 59"),
        ("* * 24 * * *", "hour is not"),
        ("* * * 0 * *", "day is not"),
        ("* * * * 13 *", "month is not from 1 to 12, or jan to dec"),
        ("* * * * * 7", "day of week is not"),
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


def test_a_day_that_never_comes_is_never_due():
    assert ncrontab.parse("0 0 0 30 2 *").next_after(SATURDAY) is None


@pytest.mark.parametrize(
    ("text", "often"), [("*/30 * * * * *", True), ("30 * * * * *", False), ("5 4 * * *", False)]
)
def test_knows_when_it_fires_more_than_once_a_minute(text, often):
    assert ncrontab.parse(text).fires_more_than_once_a_minute is often


@given(
    step=st.integers(1, 59),
    minute=st.integers(0, 59),
    hours=st.sets(st.integers(0, 23), min_size=1),
    offset=st.integers(0, 86_400),
)
def test_nothing_due_is_skipped(step, minute, hours, offset):
    """The due time found is the first second after the start that all fields accept."""
    start = SATURDAY + timedelta(seconds=offset)
    text = f"*/{step} {minute} {','.join(map(str, hours))} * * *"

    due = ncrontab.parse(text).next_after(start)

    assert due is not None

    candidates = (
        day.replace(hour=hour, minute=minute, second=second)
        for day in (start + timedelta(days=shift) for shift in range(3))
        for hour in hours
        for second in range(0, 60, step)
    )
    assert due == min(each for each in candidates if each > start)
