"""Laws of health, whatever was observed, and by whom. Design §2, Health."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pushgrid.testing.memory import START
from shared.delivery.furthest import Bounds
from shared.delivery.gate import Held, NeedsProbe, Open, availability
from shared.delivery.health.endpoint_health import Health, Observation, claim_probe, observe
from shared.delivery.health.health_document import document_of, health_of
from shared.delivery.outcome import Outcome
from tests.builders import compact, terms
from tests.strategies import healths, observations

LATEST = terms()
FAR = START + timedelta(days=365)
some_time = st.integers(0, 2000).map(lambda seconds: START + timedelta(seconds=seconds))


def held_until(health: Health) -> datetime:
    """Return when the hold ends; without one, long ago."""
    return health.hold.until if health.hold else START - timedelta(days=1)


@given(healths(), observations)
def test_no_failure_shortens_a_hold(health: Health, seen: Observation) -> None:
    after = observe(health, seen, LATEST)

    if seen.outcome is not Outcome.DELIVERED and not seen.is_probe:
        assert held_until(after) >= held_until(health)


@given(healths(), observations)
def test_only_a_success_sent_after_the_hold_began_or_its_own_releases_it(
    health: Health, seen: Observation
) -> None:
    after = observe(health, seen, LATEST)

    is_over = seen.is_probe or seen.outcome is Outcome.DELIVERED
    if health.hold and not after.hold:
        is_annulled = seen.is_late and seen.sent_at >= health.hold.sent_at
        assert is_over
        assert seen.sent_at > health.hold.extended_at or is_annulled


@given(healths(), some_time)
def test_nothing_is_pushed_during_a_hold(health: Health, now: datetime) -> None:
    found = availability(health, now)

    assert isinstance(found, Open) is (health.hold is None)
    if health.hold and now < health.hold.until:
        assert isinstance(found, Held)
        assert (found.until, found.why) == (health.hold.until, health.hold.why)
        ends = health.hold.probation_until
        assert found.probation == (health.hold.probation if ends and now < ends else None)


@given(healths(), some_time)
def test_a_claimed_probe_is_the_only_one(health: Health, now: datetime) -> None:
    if isinstance(availability(health, now), NeedsProbe):
        claimed = claim_probe(health, LATEST, now)

        assert isinstance(availability(claimed, now), Held)


@given(healths())
def test_what_is_written_is_read_back(health: Health) -> None:
    assert health_of(json.loads(compact(document_of(health))), Bounds(FAR)) == health


def test_a_time_without_its_zone_is_unreadable() -> None:
    document = document_of(Health(endpoint="g-1", released_at=START.replace(tzinfo=None)))

    with pytest.raises(ValueError, match="without its zone"):
        health_of(document, Bounds(START))
