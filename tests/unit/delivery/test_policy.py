"""The rules of ``latest`` beside the tables of times, which `tests/conformance` has."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pushgrid.testing.memory import START, answered
from shared.clock import in_words
from shared.delivery.outcome import DeliveryOutcome, Outcome, classify
from shared.delivery.policy import (
    Delivered,
    End,
    EndReason,
    RetryAt,
    asked_wait,
    before_attempt,
    decide,
    retry,
)
from shared.delivery.profiles import PROFILES
from shared.http import Failure, NotAnswered
from tests.builders import a_delivery, an_outcome, terms

NO_ANSWER = an_outcome(Outcome.GENERIC_ERROR, None)  # the one without a probation
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)


def outcome_of(status: int) -> DeliveryOutcome:
    return classify(answered(status), PROFILES["latest"].success_codes)


EXPIRED = End(EndReason.TIME_TO_LIVE, "older than 10 min")
EXHAUSTED = End(EndReason.MAX_ATTEMPTS, "all 5 attempts made")


@pytest.mark.parametrize(
    ("attempts", "age", "verdict"),
    [
        pytest.param(0, 10 * MINUTE - SECOND, None, id="just before"),
        pytest.param(0, 10 * MINUTE, EXPIRED, id="exactly as old"),
        pytest.param(0, 10 * MINUTE + SECOND, EXPIRED, id="older"),
        pytest.param(4, MINUTE, None, id="the last attempt"),
        pytest.param(5, MINUTE, EXHAUSTED, id="all made"),
        pytest.param(6, MINUTE, EXHAUSTED, id="lowered meanwhile"),
        pytest.param(6, 10 * MINUTE, EXPIRED, id="time to live wins"),
    ],
)
def test_what_is_due_is_pushed_unless_it_is_too_old_or_used_up(
    attempts: int, age: timedelta, verdict: End | None
) -> None:
    rules = terms(max_attempts=5, minutes=10)

    assert before_attempt(a_delivery(attempts=attempts), rules, START + age) == verdict


def test_every_other_answer_is_retried() -> None:
    """Contract §3.2: among them redirects, 404 for webhooks, 410, 414 and 429."""
    failures = [status for status in range(100, 600) if status not in range(200, 205)]

    retried = [
        status
        for status in failures
        if isinstance(
            decide(a_delivery(attempts=1), outcome_of(status), terms(), START, 0), RetryAt
        )
    ]

    assert set(failures) - set(retried) == {400, 401, 403, 413}


def test_of_what_can_go_wrong_in_a_namespace_most_is_final() -> None:
    """ArgumentException and UnauthorizedAccessException, as the edition lists them; no fault."""
    final = {
        failure
        for failure in set(Failure) - {Failure.SHORTAGE}
        for outcome in [classify(NotAnswered(failure, "", 0), {200})]
        if isinstance(decide(a_delivery(attempts=1), outcome, terms(profile="ns"), START, 0), End)
    }

    unreachable = {Failure.RESOLUTION, Failure.SOCKET, Failure.TLS, Failure.TIMED_OUT}
    assert final == {*unreachable, Failure.UNSENDABLE, Failure.UNAUTHORIZED}


def test_a_success_is_delivered_even_at_the_last_attempt() -> None:
    decision = decide(a_delivery(attempts=30), outcome_of(202), terms(), START, 0.0)

    assert decision == Delivered()


@pytest.mark.parametrize(
    ("attempts", "outcome", "why"),
    [
        pytest.param(1, outcome_of(503), "minimum for 503: 30 s", id="minimum"),
        pytest.param(2, outcome_of(503), "schedule step 2: 30 s", id="a tie is the schedule's"),
        pytest.param(3, outcome_of(503), "schedule step 3: 1 min", id="schedule"),
        pytest.param(1, outcome_of(500), "schedule step 1: 10 s", id="all others"),
        pytest.param(9, NO_ANSWER, "schedule step 9: 6 h", id="last step"),
        pytest.param(10, NO_ANSWER, "schedule: every 12 h", id="tail begins"),
        pytest.param(29, NO_ANSWER, "schedule: every 12 h", id="tail goes on"),
        pytest.param(30, NO_ANSWER, "all 30 attempts made", id="the last attempt"),
        pytest.param(1, outcome_of(400), "400 is never retried", id="a final answer"),
    ],
)
def test_a_decision_names_the_rule_behind_it(
    attempts: int, outcome: DeliveryOutcome, why: str
) -> None:
    decision = decide(a_delivery(attempts=attempts), outcome, terms(), START, 0.0)

    assert not isinstance(decision, Delivered)
    assert decision.why == why


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
        "1.5",
        "²",
        "soon",
        "2026-02-09T12:00:45Z",
        "Mon, 30 Feb 2026 12:00:45 GMT",
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
