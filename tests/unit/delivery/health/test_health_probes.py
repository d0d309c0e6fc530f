"""The probe that goes first when a hold is over by time. Design §2, Health."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from shared.clock import in_words
from shared.delivery.health.availability import Held, NeedsProbe, Open, availability
from shared.delivery.health.endpoint_health import claim_probe, return_probe
from shared.delivery.outcome import Outcome
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
