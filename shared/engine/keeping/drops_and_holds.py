"""Hears of ends, and of the beginnings and ends of holds: counts and logs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from shared import telemetry
from shared.delivery.health.endpoint_health import HoldReason
from shared.engine.ports import Metrics
from shared.events.event import event_ids
from shared.metrics import Metric
from shared.subscriptions.subscription import SubscriptionKey

if TYPE_CHECKING:
    from shared.engine.ports.settling import Ended


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """
    Hears of each end, once what follows is stored.

    Drops are counted and logged, with the first few events; *sink* gets every end, and again what
    ends again because its message is repeated. A success that comes late may still annul an end.
    """

    metrics: Metrics
    sink: Callable[[Ended], object]

    def dropped(self, ends: Sequence[Ended], **fields: telemetry.Field) -> None:
        """Hear of deliveries of one subscription of which nothing is left, for the same reason."""
        key, reason = ends[0].key, ends[0].reason
        self.metrics.count(Metric.DROPPED, *key, by=len(ends), DropReason=reason)
        telemetry.warning(
            "delivery.dropped",
            topic=key.topic,
            subscription=key.subscription,
            reason=reason,
            count=len(ends),
            event_ids=event_ids([each.delivery.text for each in ends]),
            **fields,
        )
        for each in ends:
            self.hear(each)

    def hear(self, ended: Ended) -> None:
        """Hand an end to the sink, whose faults are its own: what ended is stored."""
        try:
            self.sink(ended)
        except Exception as error:  # noqa: BLE001 - nothing depends on it
            telemetry.error("end.unheard", **ended.key._asdict(), detail=repr(error))


def hold_began(
    metrics: Metrics,
    key: SubscriptionKey,
    reason: HoldReason,
    why: str,
    *,
    cause: str = "",
    **fields: telemetry.Field,
) -> None:
    """Record that a hold has begun: *until* when, or for a pause *by* whom."""
    metrics.count(Metric.HOLDS_BEGAN, *key, Reason=reason)
    telemetry.warning(
        "hold.began",
        topic=key.topic,  # by name: `make infra` compares them with the alert's query
        subscription=key.subscription,
        reason=reason,
        cause=cause or why,  # without its time: one for an alert
        why=why,
        **fields,
    )


def hold_ended(
    metrics: Metrics,
    key: SubscriptionKey,
    reason: HoldReason,
    because: str,
    *,
    lasted: timedelta,
    **fields: telemetry.Field,
) -> None:
    """Record that a hold has ended; *by* whom, if anybody ended it."""
    metrics.count(Metric.HOLDS_ENDED, *key, Reason=reason)
    telemetry.info(
        "hold.ended",
        **key._asdict(),
        reason=reason,
        because=because,
        seconds=round(lasted.total_seconds(), 3),
        **fields,
    )
