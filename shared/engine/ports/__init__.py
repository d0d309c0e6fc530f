"""
Declares the interfaces that use cases need; the adapters implement them.

Each call to storage, and so each use case, raises `StorageUnavailable` where storage fails: a write
may or may not be stored then, and of several some. Docstrings say only what is beyond that.
"""

from __future__ import annotations

from shared.arm.sections import Document
from shared.engine.ports.blobs import (
    DeadLetterReader,
    DeadLetterStore,
    Listing,
    NoContainer,
    PayloadStore,
    StoredBlob,
)
from shared.engine.ports.documents import (
    CUSTOM_TOPICS,
    NAMESPACE_TOPICS,
    NAMESPACES,
    PROCESSES,
    STATE,
    SYSTEM_TOPICS,
    Directory,
    Resource,
    ResourceStore,
    SubscriptionReader,
    Table,
    TopicReader,
)
from shared.engine.ports.endpoints import (
    Pusher,
    ReserveConnection,
    StoredHealth,
    TokenVerifier,
)
from shared.engine.ports.process import Chance, Channel, Lock, OffLoop, OnLoop, Threads
from shared.engine.ports.queues import (
    POISON_QUEUES,
    Backlog,
    Commits,
    Peeked,
    PutResult,
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
    KeyedCounts,
    MetricRetention,
    Metrics,
)
from shared.engine.ports.store import (
    Attempts,
    DeadLetters,
    Hiding,
    Queues,
    Store,
    StoredCounts,
    StoreTraits,
)

__all__ = [
    "ALL_ATTEMPTS",
    "CUSTOM_TOPICS",
    "NAMESPACES",
    "NAMESPACE_TOPICS",
    "POISON_QUEUES",
    "PROCESSES",
    "STATE",
    "SYSTEM_TOPICS",
    "AttemptChoice",
    "AttemptLog",
    "AttemptReader",
    "Attempts",
    "Backlog",
    "Chance",
    "Channel",
    "Commits",
    "CountReader",
    "CountSink",
    "DeadLetterReader",
    "DeadLetterStore",
    "DeadLetters",
    "Directory",
    "Document",
    "Hiding",
    "KeyedCounts",
    "Listing",
    "Lock",
    "MetricRetention",
    "Metrics",
    "NoContainer",
    "OffLoop",
    "OnLoop",
    "PayloadStore",
    "Peeked",
    "Pusher",
    "PutResult",
    "Queue",
    "QueueWatch",
    "Queues",
    "Receipt",
    "Received",
    "Receiver",
    "ReserveConnection",
    "Resource",
    "ResourceStore",
    "Sender",
    "Store",
    "StoreTraits",
    "StoredBlob",
    "StoredCounts",
    "StoredHealth",
    "SubscriptionReader",
    "Table",
    "Threads",
    "TokenVerifier",
    "TopicReader",
]
