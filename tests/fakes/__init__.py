"""The ports in memory; tests/contract holds them to what the adapters do."""

from __future__ import annotations

from tests.fakes.blobs import MemoryDeadLetters, MemoryPayloads
from tests.fakes.clock import START, FakeClock, Seconds
from tests.fakes.commits import InlineCommits
from tests.fakes.counts import Counted, MemoryCounts
from tests.fakes.faults import Faulty
from tests.fakes.pushing import (
    InlineNotifier,
    InlineThreads,
    MemoryTokens,
    ScriptedPusher,
    Sent,
    answered,
)
from tests.fakes.queues import MemoryQueues, Stored
from tests.fakes.tables import MemoryAttempts, MemoryResources

__all__ = [
    "START",
    "Counted",
    "FakeClock",
    "Faulty",
    "InlineCommits",
    "InlineNotifier",
    "InlineThreads",
    "MemoryAttempts",
    "MemoryCounts",
    "MemoryDeadLetters",
    "MemoryPayloads",
    "MemoryQueues",
    "MemoryResources",
    "MemoryTokens",
    "ScriptedPusher",
    "Seconds",
    "Sent",
    "Stored",
    "answered",
]
