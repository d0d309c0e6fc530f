"""All that a deployment stores, in memory."""

from __future__ import annotations

from pushgrid.testing.memory.blobs import MemoryDeadLetters, MemoryPayloads
from pushgrid.testing.memory.clock import FakeClock
from pushgrid.testing.memory.counts import MemoryCounts
from pushgrid.testing.memory.queues import MemoryQueues, MemorySender
from pushgrid.testing.memory.tables import MemoryAttempts, MemoryResources
from shared.engine.ports import OffLoop


class MemoryStore:
    """Store; the sender does its work *off_loop*."""

    account = "testing"

    def __init__(self, clock: FakeClock, off_loop: OffLoop) -> None:
        self.documents = MemoryResources()
        self.queues = MemoryQueues(clock.elsewhere)
        self.sender = MemorySender(self.queues, off_loop)
        self.payloads = MemoryPayloads(clock)
        self.dead_letters = MemoryDeadLetters(clock)
        self.attempts = MemoryAttempts()
        self.counts = MemoryCounts()
