"""All that a deployment stores, in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from itertools import count
from typing import Self

from pushgrid.testing.memory.blobs import MemoryDeadLetters, MemoryPayloads
from pushgrid.testing.memory.clock import FakeClock, SeededChance
from pushgrid.testing.memory.counts import MemoryCounts
from pushgrid.testing.memory.faults import Seam, at_once
from pushgrid.testing.memory.queues import MemoryQueues, MemorySender
from pushgrid.testing.memory.tables import MemoryAttempts, MemoryResources
from shared.adapters.azure_storage.traits import AZURE_STORAGE
from shared.engine.ports import Chance, OffLoop, StoreTraits
from shared.engine.ports.measures import StoreMeasure


class MemoryStore:
    """
    Store, as Azure Storage unless it has other *traits*; the sender does its work *off_loop*.

    Each request to it, by any port, passes *seam*, and has the name of the process that asks: each
    process has a view (`of`). *chance* makes its ids.
    """

    account = "testing"

    def __init__(
        self,
        clock: FakeClock,
        off_loop: OffLoop,
        traits: StoreTraits = AZURE_STORAGE,
        seam: Seam = at_once,
        chance: Chance | None = None,
    ) -> None:
        self.traits = traits
        self.catalogue_version: Callable[[], int] | None = None
        self.fault = ""
        chance = chance or SeededChance("store")
        self.documents = MemoryResources(seam, chance)
        self.queues = MemoryQueues(clock.elsewhere, traits, seam, chance)
        self.payloads = MemoryPayloads(clock, seam, chance)
        self.dead_letters = MemoryDeadLetters(clock, seam, chance)
        self.attempts = MemoryAttempts(seam, chance)
        self.counts = MemoryCounts(seam, chance)
        self.numbers: Iterator[int] = count(1)  # of what begins on it, in any process
        self._off_loop = off_loop
        self.sender = MemorySender(self.queues, off_loop)

    def unfinished(self) -> None:
        """Tell nothing, as Azure Storage."""

    def measures(self) -> Sequence[StoreMeasure]:
        return ()

    def of(self, process: str, off_loop: OffLoop | None = None) -> Self:
        """Return the same store as *process* sees it, whose sender does its work *off_loop*."""
        view = copy(self)
        view.documents = self.documents.of(process)
        view.queues = self.queues.of(process)
        view.payloads = self.payloads.of(process)
        view.dead_letters = self.dead_letters.of(process)
        view.attempts = self.attempts.of(process)
        view.counts = self.counts.of(process)
        view.sender = MemorySender(view.queues, off_loop or self._off_loop)
        return view
