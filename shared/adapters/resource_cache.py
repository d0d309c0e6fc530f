"""Caches topics and subscriptions, for publishing and delivering."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple, TypeVar

from shared import telemetry
from shared.adapters.cache import Cache
from shared.engine.ports import (
    CUSTOM_TOPICS,
    NAMESPACE_TOPICS,
    NAMESPACES,
    Document,
    Resource,
    ResourceStore,
    Table,
)
from shared.errors import UNREADABLE, StorageUnavailable
from shared.events.topic import Topic, TopicName
from shared.subscriptions.subscription import EventSubscription, SubscriptionKey

MISSING_FOR = timedelta(seconds=1)  # a topic that was just created should be found soon

V = TypeVar("V")
_ByName = Mapping[str, EventSubscription]  # in lower case


class Readers(NamedTuple):
    """Convert documents to values. A topic of a namespace needs its namespace's document, too."""

    topic: Callable[[Document], Topic]
    namespace_topic: Callable[[Document, Document], Topic]
    subscription: Callable[[Document], EventSubscription]
    absent_topic: Callable[[str, Document | None], Topic]


class ResourceCache:
    """
    TopicReader and SubscriptionReader over a ResourceStore.

    What was read lives for *cache_for* by *clock* (monotonic, in seconds); while storage does not
    answer, it serves at any age. A document that can't be read is logged and left out.
    """

    def __init__(
        self,
        store: ResourceStore,
        readers: Readers,
        *,
        cache_for: timedelta,
        clock: Callable[[], float],
    ) -> None:
        self._store = store
        self._readers = readers
        seconds = cache_for.total_seconds()
        missing_seconds = min(cache_for, MISSING_FOR).total_seconds()
        self._topics = Cache[Topic | None](
            clock, lambda topic: seconds if topic else missing_seconds
        )
        self._absent = Cache[Topic](clock, lambda _: missing_seconds)
        self._subscriptions = Cache[_ByName](clock, lambda _: seconds)

    def topic(self, name: str) -> Topic | None:
        return self._topics.get(
            name.lower(),
            lambda: self._read_topic(name),
            accepts_expired=lambda known: known is not None,  # there may be one by now
        )

    def absent(self, name: str) -> Topic:
        return self._absent.get(
            name.lower(), lambda: self._read_absent(name), accepts_expired=lambda _: False
        )

    def knows(self, name: str, most: int) -> bool:
        key = name.lower()
        is_known = self._topics.has(key) and self._subscriptions.has(key)
        return is_known and len(self._of_topic(name)) <= most

    def of_topic(self, topic: str) -> Sequence[EventSubscription]:
        return tuple(self._of_topic(topic).values())

    def subscription(self, key: SubscriptionKey) -> EventSubscription | None:
        return self._of_topic(key.topic).get(key.folded.subscription)

    def read_uncached(self, key: SubscriptionKey) -> EventSubscription | None:
        resource = self._store.get(Table.EVENT_SUBSCRIPTIONS, *key)
        found = None
        if resource:
            found = self._parsed(self._readers.subscription, resource)
            if found is None:  # None would mean deleted, and end its events
                raise StorageUnavailable
        topic, name = key.folded
        self._subscriptions.update(topic, lambda known: _with(known, name, found))
        return found

    def forget(self, topic: str) -> None:
        """Read the topic and its subscriptions anew when they are next asked for."""
        self._topics.forget(topic.lower())
        self._subscriptions.forget(topic.lower())

    def forget_namespace(self, namespace: str) -> None:
        """Read its topics anew when they are next asked for: its keys are theirs."""
        for cache in (self._topics, self._absent):
            cache.forget_all(f"{namespace.lower()}.")

    def _of_topic(self, topic: str) -> _ByName:
        return self._subscriptions.get(
            topic.lower(), lambda: self._read_subscriptions(topic), accepts_expired=lambda _: True
        )

    def _read_topic(self, name: str) -> Topic | None:
        if of_namespace := TopicName.parse(name):
            return self._read_namespace_topic(of_namespace.namespace, name)
        resource = self._store.get(Table.TOPICS, CUSTOM_TOPICS, name)
        return self._parsed(self._readers.topic, resource) if resource else None

    def _read_absent(self, name: str) -> Topic:
        of_namespace = TopicName.parse(name)
        parent = None
        if of_namespace:
            parent = self._store.get(Table.TOPICS, NAMESPACES, of_namespace.namespace)
        return self._readers.absent_topic(name, parent.document if parent else None)

    def _read_namespace_topic(self, namespace: str, name: str) -> Topic | None:
        resource = self._store.get(Table.TOPICS, NAMESPACE_TOPICS, name)
        parent = self._store.get(Table.TOPICS, NAMESPACES, namespace) if resource else None
        if resource is None or parent is None:
            return None
        return self._parsed(
            lambda document: self._readers.namespace_topic(document, parent.document), resource
        )

    def _read_subscriptions(self, topic: str) -> _ByName:
        resources = self._store.list(Table.EVENT_SUBSCRIPTIONS, topic)
        parsed = (self._parsed(self._readers.subscription, resource) for resource in resources)
        return {each.name.lower(): each for each in parsed if each}

    def _parsed(self, parse: Callable[[Document], V], resource: Resource) -> V | None:
        try:
            return parse(resource.document)
        except UNREADABLE as error:
            telemetry.error(
                "document.unreadable",
                id=str(resource.document.get("id")),
                etag=resource.etag,
                error=f"{type(error).__name__}: {error}",
            )
            return None


class InvalidatingStore:
    """ResourceStore that invalidates the cache: the process sees its own changes at once."""

    def __init__(self, store: ResourceStore, cache: ResourceCache) -> None:
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
            self._forget(table, partition, name)

    def delete(self, table: Table, partition: str, name: str, etag: str | None = None) -> bool:
        try:
            return self._store.delete(table, partition, name, etag)
        finally:
            self._forget(table, partition, name)

    def list(self, table: Table, partition: str) -> Sequence[Resource]:
        return self._store.list(table, partition)

    def _forget(self, table: Table, partition: str, name: str) -> None:
        if table is Table.TOPICS and partition == NAMESPACES:
            self._cache.forget_namespace(name)
        else:
            self._cache.forget(name if table is Table.TOPICS else partition)


def _with(known: _ByName, name: str, found: EventSubscription | None) -> _ByName:
    others = {each: known[each] for each in known if each != name}
    return others if found is None else others | {name: found}
