"""Durations of ISO 8601."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.events.iso_8601 import parse_duration

DAY, HOUR, MINUTE, SECOND = (
    timedelta(days=1),
    timedelta(hours=1),
    timedelta(minutes=1),
    timedelta(seconds=1),
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("P1D", DAY),
        ("PT1M", MINUTE),
        ("P0DT23H12M", 23 * HOUR + 12 * MINUTE),
        ("P1DT0H0M0S", DAY),
        ("PT90S", 90 * SECOND),
        ("PT1.5S", 1.5 * SECOND),
        ("P2W", 14 * DAY),
        ("P1M", 30 * DAY),
        ("P1Y2M3DT4H5M6S", 428 * DAY + 4 * HOUR + 5 * MINUTE + 6 * SECOND),
        ("P999999Y", 999_999 * 365 * DAY),
    ],
)
def test_a_duration_is_read(text: str, expected: timedelta) -> None:
    assert parse_duration(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("", "P", "PT", "P1", "1D", "P1DT", "-P1D", "P-1D", "p1d", "PT1D", "P1H", "P1D ", "P1.5D"),
        *("PT1M1H", "P1D\n", "P٣D", "P9999999D", "PT1S1S", "00:01:00"),
    ],
)
def test_anything_else_is_none(text: str) -> None:
    assert parse_duration(text) is None


@given(st.text(alphabet="PT0123456789.YMWDHS-"))
def test_nothing_but_a_duration_comes_out(text: str) -> None:
    assert isinstance(parse_duration(text), timedelta | None)
