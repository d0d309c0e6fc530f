"""Declares ports to stored ARM documents, and to topics and subscriptions read from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from shared.arm.sections import Document
from shared.events.topic import Topic
from shared.subscriptions.subscription import EventSubscription, SubscriptionKey

# Partitions of ``Table.TOPICS``, one a kind of document.
CUSTOM_TOPICS = "topic"
NAMESPACES = "namespace"
NAMESPACE_TOPICS = "namespacetopic"  # named {namespace}.{topic}, as on the data plane
SYSTEM_TOPICS = "systemtopic"  # by their own names; those of the data plane are `SourceTopic`'s
STATE = "state"  # of the deployment: first start, runs of timers, jumps of clocks, told troubles
PROCESSES = "process"  # that divide limits of requests, by chance names


class Table(StrEnum):
    """
    Tables of documents: topics by kind and name, the others by topic and subscription.

    `REPLAYS` has jobs, and what was replayed of a blob.
    """

    TOPICS = "topics"
    EVENT_SUBSCRIPTIONS = "eventsubscriptions"
    ENDPOINT_HEALTH = "endpointhealth"
    REPLAYS = "replays"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """An ARM document as stored, its secrets included."""

    name: str  # of its row, in lower case
    document: Document  # empty if the row has none
    etag: str  # changes with every write
    fault: str = ""  # why the row has no document


class ResourceStore(Protocol):
    """Stores ARM documents. *partition* and *name* are case-insensitive."""

    def get(self, table: Table, partition: str, name: str) -> Resource | None:
        """Return one document."""

    def put(
        self, table: Table, partition: str, name: str, document: Document, etag: str | None
    ) -> Resource:
        """
        Store a document: replace the one with *etag* or, with ``None``, create it.

        If just this document is there already, it is stored: storage repeats a request whose
        answer was lost, and then finds what the first one has written.

        Raises:
            Conflict: it was changed or created meanwhile.
        """

    def delete(self, table: Table, partition: str, name: str, etag: str | None = None) -> bool:
        """Delete one document, with this *etag* if given; return whether it was deleted."""

    def list(self, table: Table, partition: str) -> Sequence[Resource]:
        """Return all documents of a partition, by name."""

    def list_all(self, table: Table) -> Sequence[Resource]:
        """Return all documents of a table, by partition and name."""


class TopicReader(Protocol):
    """Reads topics for publishing; the answer may be some seconds old."""

    async def ready(self, name: str) -> None:
        """
        Return once topic and subscriptions can be returned without waiting for another's read.

        On the event loop, before a thread is taken: those who wait for a topic share one reading.
        Requests of other topics wait for it only while as many topics as can be read at once are
        being read. A reading that nobody waits for any more is withdrawn if it has not begun.

        Raises:
            StorageUnavailable: as `topic`.
        """

    def topic(self, name: str) -> Topic | None:
        """
        Return the topic; *name* is case-insensitive.

        Raises:
            StorageUnavailable: storage did not answer, or its row is an `UnreadableDocument`.
        """

    def absent(self, name: str) -> Topic:
        """Return in place of a topic that does not exist what its publishers must satisfy."""

    def knows(self, name: str, most: int) -> bool:
        """
        Tell whether the topic and its subscriptions can be returned without a read.

        Their filters together have a weight of *most* at most.
        """


class SubscriptionReader(Protocol):
    """Reads subscriptions for delivering; the answer may be some seconds old."""

    def of_topic(self, topic: str) -> Sequence[EventSubscription]:
        """Return all subscriptions of a topic, with a `placeholder` for each that can't be read."""

    def subscription(self, key: SubscriptionKey) -> EventSubscription | None:
        """
        Return one subscription.

        Raises:
            UnreadableDocument: there is one, but its row can't be read.
        """

    def read_uncached(self, key: SubscriptionKey) -> EventSubscription | None:
        """
        Return one subscription as it is in storage now.

        Raises:
            UnreadableDocument: there is one, but its row can't be read.
        """


class Directory(TopicReader, SubscriptionReader, Protocol):
    """Reads topics and their subscriptions."""

    def forget(self, table: Table, partition: str, name: str) -> None:
        """Drop what was read of a row: the next request reads it."""

    def forget_all(self) -> None:
        """Drop all that was read, and is being read."""
