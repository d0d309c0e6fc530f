"""``Retry-After``: what it says, and how far it is followed."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pushgrid.testing.memory import START
from shared.clock import in_words
from shared.delivery.outcome import Outcome
from shared.delivery.policy import RetryAt, asked_wait, decide, retry
from shared.delivery.profiles import PROFILES
from tests.builders import a_delivery, an_outcome, terms

SECOND = timedelta(seconds=1)
BUSY = an_outcome(Outcome.BUSY, 503)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("45", 45),
        ("0", 0),
        ("007", 7),
        ("9" * 5000, 365 * 86_400),
        ("Mon, 09 Feb 2026 12:00:45 GMT", 45),
        ("Monday, 09-Feb-26 12:00:45 GMT", 45),
        ("Mon Feb  9 12:00:45 2026", 45),
        ("Mon, 09 Feb 2026 11:59:00 GMT", 0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 365 * 86_400),
    ],
)
def test_seconds_and_the_three_forms_of_a_date_are_understood(text: str, seconds: int) -> None:
    """RFC 9110, 5.6.7 and 10.2.3."""
    assert asked_wait(text, START) == seconds * SECOND


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "-5",
        "+5",
        "1.5",
        "1e3",
        "5 s",
        "45, 60",
        "²",
        "٣",
        "soon",
        "inf",
        "nan",
        "2026-02-09T12:00:45Z",
        "Mon, 30 Feb 2026 12:00:45 GMT",
        "Mon, 09 Feb 2026 25:00:45 GMT",
        "Mon, 09 Feb 2026 12:00:45 CET",
        "Mon, 09 Feb 2026 12:00:45",
    ],
)
def test_anything_else_is_as_if_there_were_none(text: str | None) -> None:
    assert asked_wait(text, START) is None


def test_a_date_is_never_early() -> None:
    assert asked_wait("Mon, 09 Feb 2026 12:00:45 GMT", START + 0.3 * SECOND) == 45 * SECOND


@pytest.mark.parametrize(
    ("asked", "seconds", "why"),
    [
        ("29", 30, "minimum for 503: 30 s"),
        ("30", 30, "minimum for 503: 30 s"),
        ("31", 31, "Retry-After of the endpoint: 31 s"),
        ("60", 60, "Retry-After of the endpoint: 1 min"),
        ("61", 60, "Retry-After of the endpoint: 61 s, limited to twice the wait"),
        ("9" * 99, 60, "Retry-After of the endpoint: 8760 h, limited to twice the wait"),
        ("soon", 30, "minimum for 503: 30 s"),
    ],
)
def test_it_is_followed_between_the_wait_and_twice_the_wait(
    asked: str, seconds: int, why: str
) -> None:
    rules = terms(honor_retry_after=True)

    decision = decide(a_delivery(attempts=1), replace(BUSY, retry_after=asked), rules, START, 0.0)

    assert decision == RetryAt(START + seconds * SECOND, why)


@pytest.mark.parametrize("status", [s for s in range(300, 600) if s not in {429, 503}])
def test_only_429_and_503_may_ask(status: int) -> None:
    outcome = an_outcome(Outcome.GENERIC_ERROR, status)
    asking = replace(outcome, retry_after="15")
    rules = terms(honor_retry_after=True)

    decisions = [retry(a_delivery(attempts=1), each, rules, START, 0) for each in (outcome, asking)]

    assert decisions[0] == decisions[1]


def test_it_is_real_time() -> None:
    """At sixty times the speed a minute is a second; the endpoint's clock is not ours to hurry."""
    rules = terms(honor_retry_after=True, time_scale=10)

    decision = retry(a_delivery(attempts=1), replace(BUSY, retry_after="5"), rules, START, 0.0)

    assert decision == RetryAt(START + 5 * SECOND, "Retry-After of the endpoint: 5 s")


@given(
    profile=st.sampled_from(sorted(PROFILES)),
    attempts=st.integers(1, 30),
    status=st.sampled_from([429, 503]),
    asked=st.integers(0, 10**12).map(str)
    | st.datetimes(datetime(2025, 1, 1), datetime(2030, 1, 1)).map(  # noqa: DTZ001
        lambda moment: format_datetime(moment.replace(tzinfo=UTC), usegmt=True)
    )
    | st.text(max_size=20),
    jitter=st.floats(0, 1, exclude_max=True),
    scale=st.sampled_from([1, 7, 60, 3600]),
)
def test_the_wait_stays_between_the_one_chosen_and_twice_that(
    profile: str, attempts: int, status: int, asked: str, jitter: float, scale: float
) -> None:
    delivery, outcome = a_delivery(attempts=attempts), an_outcome(Outcome.BUSY, status)
    rules = terms(profile=profile, time_scale=scale)
    chosen = retry(delivery, outcome, rules, START, jitter).due - START

    asking = replace(outcome, retry_after=asked)
    followed = replace(rules, honor_retry_after=True)
    wait = retry(delivery, asking, followed, START, jitter).due - START

    assert chosen <= wait <= 2 * chosen


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(90, "90 s"), (0.5, "0.5 s"), (60, "1 min"), (5400, "90 min"), (7200, "2 h")],
)
def test_waits_are_written_as_people_say_them(seconds: float, words: str) -> None:
    assert in_words(seconds * SECOND) == words
