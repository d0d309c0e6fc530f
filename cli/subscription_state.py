"""Reads and prints the current state of one event subscription: consent, hold, counts."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from cli.event_timeline import span
from shared.adapters.storage.health_table import TableHealth
from shared.arm.subscription_codec import to_subscription_in_force
from shared.clock import timestamp
from shared.delivery.health.endpoint_health import (
    Availability,
    Held,
    NeedsProbe,
    Open,
    availability,
    endpoint_id,
)
from shared.engine.ports import (
    CUSTOM_TOPICS,
    NAMESPACE_TOPICS,
    CountReader,
    ResourceStore,
    Table,
)
from shared.engine.timers.housekeeping import COUNTS_KEPT_FOR
from shared.errors import UNREADABLE
from shared.metrics import Metric, total_of

_OF_TOPIC = (Metric.PUBLISH_SUCCESS, Metric.UNMATCHED)
_OF_SUBSCRIPTION = (
    Metric.MATCHED,
    Metric.DELIVERY_SUCCESS,
    Metric.DEAD_LETTERED,
    Metric.DROPPED,
)


class UnknownName(ValueError):
    """No topic or event subscription has this name."""


class UnreadableRow(ValueError):
    """The event subscription exists, but its row can't be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionState:
    """
    The current state of one subscription.

    *availability* tells whether its endpoint is sent anything, if it *has_consented*. *counts*
    covers all events since the requested time.
    """

    has_consented: bool
    availability: Availability
    counts: dict[Metric, int]


def read_state(
    store: ResourceStore,
    counts: CountReader,
    names: tuple[str, str],
    since: datetime,
    now: datetime,
) -> SubscriptionState:
    """
    Read the state of the subscription *names*, a topic's and its own.

    Raises:
        UnknownName: one of them does not exist.
        UnreadableRow: the subscription's row can't be read.
        StorageUnavailable: storage did not answer.
    """
    topic, name = names
    kinds = (CUSTOM_TOPICS, NAMESPACE_TOPICS)
    if not any(store.get(Table.TOPICS, kind, topic) for kind in kinds):
        listed = [each for kind in kinds for each in store.list(Table.TOPICS, kind)]
        nearest = _nearest(topic, [str(each.document.get("name", each.name)) for each in listed])
        raise UnknownName(f"there is no topic '{topic}'{nearest}")
    stored = store.get(Table.EVENT_SUBSCRIPTIONS, topic, name)
    if stored is None:
        listed = list(store.list(Table.EVENT_SUBSCRIPTIONS, topic))
        nearest = _nearest(name, [str(each.document.get("name", each.name)) for each in listed])
        raise UnknownName(f"there is no event subscription '{name}' of topic '{topic}'{nearest}")
    span_of_time = (max(since, now - COUNTS_KEPT_FOR), now)
    try:
        subscription = to_subscription_in_force(stored.document)
    except UNREADABLE as error:
        raise UnreadableRow(
            f"the event subscription '{name}' of topic '{topic}' can't be read: its row is damaged "
            "or another version's; its events are kept"
        ) from error
    kept = TableHealth(store, lambda: 0.0).read(subscription.key)
    is_current = kept is not None and kept.health.endpoint == endpoint_id(subscription)
    return SubscriptionState(
        has_consented=subscription.has_consented,
        availability=availability(kept.health, now) if kept and is_current else Open(),
        counts=_sums(counts, topic, "", _OF_TOPIC, span_of_time)
        | _sums(counts, topic, name, _OF_SUBSCRIPTION, span_of_time),
    )


def text(state: SubscriptionState, since: datetime, now: datetime) -> str:
    """Return a state as text: what holds events back, and what was counted."""
    lines = []
    if not state.has_consented:
        lines.append("Not delivering: the endpoint has not completed the validation handshake.")
    match state.availability:
        case Held(until=until, why=why):
            left = span(timedelta(seconds=max(round((until - now).total_seconds()), 0)))
            lines.append(f"Held: the endpoint is sent nothing for another {left} ({why}).")
        case NeedsProbe():
            lines.append("Held: the hold has expired, and one event is sent first as a probe.")
    published, unmatched = (state.counts[each] for each in _OF_TOPIC)
    matched, delivered, dead_lettered, dropped = (state.counts[each] for each in _OF_SUBSCRIPTION)
    lines.append(
        f"Counted since {since:%Y-%m-%d %H:%M} (UTC): {published} events published, of which "
        f"{matched} matched this subscription and {unmatched} matched none; "
        f"{delivered} delivered, {dead_lettered} dead-lettered, {dropped} dropped."
    )
    if published and not matched:
        lines.append("Its filters matched none of them.")
    return "\n".join(lines)


def document(state: SubscriptionState) -> dict[str, Any]:
    """Return a state as JSON members."""
    held: dict[str, Any] | None = None
    match state.availability:
        case Held(until=until, why=why):
            held = {"until": timestamp(until), "why": why}
        case NeedsProbe():
            held = {"until": None, "why": "a probe is due"}
    return {
        "hasConsented": state.has_consented,
        "held": held,
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
    return {
        metric: round(sum(each.total for series, each in sums.items() if series.metric is metric))
        for metric in metrics
    }


def _nearest(name: str, existing: Sequence[str]) -> str:
    by_key = {each.lower(): each for each in existing}
    nearest = difflib.get_close_matches(name.lower(), by_key, 1)
    return f"; the nearest is '{by_key[nearest[0]]}'" if nearest else ""
