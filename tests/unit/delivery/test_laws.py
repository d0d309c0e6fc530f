"""Laws of every edition: no attempt too many, none too late, none too early."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from pushgrid.testing.memory import START, answered
from shared.delivery.delivery import Delivery
from shared.delivery.outcome import DeliveryOutcome, classify
from shared.delivery.policy import (
    Delivered,
    DeliveryTerms,
    End,
    EndReason,
    before_attempt,
    decide,
)
from shared.delivery.profiles import PROFILES
from shared.http import Exchange, Failure, NotAnswered
from shared.subscriptions.destination import EndpointType
from tests.builders import DEAD, a_delivery

SECOND = timedelta(seconds=1)
MICROSECOND = timedelta(microseconds=1)
MOST = 3000  # attempts after which an event is taken for endless

STATUSES = [200, 202, 302, 400, 401, 403, 404, 408, 413, 414, 500, 503]
no_answers = st.sampled_from([each for each in Failure if each is not Failure.SHORTAGE])
exchanges = st.one_of(
    st.builds(answered, st.sampled_from(STATUSES), seconds=st.floats(0, 30)),
    st.sampled_from([400, 413]).map(answered),
    st.sampled_from(["1", "45", "999999"]).map(
        lambda asked: answered(503, headers={"retry-after": asked})
    ),
    st.builds(
        NotAnswered,
        no_answers,
        st.just(""),
        st.floats(0, 40),
    ),
)
failures = exchanges.filter(lambda each: isinstance(each, NotAnswered) or each.status >= 205)
scripts = st.lists(exchanges, min_size=1, max_size=12) | st.lists(failures, min_size=1, max_size=3)


@st.composite
def all_terms(draw: st.DrawFn) -> DeliveryTerms:
    """Draw the terms of any subscription under any profile that there can be."""
    profile = PROFILES[draw(st.sampled_from(sorted(PROFILES)))]
    _, shortest, longest = profile.limits.time_to_live
    minutes = draw(st.integers(shortest // SECOND // 60, longest // SECOND // 60))
    attempts = profile.limits.attempts
    return DeliveryTerms(
        profile=profile,
        max_attempts=draw(st.integers(attempts[1], attempts[2])) if attempts else None,
        time_to_live=timedelta(minutes=minutes),
        dead_letter=draw(st.sampled_from([None, DEAD])),
        endpoint=draw(st.sampled_from(EndpointType)),
        time_scale=draw(st.sampled_from([1, 10, 60, 3600])),
        honor_retry_after=draw(st.booleans()),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempted:
    """An attempt of a simulated event; times are since publish."""

    delivery: Delivery
    outcome: DeliveryOutcome
    began: timedelta
    failed: timedelta


def simulate(
    script: Sequence[Exchange], terms: DeliveryTerms, jitter: float
) -> tuple[list[Attempted], Delivered | End, timedelta]:
    """Follow one event to its end; the last answer repeats."""
    delivery, now = a_delivery(), START
    attempts: list[Attempted] = []
    while len(attempts) < MOST:
        verdict = before_attempt(delivery, terms, now)
        if isinstance(verdict, End):
            return attempts, verdict, now - START
        exchange = script[min(len(attempts), len(script) - 1)]
        outcome = classify(exchange, terms.profile.success_codes)
        delivery = delivery.tried(outcome, now)
        failed_at = now + timedelta(seconds=outcome.seconds)
        attempts.append(
            Attempted(
                delivery=delivery, outcome=outcome, began=now - START, failed=failed_at - START
            )
        )
        decision = decide(delivery, outcome, terms, failed_at, jitter)
        if isinstance(decision, Delivered | End):
            return attempts, decision, failed_at - START
        assert decision.why
        now = decision.due
    raise AssertionError("the event has no end")


stories = given(scripts, all_terms(), st.floats(0, 1, exclude_max=True))


@stories
def test_no_attempt_is_one_too_many_or_begins_after_the_time_to_live(
    script: list[Exchange], terms: DeliveryTerms, jitter: float
) -> None:
    attempts, _, _ = simulate(script, terms, jitter)

    assert [each.delivery.attempts for each in attempts] == list(range(1, len(attempts) + 1))
    assert terms.max_attempts is None or len(attempts) <= terms.max_attempts
    assert all(each.began * terms.time_scale < terms.time_to_live for each in attempts)


def least(terms: DeliveryTerms, number: int, attempt: Attempted) -> timedelta:
    """Return the documented wait after failed attempt *number*: the edition's table, read anew."""
    schedule, outcome = terms.profile.schedule, attempt.outcome
    slots = [*schedule.steps, *[schedule.tail or timedelta()] * number]
    wait = slots[number - 1]
    if schedule.by_age:
        age = attempt.failed * terms.time_scale
        beyond = max(number - len(schedule.steps), 0)
        wait = (schedule.steps[-1] + beyond * slots[-1] if beyond else wait) - age
    rules = terms.profile.endpoints[terms.endpoint]
    if outcome.status is not None:
        minimum = rules.minimum_delay.get(outcome.status, rules.other_minimum_delay)
        wait = max(wait, minimum)
    return wait / terms.time_scale


@stories
def test_no_wait_falls_below_schedule_minimum_or_a_second(
    script: list[Exchange], terms: DeliveryTerms, jitter: float
) -> None:
    attempts, _, _ = simulate(script, terms, jitter)

    for number, (one, following) in enumerate(pairwise(attempts), 1):
        wait = following.began - one.failed
        assert wait >= max(least(terms, number, one), SECOND) - MICROSECOND


@stories
def test_no_wait_is_longer_than_any_rule_asks_for(
    script: list[Exchange], terms: DeliveryTerms, jitter: float
) -> None:
    """Schedule, minimum and probation, then jitter; Retry-After at most doubles that."""
    attempts, _, _ = simulate(script, terms, jitter)

    for number, (one, following) in enumerate(pairwise(attempts), 1):
        probation = terms.profile.probation.get(one.outcome.outcome, timedelta())
        longest = max(least(terms, number, one), probation / terms.time_scale)
        longest = max(longest + min(longest * 0.1, 3 * SECOND / terms.time_scale), SECOND)
        asks = terms.honor_retry_after and one.outcome.retry_after is not None
        wait = following.began - one.failed
        assert wait <= longest * (2 if asks else 1) + MICROSECOND


@stories
def test_every_event_has_one_end_and_its_reason_is_true(
    script: list[Exchange], terms: DeliveryTerms, jitter: float
) -> None:
    attempts, end, at = simulate(script, terms, jitter)

    taken = [each.outcome.status in terms.profile.success_codes for each in attempts]
    if isinstance(end, Delivered):
        assert taken == [False] * (len(attempts) - 1) + [True]
        return
    assert not any(taken)
    if end.reason is EndReason.MAX_ATTEMPTS:
        assert len(attempts) == terms.max_attempts
    elif end.reason is EndReason.TIME_TO_LIVE:
        assert at * terms.time_scale >= terms.time_to_live
    else:
        last = attempts[-1].outcome
        rules = terms.profile.endpoints[terms.endpoint]
        assert last.status in rules.never_retried or last.failure in rules.final_failures
        assert terms.dead_letter or not terms.profile.final_only_with_dead_letter
