"""Reads and prints the current state of one event subscription: consent, hold, counts."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from cli.stories import span
from shared.adapters.storage.health_table import TableHealth
from shared.arm.subscription_codec import to_subscription_in_force
from shared.clock import timestamp
from shared.delivery.health.endpoint_health import (
    Held,
    NeedsProbe,
    Open,
    Standing,
    endpoint_id,
    standing,
)
from shared.engine.ports import (
    CUSTOM_TOPICS,
    NAMESPACE_TOPICS,
    CountReader,
    ResourceStore,
    Table,
)
from shared.engine.timers.housekeeping import COUNTS_KEPT_FOR
from shared.metrics import Metric, added

_OF_TOPIC = (Metric.PUBLISH_SUCCESS, Metric.UNMATCHED)
_OF_SUBSCRIPTION = (
    Metric.MATCHED,
    Metric.DELIVERY_SUCCESS,
    Metric.DEAD_LETTERED,
    Metric.DROPPED,
)


class UnknownName(ValueError):
    """No topic or event subscription has this name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionState:
    """
    The current state of one subscription.

    *standing* says whether its endpoint is sent anything, if it *has_consented*. *counts* covers
    all events since the requested time.
    """

    has_consented: bool
    standing: Standing
    counts: dict[Metric, int]

    @property
    def is_held(self) -> bool:
        return not isinstance(self.standing, Open)


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
        StorageUnavailable: storage did not answer.
    """
    topic, name = names
    kinds = (CUSTOM_TOPICS, NAMESPACE_TOPICS)
    if not any(store.get(Table.TOPICS, kind, topic) for kind in kinds):
        there = [
            str(each.document["name"]) for kind in kinds for each in store.list(Table.TOPICS, kind)
        ]
        raise UnknownName(f"there is no topic '{topic}'{_nearest(topic, there)}")
    stored = store.get(Table.EVENT_SUBSCRIPTIONS, topic, name)
    if stored is None:
        listed = store.list(Table.EVENT_SUBSCRIPTIONS, topic)
        there = [str(each.document["name"]) for each in listed]
        raise UnknownName(
            f"there is no event subscription '{name}' of topic '{topic}'{_nearest(name, there)}"
        )
    since = max(since, now - COUNTS_KEPT_FOR)
    subscription = to_subscription_in_force(stored.document)
    kept = TableHealth(store, lambda: 0.0).read(subscription.key)
    is_its = kept is not None and kept.health.endpoint == endpoint_id(subscription)
    return SubscriptionState(
        has_consented=subscription.has_consented,
        standing=standing(kept.health, now) if kept and is_its else Open(),
        counts=_counts(counts, topic, "", _OF_TOPIC, (since, now))
        | _counts(counts, topic, name, _OF_SUBSCRIPTION, (since, now)),
    )


def words(found: SubscriptionState, since: datetime, now: datetime) -> str:
    """Return the situation for people: what holds events back, and what was counted."""
    lines = []
    if not found.has_consented:
        lines.append("Nothing is sent: its endpoint has not consented to getting events.")
    match found.standing:
        case Held(until=until, why=why):
            left = span(timedelta(seconds=max(round((until - now).total_seconds()), 0)))
            lines.append(
                f"Held: nothing is sent to its endpoint for {left} more ({why}); what is due "
                "before waits for that."
            )
        case NeedsProbe():
            lines.append("Held: its time is over, and one event is sent first.")
    published, unmatched = (found.counts[each] for each in _OF_TOPIC)
    matched, delivered, buried, dropped = (found.counts[each] for each in _OF_SUBSCRIPTION)
    lines.append(
        f"Counted since {since:%Y-%m-%d %H:%M} (UTC): {published} events published, of which "
        f"{matched} matched this subscription and {unmatched} matched none; "
        f"{delivered} delivered, {buried} dead-lettered, {dropped} dropped."
    )
    if published and not matched:
        lines.append("Its filters have let none of them through.")
    return "\n".join(lines)


def document(found: SubscriptionState) -> dict[str, Any]:
    """Return the situation for programs."""
    held = found.standing
    return {
        "hasConsented": found.has_consented,
        "held": {
            "until": timestamp(held.until) if isinstance(held, Held) else None,
            "why": held.why if isinstance(held, Held) else "a probe is due",
        }
        if found.is_held
        else None,
        "counts": {metric.value: count for metric, count in found.counts.items()},
    }


def _counts(
    reader: CountReader,
    topic: str,
    subscription: str,
    metrics: Sequence[Metric],
    span: tuple[datetime, datetime],
) -> dict[Metric, int]:
    sums = added(counts for _, counts in reader.minutes(topic, subscription, *span))
    return {
        metric: round(sum(each.total for series, each in sums.items() if series.metric is metric))
        for metric in metrics
    }


def _nearest(name: str, there: Sequence[str]) -> str:
    by_key = {each.lower(): each for each in there}
    nearest = difflib.get_close_matches(name.lower(), by_key, 1)
    return f"; the nearest is '{by_key[nearest[0]]}'" if nearest else ""
