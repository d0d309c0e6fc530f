"""The retry rules of ``latest``; contract §3.4 gives the tables, §3.5 the counting."""

from __future__ import annotations

from datetime import timedelta

import pytest

from shared.delivery.outcome import DeliveryOutcome, Outcome
from shared.delivery.policy import (
    Delivered,
    End,
    EndReason,
    Go,
    RetryAt,
    before_attempt,
    decide,
)
from shared.delivery.profiles import PROFILES
from tests.builders import DEAD, a_delivery, an_outcome, terms
from tests.fakes import START
from tests.unit.delivery.stories import LATEST, outcome_of, story

NO_ANSWER = an_outcome(Outcome.GENERIC_ERROR, None)  # the one without a probation


SECOND = timedelta(seconds=1)


BY_SCHEDULE = (
    "0:00:00 0:00:10 0:00:40 0:01:40 0:06:40 0:16:40 0:46:40 1:46:40 4:46:40 10:46:40 22:46:40"
)


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        pytest.param(NO_ANSWER, BY_SCHEDULE, id="no answer"),
        pytest.param(outcome_of(500), BY_SCHEDULE, id="500"),
        pytest.param(
            outcome_of(503),
            "0:00:00 0:00:30 0:01:00 0:02:00 0:07:00 0:17:00 0:47:00 1:47:00 4:47:00 10:47:00"
            " 22:47:00",
            id="503",
        ),
        pytest.param(
            outcome_of(408),
            "0:00:00 0:02:00 0:04:00 0:06:00 0:11:00 0:21:00 0:51:00 1:51:00 4:51:00 10:51:00"
            " 22:51:00",
            id="408",
        ),
        pytest.param(
            outcome_of(404),
            "0:00:00 0:05:00 0:10:00 0:15:00 0:20:00 0:30:00 1:00:00 2:00:00 5:00:00 11:00:00"
            " 23:00:00",
            id="404",
        ),
    ],
)
def test_attempts_of_a_day_follow_the_documented_table(
    outcome: DeliveryOutcome, expected: str
) -> None:
    """Contract §3.4, delay reading: 11 attempts within the default time to live."""
    begun, ended_at, reason = story(outcome, terms())

    assert begun == expected
    assert (reason, ended_at - START > timedelta(days=1)) == (EndReason.TIME_TO_LIVE, True)


def test_waits_run_from_the_failure_not_from_the_send() -> None:
    """Contract §3.4: with every attempt timing out after 30 s."""
    begun, _, _ = story(an_outcome(Outcome.TIMED_OUT, None), terms(), timedelta(seconds=30))

    assert begun == (
        "0:00:00 0:00:40 0:01:40 0:03:10 0:08:40 0:19:10 0:49:40 1:50:10 4:50:40 10:51:10 22:51:40"
    )


@pytest.mark.parametrize(
    ("minutes", "attempts"),
    [(1, 3), (2, 4), (5, 4), (10, 5), (20, 6), (30, 6), (60, 7), (120, 8), (1440, 11)],
)
def test_time_to_live_allows_so_many_attempts(minutes: int, attempts: int) -> None:
    """Contract §3.4; the seed of 2023 says 6 for 30 minutes."""
    begun, _, reason = story(NO_ANSWER, terms(minutes=minutes))

    assert (len(begun.split()), reason) == (attempts, EndReason.TIME_TO_LIVE)


def test_time_to_live_is_looked_at_only_when_due() -> None:
    """Contract §3.1: with 30 minutes to live the end is noticed at the slot of 46:40."""
    _, ended_at, _ = story(NO_ANSWER, terms(minutes=30))

    assert ended_at - START == timedelta(minutes=46, seconds=40)


@pytest.mark.parametrize(
    ("age", "expected"),
    [(-SECOND, Go()), (timedelta(), End), (SECOND, End)],
    ids=["just before", "exactly", "after"],
)
def test_an_event_as_old_as_its_time_to_live_has_expired(age: timedelta, expected: object) -> None:
    verdict = before_attempt(a_delivery(), terms(minutes=10), START + timedelta(minutes=10) + age)

    if expected is End:
        assert verdict == End(EndReason.TIME_TO_LIVE, "older than 10 min")
    else:
        assert verdict == expected


@pytest.mark.parametrize("most", [1, 2, 10, 11])
def test_the_limit_of_attempts_counts_the_first(most: int) -> None:
    """Contract §3.5; the event ends at once, not at the next slot."""
    begun, ended_at, reason = story(NO_ANSWER, terms(max_attempts=most))

    assert (begun, reason) == (" ".join(BY_SCHEDULE.split()[:most]), EndReason.MAX_ATTEMPTS)
    assert str(ended_at - START) == BY_SCHEDULE.split()[most - 1]


@pytest.mark.parametrize(("attempts", "goes"), [(4, True), (5, False), (6, False)])
def test_a_limit_that_was_lowered_meanwhile_ends_it_without_a_push(
    attempts: int, *, goes: bool
) -> None:
    verdict = before_attempt(a_delivery(attempts=attempts), terms(max_attempts=5), START)

    expected = End(EndReason.MAX_ATTEMPTS, "all 5 attempts made")
    assert verdict == (Go() if goes else expected)


def test_time_to_live_wins_over_the_limit_of_attempts() -> None:
    verdict = before_attempt(a_delivery(attempts=9), terms(max_attempts=5, minutes=0), START)

    assert isinstance(verdict, End)
    assert verdict.reason is EndReason.TIME_TO_LIVE


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (400, "UndeliverableDueToHttpBadRequest"),
        (401, "UndeliverableDueToHttpUnauthorized"),
        (403, "UndeliverableDueToHttpForbidden"),
        (413, "UndeliverableDueToHttpPayloadTooLarge"),
    ],
)
def test_some_answers_are_never_retried(status: int, reason: str) -> None:
    """Contract §3.2, ``latest`` for webhooks; reasons §4.3."""
    delivery = a_delivery().tried(outcome_of(status), START)

    decision = decide(delivery, outcome_of(status), terms(), START, 0.0)

    assert decision == End(EndReason(reason), f"{status} is never retried", is_final_answer=True)


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
    ],
)
def test_a_retry_names_the_rule_behind_it(
    attempts: int, outcome: DeliveryOutcome, why: str
) -> None:
    decision = decide(a_delivery(attempts=attempts), outcome, terms(), START, 0.0)

    assert isinstance(decision, RetryAt)
    assert decision.why == why


def test_latest_has_the_documented_values() -> None:
    """Contract §3.1, column ``latest``."""
    assert LATEST.acknowledgement_timeout == timedelta(seconds=30)
    assert LATEST.dead_letter_delay == timedelta(minutes=5)
    assert LATEST.dead_letter_keep == timedelta(hours=4)
