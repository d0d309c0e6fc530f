"""ResourceCache and InvalidatingStore: how old topics and subscriptions may be, and whose."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from pushgrid.testing.memory import FakeClock, MemoryResources, off_loop
from shared.adapters.threads import SystemThreads, ThreadPool
from shared.arm.namespace_codec import parse_namespace_topic
from shared.engine.caching.resource_cache import InvalidatingStore, ResourceCache
from shared.engine.ports import (
    CUSTOM_TOPICS,
    NAMESPACE_TOPICS,
    NAMESPACES,
    SYSTEM_TOPICS,
    OffLoop,
    Resource,
    Table,
)
from shared.errors import StorageUnavailable, UnreadableDocument
from shared.events.topic import Topic, TopicName
from shared.subscriptions.subscription import UNMATCHED, SubscriptionKey
from shared.tasks import Tasks
from tests.functional.deployment import Logged
from tests.unit.arm.documents import namespace, subscription, topic

SECOND = timedelta(seconds=1)
CACHE_FOR = SECOND * 5
PATIENCE = 60  # seconds after which a test that hangs fails


def a_topic(name: str = "orders", key: str = "k") -> dict[str, Any]:
    """Return what is stored of a topic; of one of a namespace as "namespace.topic"."""
    keys = {"key1": key, "key2": "k"}
    if "." in name:
        of = TopicName(*name.split("."))
        return {"keys": keys} | parse_namespace_topic(of, {}, a_namespace())
    return topic() | {"name": name, "keys": keys}


def a_namespace(key: str = "k") -> dict[str, Any]:
    return namespace({}) | {"keys": {"key1": key, "key2": "k"}}


class CountingResources(MemoryResources):
    """Counts reads, and stores documents."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0

    def get(self, table: Table, partition: str, name: str) -> Resource | None:
        self.reads += 1
        return super().get(table, partition, name)

    def list(self, table: Table, partition: str) -> Sequence[Resource]:
        self.reads += 1
        return super().list(table, partition)

    def put_topic(self, name: str = "orders", key: str = "k") -> None:
        self._store(
            Table.TOPICS,
            NAMESPACE_TOPICS if "." in name else CUSTOM_TOPICS,
            name,
            a_topic(name, key),
        )

    def put_namespace(self, key: str) -> None:
        self._store(Table.TOPICS, NAMESPACES, "shop", a_namespace(key))

    def put_subscription(self, name: str, generation: str = "g1") -> None:
        document = subscription() | {"name": name, "generation": generation}
        self._store(Table.EVENT_SUBSCRIPTIONS, "orders", name, document)

    def _store(self, table: Table, partition: str, name: str, document: Mapping[str, Any]) -> None:
        there = super().get(table, partition, name)
        self.put(table, partition, name, document, there.etag if there else None)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store() -> CountingResources:
    return CountingResources()


def cache_of(store: CountingResources, clock: FakeClock, off_loop: OffLoop) -> ResourceCache:
    threads = SystemThreads(clock.monotonic)
    return ResourceCache(
        store, cache_for=CACHE_FOR, threads=threads, off_loop=off_loop, tasks=Tasks()
    )


@pytest.fixture
def directory(store: CountingResources, clock: FakeClock) -> ResourceCache:
    return cache_of(store, clock, off_loop)


@pytest.fixture
def own(store: CountingResources, directory: ResourceCache) -> InvalidatingStore:
    return InvalidatingStore(store, directory)


def generations(directory: ResourceCache) -> list[tuple[str, str]]:
    return [(each.name, each.generation) for each in directory.of_topic("orders")]


def key_of(topic: Topic | None) -> str | None:
    assert topic is not None
    return topic.keys[0] if topic.keys else None


def test_a_topic_is_read_once_in_its_time(
    directory: ResourceCache, store: CountingResources, clock: FakeClock
) -> None:
    store.put_topic("Orders", key="old")
    found = [key_of(directory.topic("Orders"))]
    store.put_topic("Orders", key="new")
    clock.advance(CACHE_FOR - timedelta(milliseconds=1))
    found.append(key_of(directory.topic("oRDERS")))
    clock.advance(timedelta(milliseconds=1))
    found.append(key_of(directory.topic("orders")))

    assert (found, store.reads) == (["old", "old", "new"], 2)


def test_a_missing_topic_is_looked_up_again_after_a_second(
    directory: ResourceCache, store: CountingResources, clock: FakeClock
) -> None:
    missing = directory.topic("orders")
    store.put_topic()
    still = directory.topic("orders")
    clock.advance(SECOND)

    assert (missing, still) == (None, None)
    assert directory.topic("orders") is not None


def test_all_subscriptions_of_a_topic_are_one_read(
    directory: ResourceCache, store: CountingResources
) -> None:
    store.put_subscription("a")
    store.put_subscription("B")

    names = [name for name, _ in generations(directory)]
    one = directory.subscription(SubscriptionKey("ORDERS", "b"))

    assert (names, store.reads) == (["a", "B"], 1)
    assert one is not None
    assert one.name == "B"
    assert directory.subscription(SubscriptionKey("orders", "c")) is None


def test_a_topic_is_known_with_its_subscriptions(
    directory: ResourceCache, store: CountingResources
) -> None:
    store.put_topic("Orders")
    known = [directory.knows("orders", most=0)]
    directory.topic("Orders")
    known.append(directory.knows("orders", most=0))
    directory.of_topic("orders")
    known.append(directory.knows("oRDERS", most=0))

    assert (known, store.reads) == ([False, False, True], 2)


def test_an_uncached_read_goes_into_the_cache(
    directory: ResourceCache, store: CountingResources
) -> None:
    for name in ("a", "b"):
        store.put_subscription(name)
    directory.of_topic("orders")
    store.put_subscription("a", generation="g2")
    store.delete(Table.EVENT_SUBSCRIPTIONS, "orders", "b")

    changed = directory.read_uncached(SubscriptionKey("Orders", "A"))
    gone = directory.read_uncached(SubscriptionKey("orders", "b"))

    assert changed is not None
    assert (changed.generation, gone) == ("g2", None)
    assert generations(directory) == [("a", "g2")]


def test_while_storage_fails_what_is_known_serves_as_long_again_but_not_that_there_is_none(
    directory: ResourceCache, store: CountingResources, clock: FakeClock
) -> None:
    store.put_topic()
    store.put_subscription("a")
    known = (directory.topic("orders"), directory.topic("missing"), generations(directory))
    clock.advance(2 * CACHE_FOR - SECOND / 1000)
    store.fail_next("get", 1000)
    store.fail_next("list", 1000)

    assert (directory.topic("orders"), None, generations(directory)) == known
    for name in ("missing", "others"):
        with pytest.raises(StorageUnavailable):
            directory.topic(name)
        with pytest.raises(StorageUnavailable):
            directory.of_topic(name)
    with pytest.raises(StorageUnavailable):
        directory.read_uncached(SubscriptionKey("orders", "a"))
    clock.advance(SECOND / 1000)
    with pytest.raises(StorageUnavailable):
        directory.topic("orders")
    with pytest.raises(StorageUnavailable):
        directory.of_topic("orders")


def test_that_a_topic_can_not_be_read_is_logged_once_a_minute(
    directory: ResourceCache, store: CountingResources, clock: FakeClock, logged: Logged
) -> None:
    store.put_topic()
    directory.topic("orders")
    store.fail_next("get", 1000)
    lines = []
    for _ in range(75):
        clock.advance(SECOND)
        with suppress(StorageUnavailable):
            directory.topic("Orders")
        lines.append(len(logged("topic.unread")))

    assert lines == [0] * 9 + [1] * 60 + [2] * 6
    assert logged("topic.unread")[0]["topic"] == "Orders"


def test_a_source_s_topic_is_not_made_of_subscriptions_that_have_expired(
    directory: ResourceCache,
    store: CountingResources,
    clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It would be as old as they and it may be together."""
    name = "system-acct"
    assert (directory.of_topic(name), directory.topic(name)) == ((), None)
    clock.advance(CACHE_FOR)
    listed = store.list

    def unread(table: Table, partition: str) -> Sequence[Resource]:
        if table is Table.EVENT_SUBSCRIPTIONS:
            raise StorageUnavailable
        return listed(table, partition)

    monkeypatch.setattr(store, "list", unread)

    assert directory.of_topic(name) == ()
    with pytest.raises(StorageUnavailable):
        directory.topic(name)


class Readings:
    """The port ``OffLoop``: each reading ends when the test says how."""

    def __init__(self) -> None:
        self.begun: list[tuple[asyncio.Future[None], Callable[[], Any]]] = []

    async def __call__(self, call: Callable[[], Any]) -> Any:
        end = asyncio.get_running_loop().create_future()
        self.begun.append((end, call))
        await end
        return call()


async def a_few_turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.fixture
def readings() -> Readings:
    return Readings()


@pytest.fixture
def on_loop(store: CountingResources, clock: FakeClock, readings: Readings) -> ResourceCache:
    return cache_of(store, clock, readings)


@pytest.mark.parametrize("fails", [False, True])
def test_all_who_wait_for_a_topic_share_one_reading_and_take_one_thread(
    on_loop: ResourceCache, store: CountingResources, readings: Readings, *, fails: bool
) -> None:
    """Else those of a topic whose reading hangs would take the threads of all others."""
    store.put_topic()
    store.put_subscription("a")
    if fails:
        store.fail_next("list")

    async def all_wait() -> list[Any]:
        waiting = [asyncio.create_task(on_loop.ready(name)) for name in ("orders", "Orders") * 50]
        other = asyncio.create_task(on_loop.ready("other"))
        await a_few_turns()
        waiting.pop().cancel()
        of_orders, of_other = readings.begun
        of_other[0].set_result(None)
        await other
        assert not any(each.done() for each in waiting)
        of_orders[0].set_result(None)
        return await asyncio.gather(*waiting, return_exceptions=True)

    found = asyncio.run(all_wait())

    assert [type(each) for each in found] == [StorageUnavailable if fails else type(None)] * 99
    assert on_loop.knows("orders", most=10) is not fails
    assert len(readings.begun) == 2


def test_who_may_be_served_by_what_has_expired_does_not_wait(
    on_loop: ResourceCache, store: CountingResources, clock: FakeClock, readings: Readings
) -> None:
    store.put_topic()
    store.put_subscription("a")
    on_loop.topic("orders")
    on_loop.of_topic("orders")

    async def look() -> list[bool]:
        await on_loop.ready("orders")  # It needs no reading yet.
        assert readings.begun == []
        clock.advance(CACHE_FOR)
        tasks = [asyncio.create_task(on_loop.ready("orders")) for _ in range(2)]
        await a_few_turns()
        clock.advance(CACHE_FOR)
        tasks.append(asyncio.create_task(on_loop.ready("orders")))
        await a_few_turns()
        done = [each.done() for each in tasks]
        readings.begun[0][0].set_result(None)
        await asyncio.gather(*tasks)
        return done

    # One reads, one is served, and one comes too late for that.
    assert asyncio.run(look()) == [False, True, False]
    assert len(readings.begun) == 1


class HeldResources(CountingResources):
    """Each get waits until all may end, and is noted."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.begun = threading.Event()
        self.may_end = threading.Event()

    def get(self, table: Table, partition: str, name: str) -> Resource | None:
        self.names.append(name)
        self.begun.set()
        assert self.may_end.wait(PATIENCE)
        return super().get(table, partition, name)


def on_threads(store: HeldResources, off_loop: OffLoop) -> ResourceCache:
    return cache_of(store, FakeClock(), off_loop)  # which stands still: nothing expires


def test_a_failed_reading_that_nobody_waits_for_is_no_fault_of_the_loop() -> None:
    store = HeldResources()
    store.fail_next("get")
    on_loop = on_threads(store, off_loop := ThreadPool(1, "topics"))
    faults: list[Any] = []

    async def leave() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, fault: faults.append(fault))
        task = asyncio.create_task(on_loop.ready("orders"))
        assert await asyncio.to_thread(store.begun.wait, PATIENCE)
        task.cancel()
        await a_few_turns()
        store.may_end.set()
        await off_loop(lambda: None)
        await a_few_turns()

    asyncio.run(leave())
    gc.collect()

    assert faults == []
    assert store.reads == 1


def test_a_reading_is_withdrawn_when_the_last_leaves_before_it_begins() -> None:
    """Else threads read what nobody waits for, and who does wait comes last."""
    store = HeldResources()
    cache = on_threads(store, off_loop := ThreadPool(1, "topics"))

    async def leave() -> list[object]:
        held = asyncio.create_task(cache.ready("held"))
        assert await asyncio.to_thread(store.begun.wait, PATIENCE)
        shared = [asyncio.create_task(cache.ready("shared")) for _ in range(2)]
        left = [asyncio.create_task(cache.ready("left")) for _ in range(2)]
        await a_few_turns()
        for each in (held, shared[0], *left):
            each.cancel()
        await a_few_turns()
        # One that has begun goes on, and who comes now waits for it.
        again = asyncio.create_task(cache.ready("held"))
        await a_few_turns()
        store.may_end.set()
        await asyncio.wait_for(asyncio.gather(again, shared[1]), PATIENCE)
        await off_loop(lambda: None)
        return [each.cancelled() for each in (held, *shared, *left)]

    assert asyncio.run(leave()) == [True, True, False, True, True]
    assert store.names == ["held", "shared"]


def test_those_who_come_after_a_reading_was_withdrawn_share_another() -> None:
    store = HeldResources()
    threads = ThreadPool(1, "topics")
    asked: list[object] = []

    async def counted(call: Callable[[], Any]) -> Any:
        asked.append(call)
        return await threads(call)

    cache = on_threads(store, counted)

    async def come_again() -> None:
        held = asyncio.create_task(cache.ready("held"))
        assert await asyncio.to_thread(store.begun.wait, PATIENCE)
        left = asyncio.create_task(cache.ready("orders"))
        await a_few_turns()
        left.cancel()
        again = [asyncio.create_task(cache.ready("orders"))]  # in the turn in which it leaves
        await a_few_turns()
        again.append(asyncio.create_task(cache.ready("orders")))
        await a_few_turns()
        store.may_end.set()
        await asyncio.wait_for(asyncio.gather(held, *again), PATIENCE)

    asyncio.run(come_again())
    assert store.names == ["held", "orders"]
    assert len(asked) == 3


@pytest.mark.parametrize("damage", [None, [1], {"name": "broken"}])
def test_a_subscription_that_cannot_be_read_has_a_placeholder(
    directory: ResourceCache, store: CountingResources, logged: Logged, damage: object
) -> None:
    store.put_subscription("a")
    store.damage(Table.EVENT_SUBSCRIPTIONS, "orders", "broken", damage)
    key = SubscriptionKey("orders", "Broken")

    known = generations(directory)

    assert known == [("a", "g1"), ("broken", UNMATCHED)]
    for read in (directory.subscription, directory.read_uncached):
        with pytest.raises(UnreadableDocument):
            read(key)
    assert generations(directory) == known
    (line,) = logged("document.unreadable")
    assert (line["table"], line["partition"], line["row"]) == (
        "eventsubscriptions",
        "orders",
        "broken",
    )
    store.put_subscription("broken")
    assert directory.read_uncached(key) is not None
    assert directory.subscription(key) is not None


@pytest.mark.parametrize("damage", [None, [1], {"later": True}])
@pytest.mark.parametrize(
    ("name", "kind", "row"),
    [
        ("orders", CUSTOM_TOPICS, "orders"),
        ("shop.orders", NAMESPACE_TOPICS, "shop.orders"),
        ("shop.orders", NAMESPACES, "shop"),
    ],
)
def test_a_topic_that_cannot_be_read_is_an_outage_and_serves_as_it_was_known(
    directory: ResourceCache,
    store: CountingResources,
    clock: FakeClock,
    name: str,
    kind: str,
    row: str,
    damage: object,
) -> None:
    """Publishers would take 404 for final."""
    store.put_topic()
    store.put_namespace("k1")
    store.put_topic("shop.orders")
    known = directory.topic(name)
    store.damage(Table.TOPICS, kind, row, damage)
    clock.advance(CACHE_FOR)
    served = directory.topic(name)
    directory.forget(Table.TOPICS, CUSTOM_TOPICS, name)

    assert (served, known is not None) == (known, True)
    with pytest.raises(UnreadableDocument):
        directory.topic(name)


def test_own_changes_are_seen_at_once(directory: ResourceCache, own: InvalidatingStore) -> None:
    seen = [directory.topic("orders"), directory.of_topic("orders")]

    own.put(Table.TOPICS, CUSTOM_TOPICS, "Orders", a_topic("Orders"), None)
    own.put(Table.EVENT_SUBSCRIPTIONS, "Orders", "crm", subscription(), None)

    assert seen == [None, ()]
    assert directory.topic("orders") is not None
    assert generations(directory) == [("crm", "generation-1")]
    own.delete(Table.EVENT_SUBSCRIPTIONS, "orders", "crm")
    own.delete(Table.TOPICS, "topic", "orders")
    assert [directory.topic("orders"), directory.of_topic("orders")] == seen


def test_a_change_that_may_be_stored_is_seen_at_once(
    directory: ResourceCache, store: CountingResources, own: InvalidatingStore
) -> None:
    directory.topic("orders")
    store.fail_next("put", after=True)

    with pytest.raises(StorageUnavailable):
        own.put(Table.TOPICS, CUSTOM_TOPICS, "orders", a_topic(), None)

    assert directory.topic("orders") is not None


def test_a_topic_of_a_namespace_has_the_keys_of_its_namespace(
    directory: ResourceCache, store: CountingResources
) -> None:
    store.put_topic("shop.orders")
    assert directory.topic("shop.orders") is None  # without its namespace there is no topic
    store.put_namespace("k1")
    directory.forget(Table.TOPICS, NAMESPACE_TOPICS, "shop.orders")

    assert key_of(directory.topic("Shop.Orders")) == "k1"


def test_the_keys_of_its_namespace_are_good_for_a_topic_that_does_not_exist(
    directory: ResourceCache, own: InvalidatingStore
) -> None:
    assert [key_of(directory.absent(name)) for name in ("orders", "shop.orders")] == [None, None]

    own.put(Table.TOPICS, NAMESPACES, "Shop", a_namespace("k1"), None)

    assert key_of(directory.absent("Shop.Orders")) == "k1"


def test_a_changed_namespace_changes_its_topics_alone(
    directory: ResourceCache, store: CountingResources, own: InvalidatingStore
) -> None:
    store.put_namespace("k1")
    store.put_topic("shop.orders")
    store.put_topic("shop")
    assert key_of(directory.topic("shop.orders")) == "k1"
    directory.topic("shop")
    namespace = own.get(Table.TOPICS, NAMESPACES, "shop")
    assert namespace is not None
    reads = store.reads

    own.put(Table.TOPICS, NAMESPACES, "Shop", a_namespace("k2"), namespace.etag)

    assert key_of(directory.topic("shop.orders")) == "k2"
    directory.topic("shop")
    assert store.reads == reads + 2  # the topic of the namespace and the namespace


def test_a_changed_system_topic_changes_its_account_at_once(
    directory: ResourceCache, own: InvalidatingStore
) -> None:
    source = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Storage/storageAccounts/acct"
    document = {"properties": {"source": source}, "tags": {"deliveryProfile": "2017"}}
    before = directory.topic("system-acct")

    own.put(Table.TOPICS, SYSTEM_TOPICS, "Blobs", document, None)

    topic = directory.topic("system-acct")
    assert before is None
    assert topic is not None
    assert (topic.name, topic.arm_id, topic.profile) == ("system-acct", source, "2017")
    assert topic.keys == ()


def test_whose_key_shows_that_a_topic_is_absent_cannot_be_told_from_damage(
    directory: ResourceCache, store: CountingResources
) -> None:
    store.damage(Table.TOPICS, NAMESPACES, "shop", {"later": True})

    with pytest.raises(UnreadableDocument):
        directory.absent("shop.orders")
