"""The limit of an endpoint: it doubles each round trip, and is halved once a round trip."""

from __future__ import annotations

from shared.delivery.pace import FIRST, MOST, Limit


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
