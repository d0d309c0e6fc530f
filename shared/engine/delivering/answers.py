"""Defines what a gate says about deliveries: how their attempt went, or why not now."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from shared.delivery.health.endpoint_health import Held
from shared.delivery.outcome import DeliveryOutcome, Outcome
from shared.delivery.requests.push_batch import PushBatch


class NotNow(NamedTuple):
    """
    Nothing was sent, and no attempt counts: the events come back when *due*.

    *held* is the hold that keeps them, if it is one.
    """

    due: datetime
    why: str
    held: Held | None = None


class Shortage(NamedTuple):
    """A request could not be made for want of something of ours: no attempt."""

    of: str


class Attempted(NamedTuple):
    """The outcome of one request, with its start and end; *jitter* is for all of its events."""

    outcome: DeliveryOutcome
    began_at: datetime
    ended_at: datetime
    jitter: float

    @property
    def succeeded(self) -> bool:
        """Whether the endpoint accepted the events."""
        return self.outcome.outcome is Outcome.DELIVERED


Result = Attempted | NotNow | Exception  # an exception is a fault of ours


class Answer(NamedTuple):
    """
    The result for deliveries of one visit that belong together.

    *is_first*: the request's first event is among them, so what is counted once a request is
    counted with them.
    """

    batch: PushBatch
    result: Result
    is_first: bool
