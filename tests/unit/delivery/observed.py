"""Endpoints by what was observed of them, in seconds of one day."""

from __future__ import annotations

from datetime import datetime, timedelta

from pushgrid.testing.memory import START
from shared.delivery.health.endpoint_health import (
    Health,
    Observation,
    observe,
)
from shared.delivery.outcome import Outcome
from shared.delivery.policy import DeliveryTerms
from tests.builders import terms

LATEST = terms()
NEW = Health(endpoint="g-1")


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def seen(
    outcome: Outcome,
    sent: float = 0,
    ended: float | None = None,
    *,
    new_events: int = 1,
    is_probe: bool = False,
    is_late: bool = False,
    is_isolated: bool = False,
) -> Observation:
    return Observation(
        outcome=outcome,
        new_events=new_events,
        sent_at=at(sent),
        ended_at=at(sent if ended is None else ended),
        is_probe=is_probe,
        is_late=is_late,
        is_isolated=is_isolated,
    )


def after(
    *observations: Observation, rules: DeliveryTerms = LATEST, health: Health = NEW
) -> Health:
    for each in observations:
        health = observe(health, each, rules)
    return health
