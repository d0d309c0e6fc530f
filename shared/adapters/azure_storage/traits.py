"""Names the limits of Azure Storage, and of the Functions host that reads its queues."""

from __future__ import annotations

from datetime import timedelta

from shared.engine.ports.store import Hiding, StoreTraits

AZURE_STORAGE = StoreTraits(
    message_size=48 * 1024,  # of the 64 KiB that the service takes
    most_in_hand=4096,  # batchSize + newBatchThreshold in host.json
    # What is hidden on a queue with a trigger counts as its length, by which Azure scales out.
    hiding=Hiding(waits=timedelta(minutes=10), holds=timedelta(minutes=1)),
    has_poison_queues=True,
    has_other_queues=True,
    keeps_attempts=False,
)
