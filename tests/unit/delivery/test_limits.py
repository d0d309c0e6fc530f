"""How many requests go to an endpoint: its limit, its allowed rate, a process's share, returns."""

from __future__ import annotations

from bisect import bisect_left
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pushgrid.testing.memory import START
from shared.delivery.furthest import LONGEST_REQUEUE
from shared.delivery.pace import (
    ALONE,
    FIRST,
    MOST,
    Allowance,
    Limit,
    Pacing,
    PushTimes,
    Returns,
    Share,
    Speed,
    ask,
    share_of,
)
from shared.subscriptions.request_limits import NO_LIMITS, RequestLimits


def after_successes(limit: Limit, count: int) -> Limit:
    for _ in range(count):
        limit = limit.after_success()
    return limit


def test_a_round_trip_of_successes_doubles_it() -> None:
    assert after_successes(Limit(), FIRST).value == 2 * FIRST


def test_half_of_it_in_use_is_enough_and_less_is_not() -> None:
    assert [Limit(value=16).is_half_used(under_way) for under_way in (7, 8)] == [False, True]


def test_it_grows_up_to_its_most() -> None:
    assert after_successes(Limit(), 10_000).value == MOST
    assert after_successes(Limit.up_to(20), 100).value == 20
    assert Limit.up_to(4).value == 4


def test_failures_of_one_round_trip_are_one_halving() -> None:
    limit = Limit(value=256)

    for number in range(256):
        limit = limit.after_failure(sent_at=0.0, now=30.0 + number / 1000)

    assert limit.value == 128


def test_what_was_sent_after_a_halving_halves_again_but_never_below_one() -> None:
    limit = Limit(value=4)

    for second in range(5):
        limit = limit.after_failure(sent_at=float(second), now=second + 0.5)

    assert limit.value == 1


def after_late_successes(limit: Limit, *failed_at: float, half_used: bool = False) -> Limit:
    for at in failed_at:
        limit = limit.after_late_success(at, half_used=half_used)
    return limit


@given(
    first=st.integers(1, MOST),
    rounds=st.lists(st.integers(1, 4), min_size=1, max_size=8),
    data=st.data(),
)
def test_without_the_late_ones_the_other_failures_halve_it(
    first: int, rounds: list[int], data: st.DataObject
) -> None:
    """Failures of several round trips, some of them timeouts that are answered in any order."""
    failed_at = [number + each / 10 for number, count in enumerate(rounds) for each in range(count)]
    is_late = data.draw(st.lists(st.booleans(), min_size=len(failed_at), max_size=len(failed_at)))
    late = data.draw(
        st.permutations([at for at, late in zip(failed_at, is_late, strict=True) if late])
    )
    limit = Limit(first)
    for at in failed_at:
        limit = limit.after_failure(sent_at=int(at) - 0.5, now=at)

    found = after_late_successes(limit, *late)

    expected = Limit(first)
    for at in sorted(set(failed_at) - set(late)):
        expected = expected.after_failure(sent_at=int(at) - 0.5, now=at)
    assert found.value == expected.value


def test_what_was_gained_since_a_halving_is_not_added_to_what_it_took() -> None:
    """It is no more than before, unless the successes alone have made it more."""
    halved = Limit(16).after_failure(sent_at=0, now=30)

    found = [
        after_late_successes(after_successes(halved, count), 30.0).value for count in (0, 5, 8, 12)
    ]

    assert found == [16, 16, 16, 20]


def test_a_round_trip_of_which_one_failed_is_halved_until_its_successes_make_it_good() -> None:
    """Late ones, too, as far as an endpoint gets of which nothing is known."""
    limit = Limit(16).after_failure(sent_at=0, now=30)
    for _ in range(15):
        limit = limit.after_failure(sent_at=0, now=30.1)

    late = [30.1] * 15
    assert after_late_successes(limit, *late).value == 8
    assert after_late_successes(limit, *late[:5], half_used=True).value == 13
    assert after_late_successes(limit, *late, half_used=True).value == FIRST
    assert after_late_successes(limit, *late, 30.0, half_used=True).value == FIRST
    assert after_late_successes(Limit(64), *late, half_used=True).value == 64
    assert after_late_successes(Limit.up_to(4), *late, half_used=True).value == 4


def test_a_halving_that_is_long_ago_stays() -> None:
    """Eight more have followed it: of late answers to its requests nothing is known any more."""
    limit = Limit(256).after_failure(sent_at=0, now=1)
    for second in range(8):
        limit = after_successes(limit.after_failure(sent_at=second + 2, now=second + 3), 50)

    assert after_late_successes(limit, 1.0) == limit


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


@pytest.mark.parametrize("rate", [1, 600])
def test_a_clock_that_is_set_back_keeps_nobody_waiting(rate: int) -> None:
    """What was granted before would have been due six hours later."""
    allowance: Allowance | None = None
    for _ in range(3 * rate):
        allowance, _ = ask(allowance, rate, START + timedelta(hours=6))

    _, place = ask(allowance, rate, START)

    assert place
    assert place <= START + timedelta(minutes=5)


@given(whole=st.integers(1, 100_000), processes=st.integers(1, 200))
def test_all_shares_together_are_the_limit(whole: int, processes: int) -> None:
    shares = [Share(place, processes).of(whole) for place in range(processes)]

    assert sum(shares) == whole
    assert max(shares) - min(shares) <= 1


@given(
    whole=st.integers(1, 300),
    users=st.sets(st.integers(0, 20), min_size=1),
    others=st.lists(st.sets(st.integers(0, 20)), min_size=21, max_size=21),
)
def test_who_counts_more_than_there_are_takes_no_more(
    whole: int, users: set[int], others: list[set[int]]
) -> None:
    """Each counts all that have a share and, as rows are read at different times, some others."""
    shares = []
    for user in users:
        counted = sorted(users | others[user])
        shares.append(Share(counted.index(user), len(counted)).of(whole))

    assert sum(shares) <= whole


@pytest.mark.parametrize(
    ("limits", "a_minute"),
    [(RequestLimits(2, None), None), (RequestLimits(None, 2), None), (NO_LIMITS, 2)],
)
def test_whose_share_of_any_limit_is_nothing_sends_nothing(
    limits: RequestLimits, a_minute: int | None
) -> None:
    stopped = [Pacing().with_share(Share(n, 3), limits, a_minute).is_stopped for n in range(3)]

    assert stopped == [False, False, True]


def test_the_place_of_a_process_is_that_of_its_name() -> None:
    assert share_of("c", []) == ALONE
    assert [share_of(*each) for each in (("a", "bc"), ("b", "ac"), ("c", "ab"))] == [
        Share(0, 3),
        Share(1, 3),
        Share(2, 3),
    ]


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

    assert times == [1, LONGEST_REQUEUE.total_seconds()]
    assert returns.booked_until == START + LONGEST_REQUEUE


def test_a_long_hold_reserves_no_time_after_it() -> None:
    """Released before its end, it leaves the next hold's first place free."""
    returns, times = book(Returns(START), [1] * 100, rate=10, soonest=timedelta(hours=1))
    _, after = book(returns, [1], rate=10, soonest=10 * SECOND)

    assert times == [LONGEST_REQUEUE.total_seconds()] * 100
    assert after == [10]


@pytest.mark.parametrize(
    ("average", "hangs", "speed"),
    [
        (None, 0.0, Speed.UNKNOWN),
        (None, 1.1, Speed.SLOW),
        (1.0, 1.0, Speed.QUICK),
        (0.2, 1.1, Speed.SLOW),
        (1.1, 0.0, Speed.SLOW),
    ],
)
def test_an_endpoint_is_slow_by_its_average_or_by_a_push_that_hangs(
    average: float | None, hangs: float, speed: Speed
) -> None:
    assert PushTimes(average).speed(hangs) is speed
