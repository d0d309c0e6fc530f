"""What a hold does to deliveries, and the probe that goes first after it. Design §2, Health."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from pushgrid.testing.memory import START
from shared.clock import in_words
from shared.delivery.delivery import Delivery
from shared.delivery.gate import Held, NeedsProbe, Open, availability, hold_back
from shared.delivery.health.endpoint_health import claim_probe, return_probe
from shared.delivery.messages.message import EPOCH
from shared.delivery.outcome import Outcome
from shared.delivery.policy import End, EndReason
from shared.delivery.requests.push_request import in_common
from shared.subscriptions.subscription import Batching
from tests.builders import DEAD, a_delivery, a_subscription, an_attempt, terms
from tests.unit.delivery.observed import LATEST, after, at, seen

ACKNOWLEDGED_BY = timedelta(seconds=40)  # 30 s for the answer, 10 s of margin


def test_a_probe_that_fails_without_probation_ends_the_hold() -> None:
    """Probation of 503 is over, the probe meets a 500: that asks for no hold."""
    held = claim_probe(after(seen(Outcome.BUSY)), LATEST, at(10))

    health = after(seen(Outcome.GENERIC_ERROR, 10, 11, is_probe=True), health=held)

    assert (availability(health, at(11)), health.failures) == (Open(), 2)


def test_a_probe_is_claimed_until_its_time_is_over() -> None:
    claimed = claim_probe(after(seen(Outcome.BUSY)), LATEST, at(10))

    assert availability(claimed, at(10)) == Held(
        at(13), "probation for Busy: 10 s; a probe is under way"
    )
    assert isinstance(availability(claimed, at(49.9)), Held)
    assert isinstance(availability(claimed, at(10) + ACKNOWLEDGED_BY), NeedsProbe)


def test_a_probe_that_fails_begins_a_hold_that_does_not_wait_for_its_claim() -> None:
    claimed = claim_probe(after(seen(Outcome.BUSY)), LATEST, at(10))

    health = after(seen(Outcome.BUSY, 10, 11, is_probe=True), health=claimed)

    assert availability(health, at(11)) == Held(at(21), "probation for Busy: 10 s", Outcome.BUSY)
    assert isinstance(availability(health, at(21)), NeedsProbe)


@pytest.mark.parametrize("outcome", [Outcome.BAD_REQUEST, Outcome.PAYLOAD_TOO_LARGE])
def test_a_probe_at_fault_itself_leaves_the_claim_to_another(outcome: Outcome) -> None:
    claimed = claim_probe(after(seen(Outcome.BUSY)), LATEST, at(10))

    health = after(seen(outcome, 10, is_probe=True), health=claimed)

    assert isinstance(availability(health, at(10)), NeedsProbe)
    assert return_probe(health) == health


def test_a_hold_that_failed_probes_extend_has_begun_with_the_first_failure() -> None:
    health = after(seen(Outcome.BUSY, 3), seen(Outcome.BUSY, 13, is_probe=True))
    anew = after(seen(Outcome.DELIVERED, 23), seen(Outcome.BUSY, 33), health=health)

    assert health.hold
    assert anew.hold
    assert (health.hold.began_at, health.hold.extended_at) == (at(3), at(13))
    assert anew.hold.began_at == at(33)


def test_a_failure_during_the_probe_outlives_it() -> None:
    """A slow push fails while the probe is under way: its hold began after the probe was sent."""
    claimed = claim_probe(after(seen(Outcome.BUSY)), LATEST, at(10))

    health = after(
        seen(Outcome.TIMED_OUT, -18, 12),
        seen(Outcome.GENERIC_ERROR, 10, 13, is_probe=True),
        seen(Outcome.DELIVERED, 11, 14),
        health=claimed,
    )

    assert availability(health, at(14)) == Held(
        at(22), "probation for TimedOut: 10 s", Outcome.TIMED_OUT
    )


def test_the_cause_of_a_hold_survives_until_its_probe() -> None:
    """With its time; that a probe is due or under way comes after it."""
    cause = replace(seen(Outcome.SOCKET_ERROR, sent=3), cause="Connection refused")
    rule = f"probation for SocketError: {in_words(LATEST.profile.probation[Outcome.SOCKET_ERROR])}"
    why = f"Connection refused at 12:00:03Z ({rule})"
    held = after(cause)
    assert held.hold
    over = held.hold.until

    assert availability(held, at(4)) == Held(over, why, Outcome.SOCKET_ERROR)
    assert availability(held, over) == NeedsProbe(why)
    found = availability(claim_probe(held, LATEST, over), over)
    assert isinstance(found, Held)
    assert found.why == f"{why}; a probe is under way"


NEW = a_delivery()
TRIED = a_delivery(attempts=2, last=an_attempt())
PROBATION = an_attempt(Outcome.PROBATION, None)
HELD = a_delivery(last=PROBATION)
COUNTS: dict[str, Any] = {"probation_counts_attempt": True}
ENDS: dict[str, Any] = {"probation_ends_events": True}
ENDED = End(EndReason.PROBATION, "why")
EXHAUSTED = End(EndReason.MAX_ATTEMPTS, "all 3 attempts made")
BUSY, NOT_FOUND = Outcome.BUSY, Outcome.NOT_FOUND


def test_what_was_never_tried_may_share_a_request_whenever_it_was_held() -> None:
    held, rules = Held(at(60), "why"), terms(batching=Batching(max_events=10))
    kept, later = (hold_back(NEW, held, rules, now, now)[0] for now in (START, at(1)))
    shared = {in_common(each, a_subscription(), rules) for each in (NEW, kept)}

    assert kept == later
    assert len(shared) == 1
    assert not kept.was_tried_with(later)


@pytest.mark.parametrize("delivery", [NEW, TRIED])
def test_a_pause_is_no_hold(delivery: Delivery) -> None:
    held = Held(at(60), "why", is_pause=True)
    rules = terms(max_attempts=3, dead_letter=DEAD, **COUNTS, **ENDS)

    assert hold_back(delivery, held, rules, START, START) == (delivery, None)


@pytest.mark.parametrize(
    ("switches", "dead_letter", "probation", "delivery", "kept", "end"),
    [
        pytest.param({}, DEAD, NOT_FOUND, TRIED, {}, None, id="neither"),
        pytest.param({}, DEAD, BUSY, NEW, {"attempts": 0}, None, id="never tried"),
        pytest.param({}, DEAD, None, NEW, {"attempts": 0}, None, id="never tried: delayed"),
        pytest.param(COUNTS, None, BUSY, HELD, {"attempts": 1}, None, id="counts what was held"),
        pytest.param(COUNTS | ENDS, DEAD, None, TRIED, {}, None, id="delayed delivery alone"),
        pytest.param(COUNTS, None, BUSY, NEW, {"attempts": 1}, None, id="counts a new event"),
        pytest.param(COUNTS, None, BUSY, TRIED, {"attempts": 3}, EXHAUSTED, id="counts the last"),
        pytest.param(
            COUNTS, None, BUSY, a_delivery(attempts=3, last=PROBATION), {}, None, id="counts once"
        ),
        pytest.param(ENDS, DEAD, Outcome.UNAUTHORIZED, TRIED, {"attempts": 2}, ENDED, id="401"),
        pytest.param(ENDS, DEAD, Outcome.FORBIDDEN, TRIED, {"attempts": 2}, ENDED, id="403"),
        pytest.param(ENDS, DEAD, NOT_FOUND, TRIED, {"attempts": 2}, ENDED, id="404"),
        pytest.param(ENDS, DEAD, BUSY, TRIED, {}, None, id="ends: no client error"),
        pytest.param(
            ENDS, None, NOT_FOUND, TRIED, {"attempts": 2}, ENDED, id="ends: no destination"
        ),
        pytest.param(ENDS, DEAD, NOT_FOUND, NEW, {"attempts": 0}, ENDED, id="ends: never tried"),
    ],
)
def test_holding_is_no_attempt_and_no_end_but_where_so_set(
    switches: dict[str, Any],
    dead_letter: Any,
    probation: Outcome | None,
    delivery: Any,
    kept: dict[str, Any],
    end: End | None,
) -> None:
    """``Probation`` is the last outcome of what was counted or ended (contract §3.6)."""
    rules = terms(max_attempts=3, dead_letter=dead_letter, **switches)

    found = hold_back(delivery, Held(at(60), "why", probation), rules, START, START)

    last = PROBATION if kept.get("attempts") else PROBATION._replace(at=EPOCH)
    expected = a_delivery(**kept, last=last) if kept else delivery
    assert found == (expected, end)
