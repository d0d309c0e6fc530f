"""Records when holds begin and end, once each: in the log, and in the metrics."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

from shared import telemetry
from shared.delivery.health.endpoint_health import Health, HoldReason
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
        old, new = before.hold if before else None, after.hold
        is_another = before is not None and before.endpoint != after.endpoint
        is_over = old is None or (after.released_at and after.released_at > old.since)
        if not is_over and not is_another:
            return  # a hold that a failed probe prolongs goes on
        if old:
            because = "its time is over" if after.failures else "its endpoint accepted an event"
            because = "its endpoint was changed" if is_another else because
            self.ended(old.reason, because, lasted=now - old.began)
        if new:
            self.began(new.reason, new.why, until=new.until)
