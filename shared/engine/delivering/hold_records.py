"""Records when holds begin and end, once each: in the log, and in the metrics."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

from shared import telemetry
from shared.delivery.health.endpoint_health import Health, HoldReason
from shared.delivery.health.transitions import transition
from shared.engine.ports import Metrics
from shared.metrics import Metric
from shared.subscriptions.subscription import SubscriptionKey


class HoldRecords(NamedTuple):
    """Records about the holds of one subscription."""

    metrics: Metrics
    key: SubscriptionKey

    def began(
        self, reason: HoldReason, why: str, *, until: datetime | None = None, by: str | None = None
    ) -> None:
        """Record that a hold has begun; *by* is who began it: a pause, of unknown end."""
        self.metrics.count(Metric.HOLDS_BEGAN, *self.key, Reason=reason)
        telemetry.warning(
            "hold.began",
            topic=self.key.topic,
            subscription=self.key.subscription,
            reason=reason,
            cause=why.partition(" at ")[0],  # without its time: one for an alert
            why=why,
            until=until,
            by=by,
        )

    def ended(
        self, reason: HoldReason, because: str, *, lasted: timedelta, by: str | None = None
    ) -> None:
        """Record that a hold has ended; *by* is who ended it, if anybody did."""
        self.metrics.count(Metric.HOLDS_ENDED, *self.key, Reason=reason)
        telemetry.info(
            "hold.ended",
            **self.key._asdict(),
            reason=reason,
            because=because,
            seconds=round(lasted.total_seconds(), 3),
            by=by,
        )

    def changed(self, before: Health | None, after: Health, now: datetime) -> None:
        """Record what a write of an endpoint's shared health has changed about its hold."""
        ended, began = transition(before, after)
        if ended:
            lasted = now - ended.hold.began
            self.ended(ended.hold.reason, ended.because, lasted=lasted)
        if began:
            self.began(began.reason, began.why, until=began.until)
