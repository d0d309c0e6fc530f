"""Reads the current state of one event subscription: consent, hold, dead letters, counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from shared.arm.subscription_codec import to_subscription_in_force
from shared.clock import optional_timestamp, timestamp
from shared.delivery.furthest import Bounds
from shared.delivery.health.availability import Availability, Held, NeedsProbe, Open, availability
from shared.delivery.health.endpoint_health import bounded_health, endpoint_id
from shared.engine.ports import CountReader, Document, HealthStore
from shared.engine.timers.housekeeping import COUNTS_KEPT_FOR
from shared.errors import UNREADABLE, UnreadableDocument
from shared.metrics import Metric, count_of, total_of
from shared.subscriptions.subscription import DeadLetterDestination, EventSubscription, Pause

_OF_TOPIC = (Metric.PUBLISH_SUCCESS, Metric.UNMATCHED)
_OF_SUBSCRIPTION = (
    Metric.MATCHED,
    Metric.DELIVERY_SUCCESS,
    Metric.DEAD_LETTERED,
    Metric.DROPPED,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionState:
    """The current state of one subscription."""

    has_consented: bool
    pause: Pause | None
    availability: Availability  # of the endpoint, if there is consent and no pause
    counts: dict[Metric, int]  # of all events since the requested time
    dead_letter: DeadLetterDestination | None  # ``None``: events that end are dropped
    expired_at: datetime | None = None  # ``None``: it has not expired


def read_state(
    stored: Document,
    health: HealthStore,
    counts: CountReader,
    since: datetime,
    now: datetime,
) -> SubscriptionState:
    """
    Read the state of a *stored* event subscription.

    Raises:
        UnreadableDocument: its row is damaged, or another version's.
        StorageUnavailable: storage did not answer.
    """
    span_of_time = (max(since, now - COUNTS_KEPT_FOR), now)
    try:
        subscription = to_subscription_in_force(stored)
    except UNREADABLE as error:
        raise UnreadableDocument from error
    key = subscription.key
    return SubscriptionState(
        has_consented=subscription.has_consented,
        pause=subscription.pause,
        availability=read_availability(subscription, health, now),
        counts=_sums(counts, key.topic, "", _OF_TOPIC, span_of_time)
        | _sums(counts, key.topic, key.subscription, _OF_SUBSCRIPTION, span_of_time),
        dead_letter=subscription.dead_letter,
        expired_at=subscription.expires_at if subscription.is_expired(now) else None,
    )


def read_availability(
    subscription: EventSubscription, health: HealthStore, now: datetime
) -> Availability:
    """
    Read whether the endpoint of a subscription is held.

    Raises:
        StorageUnavailable: storage did not answer.
    """
    kept = health.read(subscription.key)
    if kept is None or kept.health.endpoint != endpoint_id(subscription):
        return Open()
    return availability(bounded_health(kept.health, Bounds(now)), now)


def holds_document(pause: Pause | None, found: Availability) -> dict[str, Any]:
    """Return as JSON members what keeps a subscription's events: its pause, and a hold."""
    held: dict[str, Any] | None = None
    match found:
        case Held(until=until, why=why):
            held = {"until": timestamp(until), "why": why}
        case NeedsProbe(why=why):
            held = {"until": None, "why": f"{why}; a probe is due"}
    paused = pause and {"since": timestamp(pause.since), "by": pause.by}
    return {"paused": paused, "held": held}


def document(state: SubscriptionState) -> dict[str, Any]:
    """Return a state as JSON members."""
    kept = state.dead_letter
    return {
        "hasConsented": state.has_consented,
        "expiredAt": optional_timestamp(state.expired_at),
        **holds_document(state.pause, state.availability),
        "deadLetter": kept and {"account": kept.account, "container": kept.container},
        "counts": {metric.value: count for metric, count in state.counts.items()},
    }


def _sums(
    reader: CountReader,
    topic: str,
    subscription: str,
    metrics: Sequence[Metric],
    span_of_time: tuple[datetime, datetime],
) -> dict[Metric, int]:
    sums = total_of(counts for _, counts in reader.minutes(topic, subscription, *span_of_time))
    return {metric: count_of(sums, metric) for metric in metrics}
