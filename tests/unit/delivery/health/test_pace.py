"""How fast events come, and how those that were held follow beside them."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from pushgrid.testing.memory import START
from shared.delivery.health.pace import EventRate, ReturnTimes

SECOND = timedelta(seconds=1)
EMPTY = ReturnTimes.empty(START)


def at(seconds: float) -> datetime:
    return START + seconds * SECOND


def rate_of(rate: int, seconds: int) -> EventRate:
    """Let so many events a second come for so long, evenly."""
    found = EventRate(START, START)
    for number in range(1, rate * seconds + 1):
        found = found.with_more(1, at(number / rate))
    return found


@pytest.mark.parametrize("seconds", [2, 5, 20, 120])
@pytest.mark.parametrize("rate", [1, 20])
def test_a_steady_rate_is_known_from_the_start(rate: int, seconds: int) -> None:
    measured = rate_of(rate, seconds).per_second(at(seconds))

    assert measured == pytest.approx(rate, rel=0.3)


def test_a_rate_that_has_ended_fades() -> None:
    steady = rate_of(20, 60)

    assert [round(steady.per_second(at(60 + after))) for after in (0, 20, 60)] == [20, 7, 1]


def test_a_batch_counts_for_what_it_is() -> None:
    once = EventRate(START, START).with_more(100, at(0))

    assert once.per_second(at(0)) == pytest.approx(100, rel=0.1)
    assert once.per_second(at(60)) < 1


def test_a_clock_that_goes_back_does_no_harm() -> None:
    assert rate_of(20, 10).per_second(at(5)) > 0
    set_back = rate_of(20, 10).with_more(1, at(-21600)).with_more(1, at(-21500))
    assert set_back.per_second(at(-21500)) < 1


def due(
    first: float,
    rate: float,
    sizes: list[int],
    times: ReturnTimes = EMPTY,
    *,
    was_held: bool = False,
) -> list[datetime]:
    return times.due_times(at(first), rate, sizes, was_held=was_held)[0]


def test_held_events_come_as_fast_as_new_ones() -> None:
    found, times = EMPTY.due_times(at(10), 20, [1] * 21)

    assert found[0] == at(10)
    assert found[20] - found[0] == SECOND
    assert times.end == at(10) + 21 * SECOND / 20


def test_hardly_any_events_still_come_back_soon() -> None:
    assert due(10, 0.01, [1] * 16)[-1] == at(13)


@pytest.mark.parametrize(("taken_until", "first"), [(0, 10), (10, 10), (12, 12)], ids=str)
def test_no_request_gets_a_time_that_is_taken(taken_until: float, first: float) -> None:
    assert due(10, 20, [1], replace(EMPTY, end=at(taken_until))) == [at(first)]


def test_a_request_takes_as_much_time_as_its_events() -> None:
    assert due(0, 20, [20, 40, 1]) == [at(0), at(1), at(3)]


def test_what_was_held_before_comes_back_before_new_events() -> None:
    """The first hold ends at 10 s, with times up to 20; the next one is from 12 to 22 s."""
    _, times = EMPTY.during(at(10), at(0)).due_times(at(10), 20, [1] * 200)
    times = times.during(at(22), at(12))
    new, times = times.due_times(at(22), 20, [1] * 3)
    old, times = times.due_times(at(22), 20, [1] * 160, was_held=True)
    later, times = times.due_times(at(22), 20, [1], was_held=False)

    assert old == [at(22 + number / 20) for number in range(160)]
    assert [*new, *later] == [at(30 + number / 20) for number in range(4)]


def test_a_hold_that_is_extended_keeps_nothing_free_twice() -> None:
    times = replace(EMPTY, end=at(8)).during(at(10), at(0))

    assert times.during(at(11), at(1)) == replace(times, held_until=at(11))
    assert (times.again_from, times.end) == (at(10), at(18))


def test_what_is_held_again_gets_no_time_of_another() -> None:
    """Where times are taken beyond the hold, and where more come again than had times."""
    times = replace(EMPTY, end=at(60)).during(at(10), at(0))

    old, times = times.due_times(at(10), 20, [1] * 201, was_held=True)
    assert (old[0], old[199], old[200]) == (at(60), at(69.95), at(70))
    assert times.due_times(at(10), 20, [1])[0] == [at(70.05)]
