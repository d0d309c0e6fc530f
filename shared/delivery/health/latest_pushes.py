"""Tells an isolated failure of an endpoint from the start of an outage."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from shared.delivery.health.endpoint_health import EVENTS_FAULT, Observation
from shared.delivery.outcome import Outcome
from shared.delivery.policy import DeliveryTerms


@dataclass(frozen=True, slots=True)
class LatestPushes:
    """The end of the last success, and how many pushes have failed since."""

    succeeded_at: datetime | None = None
    failures: int = 0

    def followed_by(self, seen: Observation) -> LatestPushes:
        """Return what is known after another push."""
        if seen.outcome in EVENTS_FAULT:
            return self
        if seen.outcome is Outcome.DELIVERED:
            return LatestPushes(succeeded_at=seen.ended_at)
        return replace(self, failures=self.failures + 1)

    def is_isolated(self, seen: Observation, terms: DeliveryTerms) -> bool:
        """
        Tell whether the failure *seen*, which is not counted yet, is isolated.

        It is if it is the first since a success that ended less than its probation ago.
        Source: "An event subscription is put into probation … if event deliveries to that
        destination start failing" ("Delivery and retry", 2023-03-01); one failure is no start.
        """
        probation = terms.profile.probation.get(seen.outcome)
        if probation is None or seen.is_probe or self.failures or self.succeeded_at is None:
            return False
        return seen.ended_at - self.succeeded_at < terms.scaled(probation)
