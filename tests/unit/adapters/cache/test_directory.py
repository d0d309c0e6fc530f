"""CachedDirectory and ForgetfulStore: what serves when, and who reads."""

from __future__ import annotations

from datetime import timedelta

import pytest

from shared.adapters.directory import CachedDirectory, ForgetfulStore
from shared.engine.ports import Table
from shared.errors import StorageUnavailable
from tests.fakes import FakeClock
from tests.unit.adapters.cache.directory import (
    CACHE_FOR,
    SECOND,
    CountingResources,
    generations,
    put_subscription,
    put_topic,
)


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
