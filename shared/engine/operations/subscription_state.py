"""Reads the current state of event subscriptions: consent, holds, dead letters, counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple

from shared.arm.subscription_codec import pending_consent, to_pause, to_subscription_in_force
from shared.clock import optional_timestamp, timestamp
from shared.delivery.furthest import Bounds
from shared.delivery.gate import Availability, Held, NeedsProbe, Open, availability
from shared.delivery.health.endpoint_health import Health, HoldReason, endpoint_id
from shared.delivery.health.health_document import health_of
from shared.engine.caching.health_table import TableHealth
from shared.engine.ports import CountReader, Document, ResourceStore, Table
from shared.engine.timers.housekeeping import COUNTS_KEPT_FOR
from shared.errors import UNREADABLE, UnreadableDocument
from shared.metrics import Metric, count_of, total_of
from shared.subscriptions.subscription import EventSubscription, Pause

_OF_TOPIC = (Metric.PUBLISH_SUCCESS, Metric.UNMATCHED)
_OF_SUBSCRIPTION = (
    Metric.MATCHED,
    Metric.DELIVERY_SUCCESS,
    Metric.DEAD_LETTERED,
    Metric.DROPPED,
)


def state_document(
    stored: Document,
    health: TableHealth,
    counts: CountReader,
    since: datetime,
    now: datetime,
) -> dict[str, Any]:
    """
    Return the state of a *stored* event subscription as JSON members, with its counts since then.

    Raises:
        UnreadableDocument: its row is damaged, or another version's.
    """
    span_of_time = (max(since, now - COUNTS_KEPT_FOR), now)
    try:
        subscription = to_subscription_in_force(stored)
        pending = pending_consent(stored, now)
    except UNREADABLE as error:
        raise UnreadableDocument from error
    topic, name = subscription.key
    dead = subscription.dead_letter
    counted = _sums(counts, topic, "", _OF_TOPIC, span_of_time)
    counted |= _sums(counts, topic, name, _OF_SUBSCRIPTION, span_of_time)
    is_expired = subscription.is_expired(now)
    return {
        "hasConsented": subscription.has_consented,
        "validation": pending and pending.document,
        "expiredAt": optional_timestamp(subscription.expires_at) if is_expired else None,
        **holds_document(subscription.pause, read_availability(subscription, health, now)),
        "deadLetter": dead and {"account": dead.account, "container": dead.container},
        "counts": {metric.value: count for metric, count in counted.items()},
    }


def read_availability(
    subscription: EventSubscription, health: TableHealth, now: datetime
) -> Availability:
    kept = health.read(subscription.key)
    if kept is None or kept.health.endpoint != endpoint_id(subscription):
        return Open()
    return availability(kept.health, now)


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


class HoldState(NamedTuple):
    """What keeps a subscription's events now: its pause, an automatic hold, both, or nothing."""

    subscription: EventSubscription
    availability: Availability
    reasons: Sequence[HoldReason]
    since: datetime | None  # of the automatic hold


def held_subscriptions(resources: ResourceStore, now: datetime) -> list[HoldState]:
    """
    Read all subscriptions that get nothing now, in the order of their topics and names.

    Rows that can't be read hold nothing, and are left out.
    """
    held = held_endpoints(resources, now)
    found = []
    for row in resources.list_all(Table.EVENT_SUBSCRIPTIONS):
        with suppress(*UNREADABLE):
            if held or to_pause(row.document):
                found.append(hold_state(to_subscription_in_force(row.document), held, now))
    return [each for each in found if each.reasons]


def held_endpoints(resources: ResourceStore, now: datetime) -> dict[str, Health]:
    """
    Read the health of each endpoint that has a hold, by its id, bounded as delivering reads it.

    Rows that can't be read hold none.
    """
    held = {}
    for row in resources.list_all(Table.ENDPOINT_HEALTH):
        with suppress(*UNREADABLE):
            health = health_of(row.document, Bounds(now))
            if health.hold:
                held[health.endpoint] = health
    return held


def hold_state(
    subscription: EventSubscription, held: Mapping[str, Health], now: datetime
) -> HoldState:
    """Judge a subscription by what `held_endpoints` has read."""
    health = held.get(endpoint_id(subscription))
    paused = [HoldReason.PAUSE] if subscription.pause else []
    if health is None or health.hold is None:
        return HoldState(subscription, Open(), paused, None)
    found, hold = availability(health, now), health.hold
    return HoldState(subscription, found, [*paused, hold.reason], hold.began_at)


def _sums(
    reader: CountReader,
    topic: str,
    subscription: str,
    metrics: Sequence[Metric],
    span_of_time: tuple[datetime, datetime],
) -> dict[Metric, int]:
    sums = total_of(counts for _, counts in reader.minutes(topic, subscription, *span_of_time))
    return {metric: count_of(sums, metric) for metric in metrics}
