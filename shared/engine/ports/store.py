"""Declares what is stored as one value, which has the ports to its parts."""

from __future__ import annotations

from typing import Protocol

from shared.engine.ports.blobs import DeadLetterReader, DeadLetterStore, PayloadStore
from shared.engine.ports.documents import ResourceStore
from shared.engine.ports.queues import QueueWatch, Receiver, Sender
from shared.engine.ports.records import (
    AttemptLog,
    AttemptReader,
    CountReader,
    CountSink,
    MetricRetention,
)


class Queues(Receiver, QueueWatch, Protocol):
    """Receives from queues, inspects them and makes them."""


class DeadLetters(DeadLetterStore, DeadLetterReader, Protocol):
    """Writes and reads blobs of dead letters."""


class Attempts(AttemptLog, AttemptReader, Protocol):
    """Writes and reads records of attempts."""


class StoredCounts(CountSink, CountReader, MetricRetention, Protocol):
    """Writes, reads and rolls up counts."""


class Store(Protocol):
    """All that a deployment stores; use cases get the ports that they need."""

    @property
    def account(self) -> str:
        """The name of the storage account, which is a source of events."""

    @property
    def documents(self) -> ResourceStore:
        """Topics, subscriptions, health, jobs and state."""

    @property
    def sender(self) -> Sender:
        """What puts messages on the queues."""

    @property
    def queues(self) -> Queues:
        """The queues, for callers on threads."""

    @property
    def payloads(self) -> PayloadStore:
        """Events that don't fit into messages."""

    @property
    def dead_letters(self) -> DeadLetters:
        """Blobs of dead letters, and poison records."""

    @property
    def attempts(self) -> Attempts:
        """Attempts of the latest days."""

    @property
    def counts(self) -> StoredCounts:
        """Counts of all processes."""
