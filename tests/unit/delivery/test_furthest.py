"""How far any rule can put a time, and what is further: as it is read, never again."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pushgrid.testing.memory import START, FakeClock
from shared.clock import trusted_now
from shared.delivery.delivery import LastAttempt
from shared.delivery.furthest import (
    LONGEST_REQUEUE,
    SKEW,
    Bounds,
    StoredTime,
    longest_hold,
    longest_wait,
)
from shared.delivery.health.endpoint_health import Health, Hold, bounded_health, claim_probe
from shared.delivery.messages.message_reader import decode
from shared.delivery.messages.message_writer import encode_remaining
from shared.delivery.outcome import DeliveryOutcome, Outcome
from shared.delivery.policy import End, before_attempt, default_terms, retry
from shared.delivery.profiles import PROFILES
from tests.builders import ORIGIN, a_delivery, a_message, a_note, an_attempt, terms
from tests.unit.delivery.observed import LATEST as LATEST_TERMS
from tests.unit.delivery.observed import after, seen

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
profiles = st.sampled_from(sorted(PROFILES))
outcomes = st.sampled_from(sorted(set(Outcome) - {Outcome.DELIVERED}))


@given(profiles, outcomes, st.integers(1, 40), st.floats(0, 0.999), st.integers(100, 599))
def test_no_rule_lets_a_retry_wait_longer(
    profile: str, outcome: Outcome, attempts: int, jitter: float, status: int
) -> None:
    """With `Retry-After` honored, whose limit depends on the other rules."""
    failed = DeliveryOutcome(outcome=outcome, status=status, seconds=0, retry_after="999999")
    rules = replace(default_terms(PROFILES[profile]), honor_retry_after=True)
    delivery = a_delivery(attempts=attempts)
    age = timedelta(minutes=10) * attempts  # by which an edition has made so many

    due = retry(delivery, failed, rules, START + age, jitter).due

    assert due - (START + age) <= longest_wait(attempts) + SKEW


@given(profiles, st.lists(outcomes, min_size=1, max_size=30))
def test_no_rule_makes_a_longer_hold(profile: str, failures: list[Outcome]) -> None:
    rules, health = terms(profile=profile), Health(endpoint="e")
    for outcome in failures:
        health = after(seen(outcome, 0, is_probe=bool(health.hold)), rules=rules, health=health)
        if hold := health.hold:
            assert hold.until - START <= longest_hold(hold.probation, hold.delays)
            assert bounded_health(health, Bounds(START)) == health


@pytest.mark.parametrize(
    ("attempts", "hours"),
    [(0, 1 / 12), (7, 2.0), (8, 6.0), (9, 12.0), (10, 24.0), (40, 24.0)],
)
def test_a_late_attempt_may_wait_for_long(attempts: int, hours: float) -> None:
    """Twice its step, for `Retry-After`; what is requeued untried, five minutes."""
    assert longest_wait(attempts) == hours * HOUR


@pytest.mark.parametrize(
    ("probation", "delays", "minutes"),
    [(Outcome.BUSY, 0, 1 / 6), (Outcome.NOT_FOUND, 0, 5), (None, 1, 1), (None, 9, 240)],
)
def test_a_hold_ends_when_its_rule_could_let_it_end(
    probation: Outcome | None, delays: int, minutes: float
) -> None:
    ahead = START + 6 * HOUR
    hold = Hold(
        extended_at=ahead,
        sent_at=ahead,
        until=ahead + 10 * SECOND,
        probation=probation,
        probation_until=ahead + 10 * SECOND if probation else None,
        delays=delays,
        why="",
    )
    health = Health(endpoint="e", hold=hold, released_at=ahead, counted_from=ahead)
    bounds = Bounds(START)

    found = bounded_health(claim_probe(health, LATEST_TERMS, ahead), bounds)

    until = min(START + minutes * MINUTE, ahead)
    assert found.hold == replace(
        hold,
        extended_at=START,
        sent_at=START,
        until=until,
        probation_until=until if probation else None,
        probe_until=START + 70 * SECOND,
        probe_changes=1,
    )
    assert (found.released_at, found.counted_from) == (START, START)
    assert bounds.ahead == {StoredTime.HOLD: 6 * HOUR + 40 * SECOND}
    assert bounded_health(found, Bounds(START)) == found


@pytest.mark.parametrize("corrects", [True, False])
def test_what_is_due_too_late_is_due_now_and_who_is_right_corrects_the_publication(
    *, corrects: bool
) -> None:
    """Any other time of a message stays as it was written."""
    ahead = START + 6 * HOUR
    last = LastAttempt(Outcome.BUSY, 503, ahead)
    origin = ORIGIN._replace(published_at=ahead)
    delivery = a_delivery(origin=origin, attempts=1, last=last)
    message = a_message([delivery], due=ahead)
    bounds = Bounds(START, corrects=corrects)

    found = decode(encode_remaining(message), bounds)

    kept = replace(delivery, origin=ORIGIN) if corrects else delivery
    assert found == (replace(message, deliveries=(kept,), due=None),)
    assert bounds.ahead == dict.fromkeys((StoredTime.DUE, StoredTime.PUBLISHED), 6 * HOUR)


def test_a_dead_letter_keeps_all_its_times() -> None:
    origin = ORIGIN._replace(published_at=START + 6 * HOUR)
    note = a_note(keep_until=START + 6 * HOUR)
    message = a_message([a_delivery(origin=origin)], dead_letter=note)

    assert decode(encode_remaining(message), Bounds(START)) == (message,)


def test_what_another_clock_has_written_ahead_is_new_and_delays_no_dead_letter() -> None:
    """By a process that is behind: its rules count from now."""
    last = LastAttempt(Outcome.BUSY, 503, START + 6 * HOUR)
    origin = ORIGIN._replace(published_at=START + 6 * HOUR)
    delivery = a_delivery(origin=origin, attempts=1, last=last)

    assert LATEST_TERMS.age(delivery, START) == timedelta()
    assert LATEST_TERMS.blob_due(delivery, START) == START + 5 * MINUTE


def test_clocks_of_two_machines_may_differ_a_little() -> None:
    soon = START + SKEW
    delivery = a_delivery(origin=ORIGIN._replace(published_at=soon), last=an_attempt())
    message = a_message([delivery], due=soon + LONGEST_REQUEUE)
    bounds = Bounds(START)

    assert decode(encode_remaining(message), bounds) == (message,)
    assert bounds.ahead == {}


def test_nothing_ends_by_time_to_live_soon_after_a_jump(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock(START + 30 * HOUR)
    assert isinstance(before_attempt(a_delivery(), LATEST_TERMS, trusted_now(clock)), End)

    monkeypatch.setattr(clock, "is_trusted", False)

    assert before_attempt(a_delivery(), LATEST_TERMS, trusted_now(clock)) is None
    tried = a_delivery(attempts=30)
    assert isinstance(before_attempt(tried, LATEST_TERMS, trusted_now(clock)), End)
