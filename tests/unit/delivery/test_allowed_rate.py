"""The allowed rate of an endpoint: never exceeded, and used."""

from __future__ import annotations

from bisect import bisect_left
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pushgrid.testing.memory import START
from shared.delivery.pace import Allowance, ask

MINUTE = timedelta(minutes=1)


def gone(rate: int, asked_at: list[datetime]) -> list[datetime]:
    """Ask at these times, and again whenever told to; return when requests went."""
    allowance: Allowance | None = None
    went: list[datetime] = []
    waiting = sorted(asked_at)
    while waiting:
        now = waiting.pop(0)
        allowance, place = ask(allowance, rate, now)
        if place is None:
            went.append(now)
        else:
            assert place > now
            waiting = sorted([*waiting, place])
    return went


def most_in_a_minute(went: list[datetime]) -> int:
    """Return the most of *went*, which is in order."""
    return max(bisect_left(went, begin + MINUTE) - first for first, begin in enumerate(went))


@given(
    rate=st.integers(1, 400),
    delays=st.lists(st.floats(0, 90), min_size=1, max_size=60),
)
def test_no_minute_has_more_than_were_granted(rate: int, delays: list[float]) -> None:
    asked_at = [START + timedelta(seconds=seconds) for seconds in delays]

    went = gone(rate, asked_at)

    assert len(went) == len(asked_at)
    assert most_in_a_minute(went) <= rate


@pytest.mark.parametrize("rate", [1, 2, 9, 10, 11, 120, 600])
def test_what_comes_at_once_goes_as_fast_as_is_granted(rate: int) -> None:
    went = gone(rate, [START] * (rate * 3))

    assert most_in_a_minute(went) <= rate
    assert most_in_a_minute([each for each in went if each > START + MINUTE]) >= rate * 0.85
    assert went[-1] - START <= 3.5 * MINUTE


def test_some_may_go_at_once_and_the_others_come_evenly() -> None:
    """120 a minute: 13 at once, then one after the other, a bit more than half a second apart."""
    allowance = None
    places = []
    for _ in range(16):
        allowance, place = ask(allowance, 120, START)
        places.append(place and round((place - START).total_seconds(), 2))

    assert places == [None] * 13 + [0.56, 1.13, 1.69]


def test_the_slowest_rate_is_one_a_minute() -> None:
    allowance, first = ask(None, 1, START)
    allowance, second = ask(allowance, 1, START)
    _, third = ask(allowance, 1, START + MINUTE)

    assert first is None
    assert second == START + timedelta(seconds=61)
    assert third == START + timedelta(seconds=122)


@pytest.mark.parametrize("rate", [1, 600])
def test_a_clock_that_is_set_back_keeps_nobody_waiting(rate: int) -> None:
    """What was granted before would have been due six hours later."""
    allowance: Allowance | None = None
    for _ in range(3 * rate):
        allowance, _ = ask(allowance, rate, START + timedelta(hours=6))

    _, place = ask(allowance, rate, START)

    assert place
    assert place <= START + timedelta(minutes=5)
