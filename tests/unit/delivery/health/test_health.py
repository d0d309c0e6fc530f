"""The health of an endpoint, row by row. Design §2, Health; contract §3.6."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pushgrid.testing.memory import START
from shared.delivery.health.availability import Held, NeedsProbe, Open, availability
from shared.delivery.health.endpoint_health import claim_probe, return_probe
from shared.delivery.outcome import Outcome
from shared.delivery.policy import DeliveryTerms
from tests.builders import terms
from tests.unit.delivery.observed import LATEST, NEW, after, at, seen


def failing_probes(count: int, outcome: Outcome, rules: DeliveryTerms = LATEST) -> list[float]:
    """Let ten first attempts fail, then *count* probes; return how long each hold lasts."""
    health = after(*[seen(outcome)] * 10, rules=rules)
    lasts = []
    began = START
    for _ in range(count + 1):
        assert health.hold
        lasts.append((health.hold.until - began).total_seconds())
        began = health.hold.until
        sent = (began - START).total_seconds()
        probe = seen(outcome, sent, new_events=0, is_probe=True)
        health = after(probe, rules=rules, health=claim_probe(health, rules, began))
    return lasts


@pytest.mark.parametrize(
    ("outcome", "seconds"),
    [
        (Outcome.BUSY, 10),
        (Outcome.TIMED_OUT, 10),
        (Outcome.SOCKET_ERROR, 30),
        (Outcome.NOT_FOUND, 300),
        (Outcome.RESOLUTION_ERROR, 300),
        (Outcome.UNAUTHORIZED, 300),
        (Outcome.FORBIDDEN, 300),
    ],
)
@pytest.mark.parametrize("profile", ["2023", "latest", "ns"])
def test_an_outcome_has_its_probation(profile: str, outcome: Outcome, seconds: float) -> None:
    """It runs from the end of the failed push."""
    health = after(seen(outcome, 0, 2), rules=terms(profile=profile))

    held = availability(health, at(2))
    assert isinstance(held, Held)
    assert (held.until, held.probation) == (at(2 + seconds), outcome)
    assert held.why.startswith(f"probation for {outcome}: ")
    assert isinstance(availability(health, at(2 + seconds - 0.001)), Held)
    assert isinstance(availability(health, at(2 + seconds)), NeedsProbe)


@pytest.mark.parametrize("profile", ["2017", "2019", "2020"])
@pytest.mark.parametrize("outcome", [Outcome.BUSY, Outcome.NOT_FOUND])
def test_an_edition_without_the_table_has_no_probation(profile: str, outcome: Outcome) -> None:
    assert availability(after(seen(outcome), rules=terms(profile=profile)), at(0)) == Open()


@pytest.mark.parametrize(
    "outcome", [Outcome.BAD_REQUEST, Outcome.PAYLOAD_TOO_LARGE], ids=["400", "413"]
)
def test_a_request_at_fault_itself_says_nothing_about_the_endpoint(outcome: Outcome) -> None:
    held = after(seen(Outcome.BUSY))

    assert after(*[seen(outcome)] * 20) == NEW
    assert after(seen(outcome, 5), health=held) == held


def test_an_outcome_without_probation_only_counts() -> None:
    health = after(*[seen(Outcome.GENERIC_ERROR)] * 9)

    assert health == replace(NEW, failures=9)
    assert availability(health, at(0)) == Open()


def test_an_isolated_failure_begins_no_probation_but_counts() -> None:
    health = after(seen(Outcome.NOT_FOUND, is_isolated=True))

    assert health == replace(NEW, failures=1)
    ten = after(*[seen(Outcome.NOT_FOUND, is_isolated=True)] * 10)
    assert availability(ten, at(0)) == Held(at(60), "delayed delivery: 1 min")


def test_a_healthy_endpoint_has_nothing_to_remember() -> None:
    assert after(seen(Outcome.DELIVERED, 5, 6)) is NEW


def test_the_longer_probation_wins() -> None:
    """404 at 0 asks for 300 s; a 503 that ends later shortens nothing."""
    health = after(seen(Outcome.NOT_FOUND), seen(Outcome.BUSY, 0, 5))

    assert availability(health, at(6)) == Held(
        at(300), "probation for NotFound: 5 min", Outcome.NOT_FOUND
    )


def test_a_further_failure_extends_probation() -> None:
    health = after(seen(Outcome.BUSY), seen(Outcome.BUSY, 0, 4))

    assert availability(health, at(6)) == Held(at(14), "probation for Busy: 10 s", Outcome.BUSY)


@pytest.mark.parametrize(
    ("sent", "is_released"),
    [
        pytest.param(-1, False, id="before it began"),
        pytest.param(1, False, id="at the moment"),
        pytest.param(1.001, True, id="after it began"),
        pytest.param(11, True, id="after it was over by time"),
    ],
)
def test_only_a_success_sent_after_the_hold_began_releases_it(
    sent: float, *, is_released: bool
) -> None:
    health = after(seen(Outcome.BUSY, 0, 1), seen(Outcome.DELIVERED, sent, max(sent, 2)))

    assert (availability(health, at(2)) == Open()) is is_released
    assert health.failures == 0  # Whatever the hold: they are not in a row any more.


@pytest.mark.parametrize(
    ("sent", "is_late", "is_released"),
    [
        pytest.param(0, True, False, id="of a push before that one"),
        pytest.param(2, True, True, id="of its own push"),
        pytest.param(3, True, True, id="of a push after that one"),
        pytest.param(3, False, False, id="not late"),
    ],
)
def test_a_late_success_annuls_the_failure_of_its_own_push(
    sent: float, *, is_late: bool, is_released: bool
) -> None:
    """Two pushes timed out; the second one's failure has extended the hold."""
    held = after(seen(Outcome.TIMED_OUT, 0, 30), seen(Outcome.TIMED_OUT, 2, 32))

    health = after(seen(Outcome.DELIVERED, sent, sent + 35, is_late=is_late), health=held)

    assert (availability(health, at(37)) == Open()) is is_released
    assert health.failures == 0


def test_an_endpoint_that_always_answers_late_is_never_held_for_long() -> None:
    """Ten pushes at a time, 35 s each: their answers release the delay that they have begun."""
    health, rules = NEW, terms(profile="2020")
    for began in range(0, 3600, 60):
        timeouts = [seen(Outcome.TIMED_OUT, began, began + 30)] * 10
        held = after(*timeouts, rules=rules, health=health)
        assert availability(held, at(began + 30)) == Held(at(began + 90), "delayed delivery: 1 min")
        health = after(seen(Outcome.DELIVERED, began, began + 35, is_late=True), health=held)
        assert availability(health, at(began + 35)) == Open()


def test_a_late_success_that_annuls_one_hold_ends_no_later_one() -> None:
    first = after(seen(Outcome.TIMED_OUT, 0, 30))
    released = after(seen(Outcome.DELIVERED, 0, 35, is_late=True), health=first)

    later = after(seen(Outcome.TIMED_OUT, 4, 34), health=released)

    assert isinstance(availability(later, at(36)), Held)


def test_after_a_release_ten_failures_are_ten_again() -> None:
    nine = [seen(Outcome.GENERIC_ERROR)] * 9

    health = after(*nine, seen(Outcome.DELIVERED, 0, 1), *nine)

    assert availability(health, at(1)) == Open()
    assert availability(after(*nine[:1], health=health), at(0)) != Open()


@pytest.mark.parametrize("profile", ["2019", "2020", "2023", "latest"])
def test_ten_first_attempts_that_fail_in_a_row_delay_delivery(profile: str) -> None:
    rules = terms(profile=profile)
    health = after(*[seen(Outcome.GENERIC_ERROR)] * 10, rules=rules)

    assert availability(health, at(0)) == Held(at(60), "delayed delivery: 1 min")
    assert isinstance(availability(health, at(60)), NeedsProbe)


@pytest.mark.parametrize("profile", ["2017", "ns"])
def test_an_edition_that_does_not_know_it_never_delays_delivery(profile: str) -> None:
    health = after(*[seen(Outcome.GENERIC_ERROR)] * 30, rules=terms(profile=profile))

    assert availability(health, at(0)) == Open()


def test_one_event_alone_keeps_its_schedule() -> None:
    """Only first attempts count: thirty attempts of one event are one failure."""
    first, retry = seen(Outcome.GENERIC_ERROR), seen(Outcome.GENERIC_ERROR, new_events=0)

    health = after(first, *[retry] * 29)

    assert (health.failures, availability(health, at(0))) == (1, Open())


def test_a_failed_batch_counts_its_new_events() -> None:
    batch = seen(Outcome.GENERIC_ERROR, new_events=9)

    assert availability(after(batch), at(0)) == Open()
    assert isinstance(availability(after(batch, seen(Outcome.GENERIC_ERROR)), at(0)), Held)
    assert isinstance(availability(after(seen(Outcome.GENERIC_ERROR, new_events=10)), at(0)), Held)


def test_delayed_delivery_doubles_up_to_four_hours() -> None:
    minutes = [each / 60 for each in failing_probes(10, Outcome.GENERIC_ERROR)]

    assert minutes == [1, 2, 4, 8, 16, 32, 64, 128, 240, 240, 240]


def test_delayed_delivery_is_scaled() -> None:
    assert failing_probes(2, Outcome.GENERIC_ERROR, terms(time_scale=60)) == [1, 2, 4]


def test_the_longer_of_probation_and_delay_wins() -> None:
    """Ten 404: the probation of 5 min outlasts the delays of 1, 2 and 4 min."""
    assert failing_probes(4, Outcome.NOT_FOUND) == [300, 300, 300, 480, 960]


def test_probation_keeps_its_own_end_within_a_longer_delay() -> None:
    """Ten 503: delayed for a minute, of which the first ten seconds are probation, too."""
    health = after(*[seen(Outcome.BUSY)] * 10)

    why = "delayed delivery: 1 min"
    assert availability(health, at(9.9)) == Held(at(60), why, Outcome.BUSY)
    assert availability(health, at(10)) == Held(at(60), why)
    assert availability(after(seen(Outcome.NOT_FOUND), health=health), at(59)) == Held(
        at(300), "probation for NotFound: 5 min", Outcome.NOT_FOUND
    )


def test_failures_that_were_on_their_way_double_nothing() -> None:
    health = after(*[seen(Outcome.GENERIC_ERROR, 0, 0.1 * number) for number in range(40)])

    assert availability(health, at(4)) == Held(at(60.9), "delayed delivery: 1 min")


def test_a_claim_without_a_hold_changes_nothing() -> None:
    assert claim_probe(NEW, LATEST, at(0)) is NEW
    assert return_probe(NEW) is NEW
