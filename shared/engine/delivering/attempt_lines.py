"""The lines of the log about attempts: what was tried, what came of it and what follows."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from shared import telemetry
from shared.delivery.delivery import Delivery
from shared.delivery.message import DeliveryMessage
from shared.delivery.outcome import DeliveryOutcome
from shared.delivery.parcel import Parcel
from shared.delivery.policy import Decision, Delivered, DeliveryTerms, End, RetryAt
from shared.engine.delivering.event_ids import event_id, event_ids
from shared.engine.delivering.failure_records import delivery_failure
from shared.subscriptions.subscription import EventSubscription


class AttemptLines(NamedTuple):
    """Writes the lines about the deliveries of one message."""

    message: DeliveryMessage
    subscription: EventSubscription
    terms: DeliveryTerms

    def attempted(
        self, tried: Parcel, outcome: DeliveryOutcome, decision: Decision, now: datetime
    ) -> None:
        """Write the line about a failed request, however many events it had."""
        if isinstance(decision, Delivered):
            return
        retries = decision if isinstance(decision, RetryAt) else None
        ends = decision if isinstance(decision, End) else None
        telemetry.info(
            "delivery.attempted",
            **(self._named(*tried[0]) if len(tried) == 1 else self._all_named(tried)),
            attempt=tried[0].delivery.attempts,
            attempt_max=self.terms.max_attempts,
            outcome=outcome.outcome,
            status=outcome.status,
            detail=outcome.detail or None,
            duration_ms=round(outcome.seconds * 1000),
            decision="end" if ends else "retry",
            next_attempt_at=retries.due if retries else None,
            reason=ends.reason if ends else None,
            why=decision.why,
            profile=self.terms.profile.name,
            **delivery_failure(self.subscription, tried[0], outcome, now),
        )

    def ended(self, delivery: Delivery, text: str, end: End) -> None:
        """Write the line about a delivery that is given up without another attempt."""
        telemetry.info(
            "delivery.ended", **self._named(delivery, text), reason=end.reason, why=end.why
        )

    def _all_named(self, parcel: Parcel) -> dict[str, telemetry.Field]:
        """Return what names the deliveries of a batch in the log: not all of very many."""
        return {
            "topic": self.message.topic,
            "subscription": self.message.subscription,
            "count": len(parcel),
            "event_ids": event_ids([text for _, text in parcel]),
        }

    def _named(self, delivery: Delivery, text: str) -> dict[str, telemetry.Field]:
        """Return what names a delivery in the log: the publisher's id, and its own."""
        topic, subscription = self.message.topic, self.message.subscription
        return {
            "topic": topic,
            "subscription": subscription,
            "event_id": event_id(text),
            "system_id": delivery.system_id(topic, subscription),
        }
