"""Caches topics and subscriptions, for publishing and delivering."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property, partial
from typing import TypeVar

from shared.arm.namespace_codec import to_absent_topic, to_namespace_topic
from shared.arm.subscription_codec import to_subscription_in_force
from shared.arm.system_topic_codec import to_source_topic, to_system_topic
from shared.arm.topic_codec import to_topic
from shared.engine.caching.cache import Cache, OncePerMinute
from shared.engine.ports import (
    CUSTOM_TOPICS,
    NAMESPACE_TOPICS,
    NAMESPACES,
    SYSTEM_TOPICS,
    Directory,
    Document,
    Lock,
    OffLoop,
    Resource,
    ResourceStore,
    Table,
    Threads,
)
from shared.errors import UNREADABLE, StorageUnavailable, UnreadableDocument
from shared.events.topic import SourceTopic, Topic, TopicName
from shared.subscriptions.subscription import (
    UNMATCHED,
    EventSubscription,
    SubscriptionKey,
    placeholder,
)
from shared.tasks import Tasks

MISSING_FOR = timedelta(seconds=1)  # a topic that was just created should be found soon

V = TypeVar("V")


class _ByName(dict[str, EventSubscription]):
    """Subscriptions by name in lower case; stand-ins for what can't be read."""

    @cached_property
    def weight(self) -> int:
        """The sum of their filters' weights."""
        return sum(each.filter.weight for each in self.values())


class _Claim:
    """Whether a reading begins or is withdrawn; one that has begun is never withdrawn."""

    def __init__(self, lock: Lock) -> None:
        self._lock = lock

    def take(self) -> bool:
        """Return ``True`` to whoever comes first: its thread, or the last who waits for it."""
        return self._lock.acquire(blocking=False)


@dataclass(slots=True, eq=False)
class _Reading:
    """A reading that all who wait for a topic share."""

    task: asyncio.Task[None]
    claim: _Claim
    waiting: int = 0


class ResourceCache:
    """
    TopicReader and SubscriptionReader over a ResourceStore.

    What was read lives for *cache_for*; while it is read again or storage does not answer, it
    serves for as long again. Nothing older is returned: then `StorageUnavailable` is raised, and
    logged once a minute. A row that can't be read is logged; it is not taken for missing. `ready`
    is for the event loop, and reads by *off_loop*; a reading that has not begun when the last who
    waits for it is cancelled is withdrawn.
    """

    def __init__(
        self,
        store: ResourceStore,
        *,
        cache_for: timedelta,
        threads: Threads,
        off_loop: OffLoop,
        tasks: Tasks,
    ) -> None:
        self._store = store
        self._threads = threads
        self._off_loop = off_loop
        self._tasks = tasks
        self._readings: dict[str, _Reading] = {}
        seconds = cache_for.total_seconds()
        missing_seconds = min(cache_for, MISSING_FOR).total_seconds()
        self._topics = Cache[Topic | None](
            threads, lambda topic: seconds if topic else missing_seconds
        )
        self._absent = Cache[Topic](threads, lambda _: missing_seconds)
        self._subscriptions = Cache[_ByName](threads, lambda _: seconds)
        self._errors = OncePerMinute(threads)

    async def ready(self, name: str) -> None:
        key = name.lower()
        if self._is_current(key):
            return
        reading = self._readings.get(key)
        if reading is None:
            reading = self._begin(key, name)
        elif None not in (self._topics.known(key), self._subscriptions.known(key)):
            return  # What has expired serves while one reads.
        reading.waiting += 1
        try:
            await asyncio.shield(reading.task)
        finally:
            reading.waiting -= 1
            if reading.waiting == 0 and reading.claim.take():
                self._drop(key, reading.task)
                reading.task.cancel()

    def topic(self, name: str) -> Topic | None:
        return self._get(
            self._topics,
            name,
            self._read_topic,
            accepts_expired=lambda known: known is not None,  # there may be one by now
        )

    def absent(self, name: str) -> Topic:
        return self._absent.get(name.lower(), lambda: self._read_absent(name))

    def knows(self, name: str, most: int) -> bool:
        key = name.lower()
        is_known = self._topics.has(key) and self._subscriptions.has(key)
        return is_known and self._of_topic(name).weight <= most

    def of_topic(self, topic: str) -> Sequence[EventSubscription]:
        return tuple(self._of_topic(topic).values())

    def subscription(self, key: SubscriptionKey) -> EventSubscription | None:
        return _readable(self._of_topic(key.topic).get(key.folded.subscription))

    def read_uncached(self, key: SubscriptionKey) -> EventSubscription | None:
        resource = self._store.get(Table.EVENT_SUBSCRIPTIONS, *key)
        found = self._subscription(key.topic, resource) if resource else None
        topic, name = key.folded
        self._subscriptions.update(topic, lambda known: _with(known, name, found))
        return _readable(found)

    def forget(self, table: Table, partition: str, name: str) -> None:
        """Drop what was read of a row: the next request reads it."""
        if table is Table.TOPICS and partition == NAMESPACES:  # Its topics have its keys.
            for cache in (self._topics, self._absent):
                cache.forget_all(f"{name.lower()}.")
        elif table is Table.TOPICS and partition == SYSTEM_TOPICS:
            self._topics.forget_all(SourceTopic("").joined)
        else:
            topic = name if table is Table.TOPICS else partition
            self._topics.forget(topic.lower())
            self._subscriptions.forget(topic.lower())

    def forget_all(self) -> None:
        for cache in (self._topics, self._absent, self._subscriptions):
            cache.forget_all("")

    def _is_current(self, key: str) -> bool:
        is_missing = self._topics.known(key) is None
        return self._topics.has(key) and (is_missing or self._subscriptions.has(key))

    def _begin(self, key: str, name: str) -> _Reading:
        claim = _Claim(self._threads.lock())
        task = self._tasks.spawn(self._off_loop(partial(self._read, name, claim)))
        task.add_done_callback(partial(self._has_read, key))
        reading = self._readings[key] = _Reading(task, claim)
        return reading

    def _read(self, name: str, claim: _Claim) -> None:
        if claim.take() and self.topic(name):
            self._of_topic(name)

    def _has_read(self, key: str, task: asyncio.Task[None]) -> None:
        self._drop(key, task)
        if not task.cancelled():
            task.exception()  # There may be nobody left who waits for it.

    def _drop(self, key: str, task: asyncio.Task[None]) -> None:
        reading = self._readings.get(key)
        if reading and reading.task is task:  # else the next has begun
            del self._readings[key]

    def _of_topic(self, topic: str) -> _ByName:
        return self._get(
            self._subscriptions, topic, self._read_subscriptions, accepts_expired=lambda _: True
        )

    def _get(
        self,
        cache: Cache[V],
        topic: str,
        read: Callable[[str], V],
        accepts_expired: Callable[[V], bool],
    ) -> V:
        try:
            return cache.get(topic.lower(), lambda: read(topic), accepts_expired)
        except UnreadableDocument:
            raise  # It is logged.
        except StorageUnavailable as error:
            self._errors.log("topic.unread", topic, topic=topic, detail=str(error))
            raise

    def _read_topic(self, name: str) -> Topic | None:
        if of_namespace := TopicName.parse(name):
            return self._read_namespace_topic(of_namespace.namespace, name)
        if of_source := SourceTopic.parse(name):
            return self._read_source_topic(of_source)
        resource = self._store.get(Table.TOPICS, CUSTOM_TOPICS, name)
        if resource is None:
            return None
        read = _of_row(to_topic, name.lower(), _folded)
        return self._parsed(read, Table.TOPICS, CUSTOM_TOPICS, resource)

    def _read_absent(self, name: str) -> Topic:
        of_namespace = TopicName.parse(name)
        parent = None
        if of_namespace:
            parent = self._store.get(Table.TOPICS, NAMESPACES, of_namespace.namespace)
        if parent is None:
            return to_absent_topic(name, None)
        read = partial(to_absent_topic, name)
        return self._parsed(read, Table.TOPICS, NAMESPACES, parent)

    def _read_namespace_topic(self, namespace: str, name: str) -> Topic | None:
        resource = self._store.get(Table.TOPICS, NAMESPACE_TOPICS, name)
        parent = self._store.get(Table.TOPICS, NAMESPACES, namespace) if resource else None
        if resource is None or parent is None:
            return None
        parse = partial(to_namespace_topic, namespace=parent.document)
        read = _of_row(parse, name.lower(), _folded)
        partition = f"{NAMESPACES} or {NAMESPACE_TOPICS}"
        return self._parsed(read, Table.TOPICS, partition, resource)

    def _read_source_topic(self, name: SourceTopic) -> Topic | None:
        system_topics = []
        for row in self._store.list(Table.TOPICS, SYSTEM_TOPICS):
            with suppress(UnreadableDocument):  # logged; it costs the others nothing
                self._parsed(to_system_topic, Table.TOPICS, SYSTEM_TOPICS, row)
                system_topics.append(row.document)
        subscriptions = self._read_subscriptions(name.joined).values()  # none that has expired
        sources = (each.topic_id for each in subscriptions if each.generation != UNMATCHED)
        return to_source_topic(name, system_topics, sources)

    def _read_subscriptions(self, topic: str) -> _ByName:
        resources = self._store.list(Table.EVENT_SUBSCRIPTIONS, topic)
        return _ByName({each.name: self._subscription(topic, each) for each in resources})

    def _subscription(self, topic: str, resource: Resource) -> EventSubscription:
        """Return the subscription, or its placeholder: an unreadable one costs no other."""
        key = SubscriptionKey(topic, resource.name).folded
        read = _of_row(to_subscription_in_force, key, lambda found: found.key.folded)
        try:
            return self._parsed(read, Table.EVENT_SUBSCRIPTIONS, topic, resource)
        except UnreadableDocument:
            return placeholder(key)

    def _parsed(
        self, parse: Callable[[Document], V], table: Table, partition: str, row: Resource
    ) -> V:
        try:
            return parse(row.document)
        except UNREADABLE as error:
            self._errors.log_row("document.unreadable", table, partition, row, error)
            raise UnreadableDocument from error


class InvalidatingStore:
    """ResourceStore that invalidates the cache: the process sees its own changes at once."""

    def __init__(self, store: ResourceStore, cache: Directory) -> None:
        self._store = store
        self._cache = cache

    def get(self, table: Table, partition: str, name: str) -> Resource | None:
        return self._store.get(table, partition, name)

    def put(
        self, table: Table, partition: str, name: str, document: Document, etag: str | None
    ) -> Resource:
        try:
            return self._store.put(table, partition, name, document, etag)
        finally:  # it may be stored even if storage did not answer
            self._cache.forget(table, partition, name)

    def delete(self, table: Table, partition: str, name: str, etag: str | None = None) -> bool:
        try:
            return self._store.delete(table, partition, name, etag)
        finally:
            self._cache.forget(table, partition, name)

    def list(self, table: Table, partition: str) -> Sequence[Resource]:
        return self._store.list(table, partition)

    def list_all(self, table: Table) -> Sequence[Resource]:
        return self._store.list_all(table)


def _of_row(
    parse: Callable[[Document], V], name: object, name_of: Callable[[V], object]
) -> Callable[[Document], V]:
    """Return *parse* that refuses the document of another row: messages name what they are for."""

    def read(document: Document) -> V:
        if name_of(found := parse(document)) != name:
            raise ValueError("the document is that of another row")
        return found

    return read


def _folded(topic: Topic) -> str:
    return topic.name.lower()


def _readable(found: EventSubscription | None) -> EventSubscription | None:
    if found and found.generation == UNMATCHED:
        raise UnreadableDocument
    return found


def _with(known: _ByName, name: str, found: EventSubscription | None) -> _ByName:
    others = _ByName({each: known[each] for each in known if each != name})
    if found:
        others[name] = found
    return others
