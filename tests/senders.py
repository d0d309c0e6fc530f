"""Senders to storage queues for tests whose callers are on threads."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta

from shared.adapters.bridge import Bridge
from shared.adapters.off_loop import OnLoopSender, Threads
from shared.adapters.storage.account import StorageAccount
from shared.adapters.storage.sender import StorageSender
from shared.http import Exchange, OutboundRequest
from shared.wiring.outbound import storage_pusher

BRIDGE = Bridge()
THREADS = Threads(4, "test")


@contextmanager
def sender_of(account: StorageAccount) -> Iterator[OnLoopSender]:
    """Give a sender whose puts run on the loop of `BRIDGE`."""
    with closing(storage_pusher()) as pusher:

        async def send(request: OutboundRequest, timeout: timedelta) -> Exchange:
            return await asyncio.to_thread(pusher.send, request, timeout)

        yield OnLoopSender(StorageSender(account, send, THREADS), BRIDGE.run)
