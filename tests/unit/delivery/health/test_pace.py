"""How fast events come, and how those that were held follow beside them."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from shared.delivery.health.pace import Arrivals, Line
from tests.fakes import START

SECOND = timedelta(seconds=1)
EMPTY = Line.empty(START)


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


def places(
    first: float, rate: float, sizes: list[int], line: Line = EMPTY, *, again: bool = False
) -> list[datetime]:
    return line.due_times(at(first), rate, sizes, again=again)[0]


def test_held_events_come_as_fast_as_new_ones() -> None:
    found, line = EMPTY.due_times(at(10), 20, [1] * 21)

    assert found[0] == at(10)
    assert found[20] - found[0] == SECOND
    assert line.end == at(10) + 21 * SECOND / 20


def test_hardly_any_events_still_come_back_soon() -> None:
    assert places(10, 0.01, [1] * 16)[-1] == at(13)


@pytest.mark.parametrize(("taken_until", "first"), [(0, 10), (10, 10), (12, 12)], ids=str)
def test_no_request_gets_a_time_that_is_taken(taken_until: float, first: float) -> None:
    assert places(10, 20, [1], replace(EMPTY, end=at(taken_until))) == [at(first)]


def test_a_request_takes_as_much_time_as_its_events() -> None:
    assert places(0, 20, [20, 40, 1]) == [at(0), at(1), at(3)]


def test_what_was_held_before_comes_back_before_new_events() -> None:
    """The first hold ends at 10 s, with places up to 20; the next one is from 12 to 22 s."""
    _, line = EMPTY.during(at(10), at(0)).due_times(at(10), 20, [1] * 200)
    line = line.during(at(22), at(12))
    new, line = line.due_times(at(22), 20, [1] * 3)
    old, line = line.due_times(at(22), 20, [1] * 160, again=True)
    later, line = line.due_times(at(22), 20, [1], again=False)

    assert old == [at(22 + number / 20) for number in range(160)]
    assert [*new, *later] == [at(30 + number / 20) for number in range(4)]


def test_a_hold_that_is_extended_keeps_nothing_free_twice() -> None:
    line = replace(EMPTY, end=at(8)).during(at(10), at(0))

    assert line.during(at(11), at(1)) == replace(line, held_until=at(11))
    assert (line.again, line.end) == (at(10), at(18))


def test_what_is_held_again_gets_no_time_of_another() -> None:
    """Where the line reaches beyond the hold, and where more come again than had places."""
    line = replace(EMPTY, end=at(60)).during(at(10), at(0))

    old, line = line.due_times(at(10), 20, [1] * 201, again=True)
    assert (old[0], old[199], old[200]) == (at(60), at(69.95), at(70))
    assert line.due_times(at(10), 20, [1])[0] == [at(70.05)]
