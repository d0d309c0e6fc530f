"""The rules of ``latest`` beside the tables of times, which `tests/conformance` has."""

from __future__ import annotations

from datetime import timedelta

import pytest

from pushgrid.testing.memory import START, answered
from shared.delivery.outcome import DeliveryOutcome, Outcome, classify
from shared.delivery.policy import (
    Delivered,
    End,
    EndReason,
    Go,
    RetryAt,
    before_attempt,
    decide,
    retry,
)
from shared.delivery.profiles import PROFILES
from shared.http import Failure, NotAnswered
from tests.builders import DEAD, a_delivery, an_outcome, terms

NO_ANSWER = an_outcome(Outcome.GENERIC_ERROR, None)  # the one without a probation
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)


def outcome_of(status: int) -> DeliveryOutcome:
    return classify(answered(status), PROFILES["latest"].success_codes)


EXPIRED = End(EndReason.TIME_TO_LIVE, "older than 10 min")
EXHAUSTED = End(EndReason.MAX_ATTEMPTS, "all 5 attempts made")


@pytest.mark.parametrize(
    ("attempts", "age", "verdict"),
    [
        pytest.param(0, 10 * MINUTE - SECOND, Go(), id="just before"),
        pytest.param(0, 10 * MINUTE, EXPIRED, id="exactly as old"),
        pytest.param(0, 10 * MINUTE + SECOND, EXPIRED, id="older"),
        pytest.param(4, MINUTE, Go(), id="the last attempt"),
        pytest.param(5, MINUTE, EXHAUSTED, id="all made"),
        pytest.param(6, MINUTE, EXHAUSTED, id="lowered meanwhile"),
        pytest.param(6, 10 * MINUTE, EXPIRED, id="time to live wins"),
    ],
)
def test_what_is_due_is_pushed_unless_it_is_too_old_or_used_up(
    attempts: int, age: timedelta, verdict: Go | End
) -> None:
    rules = terms(max_attempts=5, minutes=10)

    assert before_attempt(a_delivery(attempts=attempts), rules, START + age) == verdict


@pytest.mark.parametrize("profile", PROFILES)
def test_every_code_that_is_never_retried_has_a_reason(profile: str) -> None:
    rules = terms(profile=profile, dead_letter=DEAD)
    for status in rules.rules.never_retried:
        decision = decide(a_delivery(attempts=1), outcome_of(status), rules, START, 0)
        assert isinstance(decision, End), status


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
