"""All that a deployment stores, in memory."""

from __future__ import annotations

from pushgrid.testing.memory.blobs import MemoryDeadLetters, MemoryPayloads
from pushgrid.testing.memory.clock import FakeClock
from pushgrid.testing.memory.counts import MemoryCounts
from pushgrid.testing.memory.queues import MemoryQueues, MemorySender
from pushgrid.testing.memory.tables import MemoryAttempts, MemoryResources
from shared.adapters.azure_storage.traits import AZURE_STORAGE
from shared.engine.ports import OffLoop, StoreTraits


class MemoryStore:
    """Store, as Azure Storage unless it has other *traits*; the sender does its work *off_loop*."""

    account = "testing"

    def __init__(
        self, clock: FakeClock, off_loop: OffLoop, traits: StoreTraits = AZURE_STORAGE
    ) -> None:
        self.traits = traits
        self.documents = MemoryResources()
        self.queues = MemoryQueues(clock.elsewhere, traits)
        self.sender = MemorySender(self.queues, off_loop)
        self.payloads = MemoryPayloads(clock)
        self.dead_letters = MemoryDeadLetters(clock)
        self.attempts = MemoryAttempts()
        self.counts = MemoryCounts()
