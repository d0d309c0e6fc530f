"""What an endpoint can't take now comes back one after another, at its pace."""

from __future__ import annotations

from datetime import timedelta

from pushgrid.testing.memory import START
from shared.delivery.furthest import LONGEST_PUT_BACK
from shared.delivery.pace import Returns

SECOND = timedelta(seconds=1)


def book(
    returns: Returns, counts: list[int], rate: float, soonest: timedelta = SECOND
) -> tuple[Returns, list[float]]:
    times = []
    for count in counts:
        returns, due = returns.book(count, START + soonest, rate, START)
        times.append((due - START).total_seconds())
    return returns, times


def test_they_are_spread_at_the_rate() -> None:
    _, times = book(Returns(START), [10, 20, 5], rate=10)

    assert times == [1, 2, 4]


def test_they_are_not_back_before_the_soonest_moment() -> None:
    returns, _ = book(Returns(START), [1], rate=10)

    _, times = book(returns, [1], rate=10, soonest=timedelta(minutes=2))

    assert times == [120]


def test_a_clock_that_was_set_back_delays_nothing() -> None:
    returns = Returns(START + timedelta(hours=6))

    _, times = book(returns, [10, 1], rate=10)

    assert times == [1, 2]


def test_all_are_back_after_five_minutes_to_be_checked() -> None:
    returns, times = book(Returns(START), [100_000, 1], rate=10)

    assert times == [1, LONGEST_PUT_BACK.total_seconds()]
    assert returns.booked_until == START + LONGEST_PUT_BACK


def test_a_long_hold_reserves_no_time_after_it() -> None:
    """Released before its end, it leaves the next hold's first place free."""
    returns, times = book(Returns(START), [1] * 100, rate=10, soonest=timedelta(hours=1))
    _, after = book(returns, [1], rate=10, soonest=10 * SECOND)

    assert times == [LONGEST_PUT_BACK.total_seconds()] * 100
    assert after == [10]
