"""Times as text, deadlines, and the time by which things end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from pushgrid.testing.memory import START, FakeClock
from shared.clock import Deadline, format_us_datetime, timestamp, trusted_now

SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)


def test_a_timestamp_has_a_fixed_width_in_every_year():
    assert timestamp(datetime.min.replace(tzinfo=UTC)) == "0001-01-01T00:00:00.0000000Z"
    assert timestamp(datetime.max.replace(tzinfo=UTC)) == "9999-12-31T23:59:59.9999990Z"


@pytest.mark.parametrize(
    ("hour", "written"),
    [(0, "12:00:09 AM"), (1, "1:00:09 AM"), (12, "12:00:09 PM"), (23, "11:00:09 PM")],
)
def test_times_have_us_format(hour: int, written: str) -> None:
    moment = datetime(2025, 11, 30, hour, 0, 9, tzinfo=UTC)

    assert format_us_datetime(moment) == f"11/30/2025 {written}"


def test_no_clock_that_is_set_brings_a_deadline_nearer() -> None:
    wall = FakeClock()
    deadline = Deadline(60 * SECOND, wall.monotonic)
    within = deadline.within(30 * SECOND)
    wall.jump(7 * HOUR)
    assert (deadline.has_passed, within.has_passed) == (False, False)
    wall.jump(-14 * HOUR)
    wall.advance(30 * SECOND)
    assert (deadline.has_passed, within.has_passed) == (False, True)
    wall.advance(30 * SECOND)
    assert deadline.has_passed


def test_by_a_clock_that_is_not_trusted_nothing_is_old(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock()
    assert trusted_now(clock) == START

    monkeypatch.setattr(clock, "is_trusted", False)

    assert trusted_now(clock) <= datetime(1, 1, 1, tzinfo=UTC)
