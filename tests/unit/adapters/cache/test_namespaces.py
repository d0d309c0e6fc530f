"""CachedDirectory: topics of namespaces, which have their keys."""

from __future__ import annotations

from shared.adapters.directory import CachedDirectory, ForgetfulStore
from shared.engine.ports import CUSTOM_TOPICS, NAMESPACE_TOPICS, NAMESPACES, Table
from tests.fakes import MemoryResources
from tests.unit.adapters.cache.directory import (
    CountingResources,
)


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
