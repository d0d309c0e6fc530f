"""Senders to storage queues for tests whose callers are on threads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from time import monotonic

from shared.adapters.azure_storage.clients import StorageClients
from shared.adapters.azure_storage.sender import StorageSender
from shared.adapters.threads import SystemThreads
from shared.engine.ports import OnLoop, PutResult, Queue, Receipt, Sender
from shared.wiring.outbound import storage_pusher

THREADS = SystemThreads()
_OFF_LOOP = THREADS.pool("test", 4)


class OnLoopSender:
    """A sender for callers on threads over *on_loop*, which runs on the event loop."""

    def __init__(self, on_loop: Sender, run: OnLoop) -> None:
        self.on_loop = on_loop
        self._run = run

    def put(self, queue: Queue, text: str, visible_in: timedelta = timedelta()) -> Receipt:
        return self._run(self.on_loop.put(queue, text, visible_in))

    def put_all(
        self, queue: Queue, texts: Sequence[str], visible_in: timedelta = timedelta()
    ) -> Sequence[PutResult]:
        return self._run(self.on_loop.put_all(queue, texts, visible_in))

    def take_back(self, queue: Queue, receipt: Receipt) -> bool:
        return self._run(self.on_loop.take_back(queue, receipt))

    def replace(
        self, queue: Queue, receipt: Receipt, text: str, visible_in: timedelta
    ) -> Receipt | None:
        return self._run(self.on_loop.replace(queue, receipt, text, visible_in))


@contextmanager
def sender_of(account: StorageClients) -> Iterator[OnLoopSender]:
    """Give a sender whose puts run on the loop of `THREADS`."""
    pusher = storage_pusher(monotonic)
    try:
        yield OnLoopSender(StorageSender(account, pusher.send, _OFF_LOOP), THREADS.on_loop)
    finally:
        THREADS.on_loop(pusher.close())
