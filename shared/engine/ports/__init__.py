"""What the use cases need from the world; the adapters implement it."""

from __future__ import annotations

from shared.engine.ports.blobs import DeadLetterStore, PayloadStore
from shared.engine.ports.documents import (
    CUSTOM_TOPICS,
    NAMESPACE_TOPICS,
    NAMESPACES,
    Resource,
    ResourceStore,
    SubscriptionReader,
    Table,
    TopicReader,
)
from shared.engine.ports.endpoints import (
    HealthStore,
    Notifier,
    Pusher,
    PushPool,
    PushResult,
    StoredHealth,
    Tokens,
)
from shared.engine.ports.queues import (
    Backlog,
    Queue,
    QueueWatch,
    Receipt,
    Received,
    Receiver,
    Seen,
    Sender,
)
from shared.engine.ports.records import AttemptLog, CountKeeping, CountReader, CountSink, Metrics
from shared.engine.ports.tokens import TokenVerifier

__all__ = [
    "CUSTOM_TOPICS",
    "NAMESPACES",
    "NAMESPACE_TOPICS",
    "AttemptLog",
    "Backlog",
    "CountKeeping",
    "CountReader",
    "CountSink",
    "DeadLetterStore",
    "HealthStore",
    "Metrics",
    "Notifier",
    "PayloadStore",
    "PushPool",
    "PushResult",
    "Pusher",
    "Queue",
    "QueueWatch",
    "Receipt",
    "Received",
    "Receiver",
    "Resource",
    "ResourceStore",
    "Seen",
    "Sender",
    "StoredHealth",
    "SubscriptionReader",
    "Table",
    "TokenVerifier",
    "Tokens",
    "TopicReader",
]
