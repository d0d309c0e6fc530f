"""The ports in memory; the contract suite holds them to what the adapters do."""

from __future__ import annotations

from pushgrid.testing.memory.blobs import MemoryDeadLetters, MemoryPayloads
from pushgrid.testing.memory.clock import START, FakeClock, Seconds, SeededChance
from pushgrid.testing.memory.counts import Counted, MemoryCounts
from pushgrid.testing.memory.driven_loop import (
    DrivenLoop,
    DrivenThreads,
    NothingWillHappen,
    off_loop,
)
from pushgrid.testing.memory.faults import MemoryPort, Seam, StoreRequest, request
from pushgrid.testing.memory.pushing import (
    HeldPusher,
    ScriptedPusher,
    Sent,
    answered,
)
from pushgrid.testing.memory.queues import MemoryQueues, MemorySender, StoredMessage
from pushgrid.testing.memory.store import MemoryStore
from pushgrid.testing.memory.tables import MemoryAttempts, MemoryResources

__all__ = [
    "START",
    "Counted",
    "DrivenLoop",
    "DrivenThreads",
    "FakeClock",
    "HeldPusher",
    "MemoryAttempts",
    "MemoryCounts",
    "MemoryDeadLetters",
    "MemoryPayloads",
    "MemoryPort",
    "MemoryQueues",
    "MemoryResources",
    "MemorySender",
    "MemoryStore",
    "NothingWillHappen",
    "ScriptedPusher",
    "Seam",
    "Seconds",
    "SeededChance",
    "Sent",
    "StoreRequest",
    "StoredMessage",
    "answered",
    "off_loop",
    "request",
]
