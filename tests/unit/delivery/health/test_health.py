"""The health of an endpoint, row by row. Design §2, Health; contract §3.6."""

from __future__ import annotations

import pytest

from pushgrid.testing.memory import START
from shared.delivery.gate import (
    Availability,
    Held,
    NeedsProbe,
    Open,
    availability,
)
from shared.delivery.health.endpoint_health import (
    LatestPushes,
    Observation,
    claim_probe,
    return_probe,
)
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


@pytest.mark.parametrize(
    "outcome", [Outcome.BAD_REQUEST, Outcome.PAYLOAD_TOO_LARGE], ids=["400", "413"]
)
def test_a_request_at_fault_itself_says_nothing_about_the_endpoint(outcome: Outcome) -> None:
    held = after(seen(Outcome.BUSY))

    assert after(*[seen(outcome)] * 20) == NEW
    assert after(seen(outcome, 5), health=held) == held


def test_a_healthy_endpoint_has_nothing_to_remember() -> None:
    assert after(seen(OK, 5, 6)) is NEW


def held(until: float, outcome: Outcome | None = None) -> Held:
    """Hold by the probation of this outcome, or by the first delay."""
    rule = f"probation for {outcome}: {LASTS[outcome]}" if outcome else "delayed delivery: 1 min"
    return Held(at(until), rule, outcome)


OK, BUSY, OTHER = Outcome.DELIVERED, Outcome.BUSY, Outcome.GENERIC_ERROR
NOT_FOUND, TIMED_OUT = Outcome.NOT_FOUND, Outcome.TIMED_OUT
LASTS = {BUSY: "10 s", TIMED_OUT: "10 s", NOT_FOUND: "5 min"}
FAILED, RETRIED = seen(OTHER), seen(OTHER, new_events=0)
ALONE = seen(NOT_FOUND, is_isolated=True)
IN_A_ROW = [FAILED] * 9, seen(OK, 0, 1), [FAILED] * 9
TWO = seen(TIMED_OUT, 0, 30), seen(TIMED_OUT, 2, 32)  # the second one's failure extends the hold


@pytest.mark.parametrize(
    ("observations", "then", "expected", "failures"),
    [
        pytest.param([FAILED] * 9, 0, Open(), 9, id="without probation it counts"),
        pytest.param([ALONE], 0, Open(), 1, id="isolated, it counts"),
        pytest.param([ALONE] * 10, 0, held(60), 10, id="ten isolated"),
        pytest.param([seen(BUSY), seen(BUSY, 0, 4)], 6, held(14, BUSY), 2, id="extended"),
        pytest.param(
            [seen(NOT_FOUND), seen(BUSY, 0, 5)], 6, held(300, NOT_FOUND), 2, id="the longer one"
        ),
        pytest.param(
            [seen(BUSY, 0, 1), seen(OK, -1, 2)], 2, held(11, BUSY), 0, id="success sent before it"
        ),
        pytest.param(
            [seen(BUSY, 0, 1), seen(OK, 1, 2)], 2, held(11, BUSY), 0, id="sent at the moment"
        ),
        pytest.param([seen(BUSY, 0, 1), seen(OK, 1.001, 2)], 2, Open(), 0, id="sent after it"),
        pytest.param([seen(BUSY, 0, 1), seen(OK, 11, 11)], 2, Open(), 0, id="sent after its end"),
        pytest.param(
            [*TWO, seen(OK, 0, 35, is_late=True)], 37, held(42, TIMED_OUT), 0, id="late, earlier"
        ),
        pytest.param([*TWO, seen(OK, 2, 37, is_late=True)], 37, Open(), 0, id="late, its own push"),
        pytest.param([*TWO, seen(OK, 3, 38, is_late=True)], 37, Open(), 0, id="late, a later push"),
        pytest.param([*TWO, seen(OK, 3, 38)], 37, held(42, TIMED_OUT), 0, id="not late"),
        pytest.param(
            [seen(TIMED_OUT, 0, 30), seen(OK, 0, 35, is_late=True), seen(TIMED_OUT, 4, 34)],
            36,
            held(44, TIMED_OUT),
            1,
            id="late, and a later hold",
        ),
        pytest.param([*IN_A_ROW[0], IN_A_ROW[1], *IN_A_ROW[2]], 1, Open(), 9, id="nine, twice"),
        pytest.param(
            [*IN_A_ROW[0], IN_A_ROW[1], *IN_A_ROW[2], FAILED], 0, held(60), 10, id="and ten"
        ),
        pytest.param([FAILED, *[RETRIED] * 29], 0, Open(), 1, id="one event alone"),
        pytest.param([seen(OTHER, new_events=9)], 0, Open(), 9, id="a batch of nine"),
        pytest.param([seen(OTHER, new_events=9), FAILED], 0, held(60), 10, id="and one"),
        pytest.param([seen(OTHER, new_events=10)], 0, held(60), 10, id="a batch of ten"),
        pytest.param(
            [seen(OTHER, 0, 0.1 * each) for each in range(40)], 4, held(60.9), 40, id="on their way"
        ),
        pytest.param(
            [seen(BUSY)] * 10,
            9.9,
            held(60)._replace(probation=BUSY),
            10,
            id="within a delay",
        ),
        pytest.param([seen(BUSY)] * 10, 10, held(60), 10, id="probation has its own end"),
        pytest.param(
            [*[seen(BUSY)] * 10, seen(NOT_FOUND)], 59, held(300, NOT_FOUND), 11, id="outlasts it"
        ),
    ],
)
def test_what_was_observed_decides(
    observations: list[Observation], then: float, expected: Availability, failures: int
) -> None:
    health = after(*observations)

    assert availability(health, at(then)) == expected
    assert health.failures == failures


def test_an_endpoint_that_always_answers_late_is_never_held_for_long() -> None:
    """Ten pushes at a time, 35 s each: their answers release the delay that they have begun."""
    health, rules = NEW, terms(profile="2020")
    for began in range(0, 3600, 60):
        timeouts = [seen(Outcome.TIMED_OUT, began, began + 30)] * 10
        held = after(*timeouts, rules=rules, health=health)
        assert availability(held, at(began + 30)) == Held(at(began + 90), "delayed delivery: 1 min")
        health = after(seen(Outcome.DELIVERED, began, began + 35, is_late=True), health=held)
        assert availability(health, at(began + 35)) == Open()


@pytest.mark.parametrize("profile", ["2017", "2019", "2020", "2023", "latest", "ns"])
def test_ten_first_attempts_that_fail_in_a_row_delay_delivery_if_the_edition_says_so(
    profile: str,
) -> None:
    health = after(*[FAILED] * 10, rules=terms(profile=profile))

    delays = profile not in {"2017", "ns"}
    assert availability(health, at(0)) == (held(60) if delays else Open())
    assert availability(health, at(60)) == (NeedsProbe(held(60).why) if delays else Open())


@pytest.mark.parametrize("profile", ["2017", "2019", "2020"])
def test_an_edition_without_the_table_has_no_probation(profile: str) -> None:
    assert availability(after(seen(BUSY), rules=terms(profile=profile)), at(0)) == Open()


@pytest.mark.parametrize(
    ("outcome", "scale", "seconds"),
    [
        pytest.param(OTHER, 1, [60 * 2**n for n in range(8)] + [14_400] * 3, id="up to four hours"),
        pytest.param(OTHER, 60, [1, 2, 4], id="scaled"),
        pytest.param(NOT_FOUND, 1, [300, 300, 300, 480, 960], id="unless probation is longer"),
    ],
)
def test_delayed_delivery_doubles(outcome: Outcome, scale: float, seconds: list[float]) -> None:
    assert failing_probes(len(seconds) - 1, outcome, terms(time_scale=scale)) == seconds


def test_a_claim_without_a_hold_changes_nothing() -> None:
    assert claim_probe(NEW, LATEST, at(0)) is NEW
    assert return_probe(NEW) is NEW


def latest(*observations: Observation) -> LatestPushes:
    found = LatestPushes()
    for each in observations:
        found = found.followed_by(each)
    return found


@pytest.mark.parametrize(
    ("before", "failure", "is_isolated"),
    [
        pytest.param([], seen(BUSY, 1), False, id="nothing before"),
        pytest.param([seen(OK, 0)], seen(BUSY, 1), True, id="a success before"),
        pytest.param([seen(OK, 0)], seen(BUSY, 0, 9.999), True, id="just in time"),
        pytest.param([seen(OK, 0)], seen(BUSY, 0, 10), False, id="a success long ago"),
        pytest.param([seen(OK, 0, 5)], seen(BUSY, 0, 14), True, id="its end counts"),
        pytest.param([seen(OK, 0)], seen(NOT_FOUND, 299), True, id="a longer probation"),
        pytest.param([seen(OK, 0), seen(BUSY, 1)], seen(BUSY, 2), False, id="the second"),
        pytest.param(
            [seen(OK, 0), seen(Outcome.GENERIC_ERROR, 1)],
            seen(BUSY, 2),
            False,
            id="the second, of whatever kind",
        ),
        pytest.param(
            [seen(BUSY, 0), seen(OK, 1), seen(BUSY, 2), seen(OK, 3)],
            seen(BUSY, 4),
            True,
            id="every second one",
        ),
        pytest.param(
            [seen(OK, 0), seen(Outcome.BAD_REQUEST, 1)], seen(BUSY, 2), True, id="after a 400"
        ),
        pytest.param(
            [seen(Outcome.BAD_REQUEST, 1)], seen(BUSY, 2), False, id="a 400 is no success"
        ),
        pytest.param([seen(OK, 0)], seen(BUSY, 1, is_probe=True), False, id="a probe"),
        pytest.param(
            [seen(OK, 0, 40, is_late=True)], seen(BUSY, 41), True, id="after a late success"
        ),
        pytest.param([seen(OK, 0)], seen(Outcome.GENERIC_ERROR, 1), False, id="no probation"),
    ],
)
def test_a_failure_is_isolated(
    before: list[Observation], failure: Observation, *, is_isolated: bool
) -> None:
    assert latest(*before).is_isolated(failure, LATEST) is is_isolated


def test_the_time_since_the_success_is_scaled() -> None:
    before = latest(seen(OK, 0))

    assert before.is_isolated(seen(BUSY, 0.9), terms(time_scale=10))
    assert not before.is_isolated(seen(BUSY, 1), terms(time_scale=10))
