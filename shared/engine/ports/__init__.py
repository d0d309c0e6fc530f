"""Declares the interfaces that use cases need; the adapters implement them."""

from __future__ import annotations

from shared.engine.ports.blobs import (
    DeadLetterReader,
    DeadLetterStore,
    Listing,
    NoContainer,
    PayloadStore,
    StoredBlob,
)
from shared.engine.ports.commits import Commits
from shared.engine.ports.documents import (
    CUSTOM_TOPICS,
    NAMESPACE_TOPICS,
    NAMESPACES,
    PROCESSES,
    SYSTEM_TOPICS,
    Document,
    Resource,
    ResourceStore,
    SubscriptionReader,
    Table,
    TopicReader,
)
from shared.engine.ports.endpoints import (
    BlockingPusher,
    EndpointHealth,
    HealthStore,
    Notifier,
    Pusher,
    StoredHealth,
)
from shared.engine.ports.event_loop import OffLoop, OnLoop
from shared.engine.ports.queues import (
    Backlog,
    Peeked,
    Put,
    Queue,
    QueueWatch,
    Receipt,
    Received,
    Receiver,
    Sender,
)
from shared.engine.ports.records import (
    ALL_ATTEMPTS,
    AttemptChoice,
    AttemptLog,
    AttemptReader,
    CountReader,
    CountSink,
    MetricRetention,
    Metrics,
)
from shared.engine.ports.tokens import TokenVerifier

__all__ = [
    "ALL_ATTEMPTS",
    "CUSTOM_TOPICS",
    "NAMESPACES",
    "NAMESPACE_TOPICS",
    "PROCESSES",
    "SYSTEM_TOPICS",
    "AttemptChoice",
    "AttemptLog",
    "AttemptReader",
    "Backlog",
    "BlockingPusher",
    "Commits",
    "CountReader",
    "CountSink",
    "DeadLetterReader",
    "DeadLetterStore",
    "Document",
    "EndpointHealth",
    "HealthStore",
    "Listing",
    "MetricRetention",
    "Metrics",
    "NoContainer",
    "Notifier",
    "OffLoop",
    "OnLoop",
    "PayloadStore",
    "Peeked",
    "Pusher",
    "Put",
    "Queue",
    "QueueWatch",
    "Receipt",
    "Received",
    "Receiver",
    "Resource",
    "ResourceStore",
    "Sender",
    "StoredBlob",
    "StoredHealth",
    "SubscriptionReader",
    "Table",
    "TokenVerifier",
    "TopicReader",
]
