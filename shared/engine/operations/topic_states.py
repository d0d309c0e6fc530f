"""Lists all topics of the deployment with the state of each of their event subscriptions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from shared.arm.subscription_codec import to_subscription_in_force
from shared.clock import timestamp
from shared.delivery.health.endpoint_health import Health, Open, availability, endpoint_id
from shared.engine.operations.holds import held_endpoints
from shared.engine.operations.subscription_state import holds_document
from shared.engine.ports import CUSTOM_TOPICS, NAMESPACE_TOPICS, Resource, ResourceStore, Table
from shared.errors import UNREADABLE
from shared.events.topic import AccountTopic, InputSchema, TopicName
from shared.subscriptions.endpoint_rules import base_url


def topic_states(
    resources: ResourceStore, now: datetime, accounts: Iterable[str] = ()
) -> dict[str, Any]:
    """
    Return all topics by name, as JSON members; of a row that can't be read only its name.

    Those of the storage *accounts* are among them if they have event subscriptions.

    Raises:
        StorageUnavailable: storage did not answer.
    """
    held = held_endpoints(resources, now)
    topics = []
    for partition in (CUSTOM_TOPICS, NAMESPACE_TOPICS):
        for row in resources.list(Table.TOPICS, partition):
            its = resources.list(Table.EVENT_SUBSCRIPTIONS, row.name)
            topics.append(
                {**_topic(row), "subscriptions": [_subscription(each, held, now) for each in its]}
            )
    for name in (AccountTopic(each).joined for each in accounts):
        if its := resources.list(Table.EVENT_SUBSCRIPTIONS, name):
            subscriptions = [_subscription(each, held, now) for each in its]
            topics.append({**_account_topic(name, its), "subscriptions": subscriptions})
    topics.sort(key=lambda each: each["name"].lower())
    return {"at": timestamp(now), "value": topics}


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


def _account_topic(name: str, its: Sequence[Resource]) -> dict[str, Any]:
    ids = (each.document.get("topicId") for each in its)
    source = next((each for each in ids if isinstance(each, str)), None)
    if source is None:
        return {"name": name, "isReadable": False}
    return {
        "name": name,
        "isReadable": True,
        "id": source,
        "inputSchema": InputSchema.EVENT_GRID,
    }


def _subscription(row: Resource, held: Mapping[str, Health], now: datetime) -> dict[str, Any]:
    try:
        found = to_subscription_in_force(row.document)
    except UNREADABLE:
        return {"name": row.name, "isReadable": False}
    health = held.get(endpoint_id(found))
    return {
        "name": found.name,
        "id": found.arm_id,
        "isReadable": True,
        "endpoint": base_url(found.endpoint_url),
        "hasConsented": found.has_consented,
        "isExpired": found.is_expired(now),
        **holds_document(found.pause, availability(health, now) if health else Open()),
    }
