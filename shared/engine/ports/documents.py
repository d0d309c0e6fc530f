"""ARM documents, and what publishing and delivering read of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from shared.events.topic import Topic
from shared.subscriptions.subscription import EventSubscription

# Kinds of documents: their partitions in ``Table.TOPICS``.
CUSTOM_TOPICS = "topic"
NAMESPACES = "namespace"
NAMESPACE_TOPICS = "namespacetopic"  # by what the data plane calls them: {namespace}.{topic}


class Table(StrEnum):
    """Tables of documents: topics by kind and name, the others by topic and subscription."""

    TOPICS = "topics"
    EVENT_SUBSCRIPTIONS = "eventsubscriptions"
    ENDPOINT_HEALTH = "endpointhealth"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """An ARM document as stored, its secrets included. *etag* changes with every write."""

    document: Mapping[str, Any]
    etag: str


class ResourceStore(Protocol):
    """ARM documents. *partition* and *name* are taken whatever their case."""

    def get(self, table: Table, partition: str, name: str) -> Resource | None:
        """Return one document."""

    def put(
        self, table: Table, partition: str, name: str, document: Mapping[str, Any], etag: str | None
    ) -> Resource:
        """
        Store a document: only over the one of *etag*, or, with ``None``, only where there is none.

        Raises:
            Conflict: somebody else was first.
            StorageUnavailable: storage did not answer.
        """

    def delete(self, table: Table, partition: str, name: str, etag: str | None = None) -> bool:
        """Delete one document, only the one of *etag* if it is given; return whether it was so."""

    def list(self, table: Table, partition: str) -> Sequence[Resource]:
        """Return all documents of a partition, by name."""


class TopicReader(Protocol):
    """Topics as publishing sees them; a change may be some seconds old."""

    def topic(self, name: str) -> Topic | None:
        """Return the topic, whatever the case of *name*."""


class SubscriptionReader(Protocol):
    """Subscriptions as delivering sees them; a change may be some seconds old."""

    def of_topic(self, topic: str) -> Sequence[EventSubscription]:
        """Return all subscriptions of a topic."""

    def subscription(self, topic: str, name: str) -> EventSubscription | None:
        """Return one subscription."""

    def fresh(self, topic: str, name: str) -> EventSubscription | None:
        """
        Return one subscription as it is in storage now.

        Raises:
            StorageUnavailable: storage did not answer.
        """
