"""A cached directory on resources that count how often they are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from shared.adapters.directory import CachedDirectory
from shared.engine.ports import Resource, Table
from shared.events.topic import InputSchema, Topic
from shared.subscriptions.subscription import DeliverySchema, EventSubscription
from tests.fakes import MemoryResources

SECOND = timedelta(seconds=1)
CACHE_FOR = SECOND * 5


class CountingResources(MemoryResources):
    """Counts reads."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0

    def get(self, table: Table, partition: str, name: str) -> Resource | None:
        self.reads += 1
        return super().get(table, partition, name)

    def list(self, table: Table, partition: str) -> Sequence[Resource]:
        self.reads += 1
        return super().list(table, partition)


def topic_of(document: Mapping[str, Any]) -> Topic:
    return Topic(
        name=document["name"],
        arm_id=f"/topics/{document['name']}",
        input_schema=InputSchema.EVENT_GRID,
        keys=(document.get("key", "k"), "k"),
    )


def namespace_topic_of(document: Mapping[str, Any], namespace: Mapping[str, Any]) -> Topic:
    return replace(topic_of(document), keys=(namespace["key"],))


def subscription_of(document: Mapping[str, Any]) -> EventSubscription:
    return EventSubscription(
        topic="orders",
        topic_id="/topics/orders",
        name=document["name"],
        generation=document["generation"],
        endpoint_url="https://example.com/",
        input_schema=InputSchema.EVENT_GRID,
        delivery_schema=DeliverySchema.EVENT_GRID,
    )


def put_topic(store: MemoryResources, name: str = "orders", **members: str) -> None:
    there = store.get(Table.TOPICS, "topic", name)
    document = {"name": name, **members}
    store.put(Table.TOPICS, "topic", name, document, there.etag if there else None)


def put_subscription(store: MemoryResources, name: str, generation: str | None = "g1") -> None:
    there = store.get(Table.EVENT_SUBSCRIPTIONS, "orders", name)
    document = {"name": name} | ({"generation": generation} if generation else {})
    etag = there.etag if there else None
    store.put(Table.EVENT_SUBSCRIPTIONS, "orders", name, document, etag)


def generations(directory: CachedDirectory) -> list[tuple[str, str]]:
    return [(each.name, each.generation) for each in directory.of_topic("orders")]
