"""What the counts of the last hour say of a subscription."""

from __future__ import annotations

from datetime import timedelta

import pytest

from pushgrid.testing.memory import START
from shared.engine.operations.activity import Activity, GivenUp, activity_of
from shared.metrics import Metric, Series
from tests.builders import sums

MINUTE = timedelta(minutes=1)
DONE, AGE = Series(Metric.DELIVERY_SUCCESS), Series(Metric.EVENT_AGE)


def failed(by: str = "Busy") -> Series:
    return Series(Metric.ATTEMPT_FAIL, (("Error", by), ("ErrorType", "ServerError")))


def judged(*minutes: tuple[int, dict[Series, float]]) -> Activity:
    """Judge minutes, each so many ago."""
    return activity_of(7, [(START - ago * MINUTE, sums(each)) for ago, each in minutes], START)


@pytest.mark.parametrize(
    ("minutes", "since"),
    [
        ([], None),
        ([(0, {DONE: 5})], None),
        ([(0, {failed(): 5})], 0),
        ([(5, {DONE: 100, failed(): 1}), (0, {DONE: 1, failed(): 1})], None),  # one event fails
        ([(9, {failed(): 1}), (5, {DONE: 1}), (0, {failed(): 1})], None),  # alternately
        ([(30, {DONE: 9}), (20, {failed(): 3}), (10, {failed(): 3}), (0, {failed(): 3})], 20),
        ([(30, {failed(): 9}), (1, {DONE: 50}), (0, {DONE: 50})], None),  # mended
        ([(1, {failed(): 90}), (0, {DONE: 3})], 1),  # … a moment ago
        ([(40, {failed(): 1})], 40),  # nothing was tried since
    ],
)
def test_an_endpoint_fails_if_most_of_its_latest_attempts_do(
    minutes: list[tuple[int, dict[Series, float]]], since: int | None
) -> None:
    found = judged(*minutes).failing_since

    assert found == (None if since is None else START - since * MINUTE)


def test_the_oldest_event_is_that_of_the_last_ten_minutes() -> None:
    assert judged((10, {AGE: 9e6})).oldest_seen is None
    assert judged((9, {AGE: 6e4}), (2, {AGE: 3e4})).oldest_seen == MINUTE


def test_what_was_delivered_lately_is_that_of_two_whole_minutes_and_this_one() -> None:
    found = judged((3, {DONE: 1}), (2, {DONE: 2}), (1, {DONE: 4}), (0, {DONE: 8}))

    assert found.delivered_lately == 14


def test_events_given_up_are_named_by_reason_for_a_quarter_of_an_hour() -> None:
    lost = Series(Metric.DROPPED, (("DropReason", "TimeToLiveExceeded"),))
    more = Series(Metric.DROPPED, (("DropReason", "MaxDeliveryAttemptsExceeded"),))

    found = judged((15, {lost: 9}), (14, {lost: 2}), (1, {lost: 3, more: 1}))

    reasons = {"TimeToLiveExceeded": 5, "MaxDeliveryAttemptsExceeded": 1}
    assert found.dropped == GivenUp(reasons, START - 14 * MINUTE)
    assert found.dead_lettered is None


def test_rows_of_several_processes_are_one_minute() -> None:
    found = judged((1, {failed("TimedOut"): 2}), (1, {failed(): 1, DONE: 1}), (0, {failed(): 1}))

    assert (found.failing_since, found.attempts, found.error) == (START - MINUTE, 5, "TimedOut")
