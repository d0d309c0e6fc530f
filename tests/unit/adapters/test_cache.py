"""CachedDirectory and ForgetfulStore: what serves when, and who reads."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from shared.adapters.cache import CachedDirectory, ForgetfulStore, Readers
from shared.engine.ports import CUSTOM_TOPICS, NAMESPACE_TOPICS, NAMESPACES, Resource, Table
from shared.errors import StorageUnavailable
from shared.events.topic import InputSchema, Topic
from shared.subscriptions.subscription import DeliverySchema, EventSubscription
from tests.fakes import FakeClock, MemoryResources

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


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store() -> CountingResources:
    return CountingResources()


@pytest.fixture
def directory(store: CountingResources, clock: FakeClock) -> CachedDirectory:
    return CachedDirectory(
        store,
        Readers(topic_of, namespace_topic_of, subscription_of),
        cache_for=CACHE_FOR,
        clock=clock.monotonic,
    )


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


def test_a_topic_is_read_once_in_its_time(
    directory: CachedDirectory, store: CountingResources, clock: FakeClock
) -> None:
    put_topic(store, "Orders")
    store.reads = 0

    first = directory.topic("Orders")
    clock.advance(CACHE_FOR - timedelta(milliseconds=1))
    second = directory.topic("oRDERS")

    assert first is not None
    assert (second is first, store.reads) == (True, 1)


def test_a_topic_is_read_again_after_its_time(
    directory: CachedDirectory, store: CountingResources, clock: FakeClock
) -> None:
    put_topic(store, key="old")
    directory.topic("orders")
    put_topic(store, key="new")
    clock.advance(CACHE_FOR)

    topic = directory.topic("orders")

    assert topic is not None
    assert topic.keys[0] == "new"


def test_that_there_is_no_topic_is_believed_for_a_second(
    directory: CachedDirectory, store: CountingResources, clock: FakeClock
) -> None:
    missing = directory.topic("orders")
    put_topic(store)
    still = directory.topic("orders")
    clock.advance(SECOND)

    assert (missing, still) == (None, None)
    assert directory.topic("orders") is not None


def test_all_subscriptions_of_a_topic_are_one_read(
    directory: CachedDirectory, store: CountingResources
) -> None:
    put_subscription(store, "a")
    put_subscription(store, "B")
    store.reads = 0

    names = [name for name, _ in generations(directory)]
    one = directory.subscription("ORDERS", "b")

    assert (names, store.reads) == (["a", "B"], 1)
    assert one is not None
    assert one.name == "B"
    assert directory.subscription("orders", "c") is None


def test_stale_entries_serve_while_storage_fails(
    directory: CachedDirectory, store: CountingResources, clock: FakeClock
) -> None:
    put_topic(store)
    put_subscription(store, "a")
    topic, known = directory.topic("orders"), generations(directory)
    store.fail_next("get", 9)
    store.fail_next("list", 9)
    clock.advance(timedelta(days=3))

    assert (directory.topic("orders"), generations(directory)) == (topic, known)


def test_while_storage_fails_it_is_asked_only_now_and_then(
    directory: CachedDirectory, store: CountingResources, clock: FakeClock
) -> None:
    put_topic(store)
    directory.topic("orders")
    store.fail_next("get", 9)
    clock.advance(CACHE_FOR)
    store.reads = 0

    for _ in range(3):
        directory.topic("orders")

    assert store.reads == 1


def test_with_nothing_to_serve_the_failure_goes_up_and_is_not_kept(
    directory: CachedDirectory, store: CountingResources
) -> None:
    put_topic(store)
    store.fail_next("get")
    store.fail_next("list")

    with pytest.raises(StorageUnavailable):
        directory.topic("orders")
    with pytest.raises(StorageUnavailable):
        directory.of_topic("orders")

    assert directory.topic("orders") is not None
    assert directory.of_topic("orders") == ()


def test_that_there_was_none_does_not_serve_while_storage_fails(
    directory: CachedDirectory, store: CountingResources, clock: FakeClock
) -> None:
    directory.topic("orders")
    store.fail_next("get")
    clock.advance(SECOND)

    with pytest.raises(StorageUnavailable):
        directory.topic("orders")


def test_fresh_reads_past_the_cache_and_into_it(
    directory: CachedDirectory, store: CountingResources
) -> None:
    put_subscription(store, "a")
    put_subscription(store, "b")
    directory.of_topic("orders")
    put_subscription(store, "a", "g2")
    store.delete(Table.EVENT_SUBSCRIPTIONS, "orders", "b")

    fresh = directory.fresh("Orders", "A")
    gone = directory.fresh("orders", "b")

    assert fresh is not None
    assert (fresh.generation, gone) == ("g2", None)
    assert generations(directory) == [("a", "g2")]


def test_fresh_fails_when_storage_does(
    directory: CachedDirectory, store: CountingResources
) -> None:
    put_subscription(store, "a")
    directory.of_topic("orders")
    store.fail_next("get")

    with pytest.raises(StorageUnavailable):
        directory.fresh("orders", "a")


def test_what_cannot_be_read_is_logged_and_left_out(
    directory: CachedDirectory, store: CountingResources, caplog: pytest.LogCaptureFixture
) -> None:
    put_subscription(store, "a")
    put_subscription(store, "broken", generation=None)

    with caplog.at_level(logging.ERROR):
        known = generations(directory)

    assert known == [("a", "g1")]
    (line,) = [json.loads(record.message) for record in caplog.records]
    assert line["event"] == "document.unreadable"


def test_what_cannot_be_read_is_not_taken_for_deleted(
    directory: CachedDirectory, store: CountingResources
) -> None:
    put_subscription(store, "broken", generation=None)

    with pytest.raises(StorageUnavailable):
        directory.fresh("orders", "broken")


def test_own_changes_are_seen_at_once(directory: CachedDirectory, store: CountingResources) -> None:
    forgetful = ForgetfulStore(store, directory)
    seen = [directory.topic("orders"), directory.of_topic("orders")]

    forgetful.put(Table.TOPICS, "topic", "Orders", {"name": "Orders"}, None)
    forgetful.put(Table.EVENT_SUBSCRIPTIONS, "Orders", "a", {"name": "a", "generation": "g1"}, None)

    assert seen == [None, ()]
    assert directory.topic("orders") is not None
    assert generations(directory) == [("a", "g1")]
    forgetful.delete(Table.EVENT_SUBSCRIPTIONS, "orders", "a")
    forgetful.delete(Table.TOPICS, "topic", "orders")
    assert [directory.topic("orders"), directory.of_topic("orders")] == seen


def test_a_change_that_may_be_stored_is_seen_at_once(
    directory: CachedDirectory, store: CountingResources
) -> None:
    forgetful = ForgetfulStore(store, directory)
    directory.topic("orders")
    store.fail_next("put", after=True)

    with pytest.raises(StorageUnavailable):
        forgetful.put(Table.TOPICS, "topic", "orders", {"name": "orders"}, None)

    assert directory.topic("orders") is not None


def put_namespace_topic(store: MemoryResources, key: str) -> None:
    store.put(Table.TOPICS, NAMESPACES, "shop", {"key": key}, None)
    store.put(Table.TOPICS, NAMESPACE_TOPICS, "shop.orders", {"name": "shop.orders"}, None)


def test_a_topic_of_a_namespace_has_the_keys_of_its_namespace(
    directory: CachedDirectory, store: CountingResources
) -> None:
    assert directory.topic("shop.orders") is None
    put_namespace_topic(store, "k1")
    directory.forget("shop.orders")

    topic = directory.topic("Shop.Orders")

    assert topic is not None
    assert topic.keys == ("k1",)


def test_a_changed_namespace_changes_its_topics(
    directory: CachedDirectory, store: CountingResources
) -> None:
    put_namespace_topic(store, "k1")
    store.put(Table.TOPICS, CUSTOM_TOPICS, "shop", {"name": "shop"}, None)
    forgetful = ForgetfulStore(store, directory)
    assert directory.topic("shop.orders") is not None
    assert directory.topic("shop") is not None
    reads = store.reads
    known = store.get(Table.TOPICS, NAMESPACES, "shop")
    assert known is not None

    forgetful.put(Table.TOPICS, NAMESPACES, "Shop", {"key": "k2"}, known.etag)

    topic = directory.topic("shop.orders")
    assert topic is not None
    assert topic.keys == ("k2",)
    assert directory.topic("shop") is not None
    assert store.reads == reads + 3  # ours, and the two documents of the topic


def test_a_topic_without_its_namespace_is_none(
    directory: CachedDirectory, store: CountingResources
) -> None:
    store.put(Table.TOPICS, NAMESPACE_TOPICS, "shop.orders", {"name": "shop.orders"}, None)

    assert directory.topic("shop.orders") is None
