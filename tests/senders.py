"""Senders to storage queues for tests whose callers are on threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from shared.adapters.bridge import Bridge
from shared.adapters.off_loop import OnLoopSender, Threads
from shared.adapters.storage.clients import StorageClients
from shared.adapters.storage.queues import StorageSender
from shared.wiring.outbound import storage_pusher

BRIDGE = Bridge()
THREADS = Threads(4, "test")


@contextmanager
def sender_of(account: StorageClients) -> Iterator[OnLoopSender]:
    """Give a sender whose puts run on the loop of `BRIDGE`."""
    pusher = storage_pusher()
    try:
        yield OnLoopSender(StorageSender(account, pusher.send, THREADS), BRIDGE.run)
    finally:
        BRIDGE.run(pusher.close())
