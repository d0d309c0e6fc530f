"""Defines the result of a delivery: how its attempt went, or why there was none."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from shared.delivery.health.availability import Held
from shared.delivery.outcome import DeliveryOutcome, Outcome


class NotNow(NamedTuple):
    """Nothing was sent, and no attempt counts: the events come back when due."""

    due: datetime
    why: str
    held: Held | None = None  # the hold that keeps them, if it is one


class Shortage(NamedTuple):
    """A request could not be made for want of a local resource: no attempt."""

    of: str


class Attempted(NamedTuple):
    """The outcome of one request, with its start and end."""

    outcome: DeliveryOutcome
    began_at: datetime
    ended_at: datetime
    jitter: float  # for all of its events

    @property
    def succeeded(self) -> bool:
        """Whether the endpoint accepted the events."""
        return self.outcome.outcome is Outcome.DELIVERED


DeliveryResult = Attempted | NotNow | Exception  # an exception is an internal error
