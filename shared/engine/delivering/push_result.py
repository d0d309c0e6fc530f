"""Describes what became of a request: it was pushed, or something kept it from being sent."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from shared.delivery.health.endpoint_health import Held
from shared.delivery.outcome import DeliveryOutcome, Outcome


class Pushed(NamedTuple):
    """The outcome of one request, with its start and end."""

    outcome: DeliveryOutcome
    began_at: datetime
    ended_at: datetime

    @property
    def was_sent(self) -> bool:
        return True

    @property
    def succeeded(self) -> bool:
        """Whether delivered."""
        return self.outcome.outcome is Outcome.DELIVERED


class Unsent(NamedTuple):
    """A request that was not sent: what holds it, or when the allowed rate permits it."""

    blocked_by: Held | datetime

    @property
    def was_sent(self) -> bool:
        return False

    @property
    def succeeded(self) -> bool:
        return False
