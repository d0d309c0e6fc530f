"""How fast events come, and how those that were held follow beside them."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from shared.delivery.pace import Arrivals, due_times
from tests.fakes import START

SECOND = timedelta(seconds=1)


def at(seconds: float) -> datetime:
    return START + seconds * SECOND


def arrivals(rate: int, seconds: int) -> Arrivals:
    """Let so many events a second come for so long, evenly."""
    found = Arrivals(START, START)
    for number in range(1, rate * seconds + 1):
        found = found.with_more(1, at(number / rate))
    return found


@pytest.mark.parametrize("seconds", [2, 5, 20, 120])
@pytest.mark.parametrize("rate", [1, 20])
def test_a_steady_rate_is_known_from_the_start(rate: int, seconds: int) -> None:
    measured = arrivals(rate, seconds).per_second(at(seconds))

    assert measured == pytest.approx(rate, rel=0.3)


def test_a_rate_that_has_ended_fades() -> None:
    steady = arrivals(20, 60)

    assert [round(steady.per_second(at(60 + after))) for after in (0, 20, 60)] == [20, 7, 1]


def test_a_batch_counts_for_what_it_is() -> None:
    once = Arrivals(START, START).with_more(100, at(0))

    assert once.per_second(at(0)) == pytest.approx(100, rel=0.1)
    assert once.per_second(at(60)) < 1


def test_a_clock_that_goes_back_does_no_harm() -> None:
    assert arrivals(20, 10).per_second(at(5)) > 0


def test_held_events_come_as_fast_as_new_ones() -> None:
    found = due_times(at(10), None, 20, [1] * 21)

    assert len(found) == 22
    assert found[0] == at(10)
    assert found[20] - found[0] == SECOND


def test_hardly_any_events_still_come_back_soon() -> None:
    assert due_times(at(10), None, 0.01, [1] * 15)[-1] == at(13)


@pytest.mark.parametrize(
    ("taken_until", "first"), [(None, 10), (5, 10), (10, 10), (12, 12)], ids=str
)
def test_nobody_gets_a_place_that_is_taken(taken_until: float | None, first: float) -> None:
    taken = None if taken_until is None else at(taken_until)

    assert due_times(at(10), taken, 20, [1])[0] == at(first)


def test_a_request_takes_as_much_time_as_its_events() -> None:
    assert due_times(at(0), None, 20, [20, 40, 1])[:3] == [at(0), at(1), at(3)]
