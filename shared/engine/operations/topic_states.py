"""Lists all topics of the deployment with the state of each of their event subscriptions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from types import MappingProxyType
from typing import Any

from shared.arm.subscription_codec import pending_consent, to_subscription_in_force
from shared.clock import timestamp
from shared.delivery.health.endpoint_health import Health
from shared.engine.operations.activity import NOTHING, Activities, Activity
from shared.engine.operations.subscription_state import (
    held_endpoints,
    hold_state,
    holds_document,
)
from shared.engine.operations.troubles import (
    Facts,
    Trouble,
    document,
    in_order,
    trouble_of,
    waiting_document,
)
from shared.engine.ports import (
    CUSTOM_TOPICS,
    NAMESPACE_TOPICS,
    PROCESSES,
    Resource,
    ResourceStore,
    Table,
)
from shared.errors import UNREADABLE
from shared.events.topic import InputSchema, SourceTopic, TopicName
from shared.subscriptions.destination import base_url
from shared.subscriptions.request_limits import limits_document
from shared.subscriptions.subscription import SubscriptionKey


def topic_states(
    resources: ResourceStore,
    now: datetime,
    sources: Iterable[str] = (),
    activities: Activities = MappingProxyType({}),
    accounts: Collection[str] | None = None,
) -> dict[str, Any]:
    """
    Return all topics by name, as JSON members; of a row that can't be read only its name.

    Those of the *sources* are among them if they have event subscriptions. ``troubles``
    has what is wrong with subscriptions, the most harmful first, as `troubles.document` writes it;
    ``waiting`` what `troubles.waiting_document` has, of all of them together.
    """
    count = cache(lambda: len(resources.list(Table.TOPICS, PROCESSES)))
    states = _States(now, held_endpoints(resources, now), activities, count, accounts)
    topics = []
    for partition in (CUSTOM_TOPICS, NAMESPACE_TOPICS):
        for row in resources.list(Table.TOPICS, partition):
            its = resources.list(Table.EVENT_SUBSCRIPTIONS, row.name)
            topics.append({**_topic(row), "subscriptions": states.of(row.name, its)})
    for name in (SourceTopic(each).joined for each in sources):
        if its := resources.list(Table.EVENT_SUBSCRIPTIONS, name):
            subscriptions = states.of(name, its)
            topics.append({**_source_topic(name, its), "subscriptions": subscriptions})
    topics.sort(key=lambda each: each["name"].lower())
    return {
        "at": timestamp(now),
        "waiting": states.waiting,
        "troubles": [document(each) for each in in_order(states.troubles)],
        "value": topics,
    }


def _topic(row: Resource) -> dict[str, Any]:
    try:
        name, namespace = row.document["name"], row.document.get("namespace")
        return {
            "name": TopicName(namespace, name).joined if namespace else name,
            "isReadable": True,
            "id": row.document["id"],
            "inputSchema": row.document["properties"]["inputSchema"],
        }
    except UNREADABLE:
        return {"name": row.name, "isReadable": False}


def _source_topic(name: str, its: Sequence[Resource]) -> dict[str, Any]:
    ids = (each.document.get("topicId") for each in its)
    source = next((each for each in ids if isinstance(each, str)), None)
    if source is None:
        return {"name": name, "isReadable": False}
    schema = InputSchema.EVENT_GRID
    return {"name": name, "isReadable": True, "id": source, "inputSchema": schema}


@dataclass(slots=True)
class _States:
    """The states of subscriptions as they are read one after the other, and what is wrong."""

    now: datetime
    held: Mapping[str, Health]
    activities: Activities
    processes: Callable[[], int]
    accounts: Collection[str] | None  # where dead letters can be written; ``None``: not known
    troubles: list[Trouble] = field(default_factory=list)
    seen: list[Activity] = field(default_factory=list)

    @property
    def waiting(self) -> dict[str, Any]:
        """How many events wait for all of them together, and how many are given up."""
        ages = [each.oldest_seen for each in self.seen if each.waiting and each.oldest_seen]
        together = Activity(
            waiting=sum(each.waiting for each in self.seen),
            oldest_seen=max(ages, default=None),
            awaiting_blob=sum(each.awaiting_blob for each in self.seen),
            blobs_due=max((each.blobs_due for each in self.seen), default=timedelta()),
        )
        found = waiting_document(together)
        return {"events": found.pop("waiting"), **found}

    def of(self, topic: str, rows: Iterable[Resource]) -> list[dict[str, Any]]:
        return [self._read(topic, row) for row in rows]

    def _read(self, topic: str, row: Resource) -> dict[str, Any]:
        try:
            found = to_subscription_in_force(row.document)
            pending = pending_consent(row.document, self.now)
        except UNREADABLE:
            self._judge(Facts(key=SubscriptionKey(topic, row.name), subscription=None))
            return {"name": row.name, "isReadable": False}
        hold = hold_state(found, self.held, self.now)
        activity = self.activities.get(found.key.folded, NOTHING)
        self.seen.append(activity)
        self._judge(
            Facts(
                key=found.key,
                subscription=found,
                availability=hold.availability,
                held_since=hold.since,
                activity=activity,
                pending_consent=pending,
                accounts=self.accounts,
            )
        )
        return {
            "name": found.name,
            "id": found.arm_id,
            "isReadable": True,
            "endpoint": base_url(found.endpoint_url),
            "hasConsented": found.has_consented,
            "validation": pending and pending.document,
            "isExpired": found.is_expired(self.now),
            "limits": limits_document(found.limits, found.rate, self.processes),
            **holds_document(found.pause, hold.availability),
            **waiting_document(activity),
        }

    def _judge(self, facts: Facts) -> None:
        if trouble := trouble_of(facts, self.now):
            self.troubles.append(trouble)
