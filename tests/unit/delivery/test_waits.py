"""How long a retry waits: jitter, scale, the shortest wait, and the words for it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.delivery.delivery import Delivery
from shared.delivery.outcome import Outcome, classify
from shared.delivery.policy import (
    End,
    Go,
    before_attempt,
    retry,
)
from shared.http import Failure, NotAnswered
from tests.builders import a_delivery, an_outcome, terms
from tests.fakes import START
from tests.unit.delivery.stories import LATEST, outcome_of, story

NO_ANSWER = an_outcome(Outcome.GENERIC_ERROR, None)  # the one without a probation


SECOND = timedelta(seconds=1)


def test_our_own_timeout_has_no_minimum() -> None:
    """Design §3: minimum delays are keyed by HTTP status; a 408 answer waits 2 min."""
    timed_out = classify(NotAnswered(Failure.TIMED_OUT, "", 30.0), LATEST.success_codes)

    decision = retry(a_delivery(attempts=1), timed_out, terms(), START, 0.0)

    assert decision.due - START == timedelta(seconds=10)


@given(
    attempts=st.integers(1, 30),
    status=st.none() | st.integers(100, 599),
    jitter=st.floats(0, 1, exclude_max=True),
    scale=st.sampled_from([1, 7, 60, 3600]),
)
def test_jitter_is_small_and_never_early(
    attempts: int, status: int | None, jitter: float, scale: float
) -> None:
    """Design §2, Waiting: at most 10 % and at most 3 s, on top; never less than a second."""
    delivery, rules = a_delivery(attempts=attempts), terms(time_scale=scale)
    outcome = an_outcome(Outcome.GENERIC_ERROR, status)

    exact = retry(delivery, outcome, rules, START, 0.0).due - START
    wait = retry(delivery, outcome, rules, START, jitter).due - START

    assert SECOND <= exact <= wait
    rounding = timedelta(microseconds=1)
    assert wait <= exact + min(exact * 0.1, timedelta(seconds=3)) + rounding


@given(status=st.none() | st.integers(100, 599), jitter=st.floats(0, 1, exclude_max=True))
def test_waits_never_shrink_along_the_schedule(status: int | None, jitter: float) -> None:
    outcome = an_outcome(Outcome.GENERIC_ERROR, status)
    tries: list[Delivery] = [a_delivery(attempts=number) for number in range(1, 31)]

    dues = [retry(each, outcome, terms(), START, jitter).due for each in tries]

    assert dues == sorted(dues)


def test_full_jitter_reaches_its_bounds() -> None:
    nearly = 1 - 1e-9
    dues = [
        retry(a_delivery(attempts=number), NO_ANSWER, terms(), START, nearly).due - START
        for number in (1, 2, 9)
    ]

    assert [round(due.total_seconds(), 3) for due in dues] == [11, 33, 6 * 3600 + 3]


@pytest.mark.parametrize("scale", [10, 50])
def test_the_time_scale_divides_every_wait_and_no_reason(scale: int) -> None:
    """Design §3, PUSHGRID_TIME_SCALE: reasons name the documented times."""
    for attempts in range(1, 31):
        delivery = a_delivery(attempts=attempts)
        slow = retry(delivery, outcome_of(404), terms(), START, 0.5)
        quick = retry(delivery, outcome_of(404), terms(time_scale=scale), START, 0.5)

        assert quick.due - START == (slow.due - START) / scale
        assert quick.why == slow.why


def test_the_time_to_live_is_scaled() -> None:
    rules = terms(minutes=10, time_scale=60)

    assert isinstance(before_attempt(a_delivery(), rules, START + 9.9 * SECOND), Go)
    assert isinstance(before_attempt(a_delivery(), rules, START + 10 * SECOND), End)


def test_no_wait_falls_below_a_second() -> None:
    """Design §3: queue visibility has whole seconds."""
    begun, _, _ = story(NO_ANSWER, terms(time_scale=3600))

    assert begun.startswith("0:00:00 0:00:01 0:00:02 0:00:03 0:00:04 0:00:05")


@pytest.mark.parametrize(
    ("wait", "words"),
    [(90, "90 s"), (0.5, "0.5 s"), (60, "1 min"), (5400, "90 min"), (7200, "2 h")],
)
def test_waits_are_written_as_people_say_them(wait: float, words: str) -> None:
    rules = terms(minutes=wait / 60)

    verdict = before_attempt(a_delivery(), rules, START + timedelta(days=1))

    assert isinstance(verdict, End)
    assert verdict.why == f"older than {words}"
