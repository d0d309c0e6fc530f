"""Hears of ends: counts and logs those that are drops, and tells whoever listens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shared import telemetry
from shared.engine.ports import Metrics
from shared.engine.ports.settling import Ended
from shared.events.event import event_ids
from shared.metrics import Metric


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
        self.log_dropped(ends, **fields)

    def log_dropped(self, ends: Sequence[Ended], **fields: telemetry.Field) -> None:
        """Do as `dropped`, but count nothing: what has settled them did."""
        key, reason = ends[0].key, ends[0].reason
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
