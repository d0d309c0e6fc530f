"""Holds an endpoint, as failures do."""

from __future__ import annotations

from datetime import timedelta

from pushgrid.testing.memory import START
from shared.delivery.health.endpoint_health import Health, Hold, endpoint_id
from shared.delivery.outcome import Outcome
from tests.functional.manage.arm_api import ArmApi


def hold(api: ArmApi, topic: str = "orders", *, minutes: int = 5, begun: int = 0) -> None:
    """Hold the endpoint of ``crm``, as a process does whose clock shows *begun* seconds more."""
    subscription = api.in_force(topic)
    since = START + timedelta(seconds=begun)
    held = Hold(
        since=since,
        until=since + timedelta(minutes=minutes),
        why="probation for NotFound: 5 min",
        sent_at=since,
        probation=Outcome.NOT_FOUND,
    )
    health = Health(endpoint=endpoint_id(subscription), hold=held, failures=12)
    api.manage.health.write(subscription.key, health, None)
