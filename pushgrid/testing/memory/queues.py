"""Queues in memory."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Container, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from pushgrid.testing.memory.faults import MemoryPort, Seam, at_once, request
from shared.clock import Clock
from shared.engine.ports import (
    Backlog,
    Chance,
    OffLoop,
    Peeked,
    PutResult,
    Queue,
    Receipt,
    Received,
    StoreTraits,
)
from shared.errors import StorageUnavailable, Unstorable

FOR_HEADERS = 16 * 1024  # bytes of a message, beside the size that its store names


@dataclass(slots=True)
class StoredMessage:
    """A message on a queue."""

    text: str
    visible_at: datetime
    stored_at: datetime
    identity: str
    receipt: str
    count: int = 0


class MemoryQueues(MemoryPort):
    """
    What `MemorySender` sends to; Receiver and QueueWatch.

    Messages hide for whole seconds and for seven days at most, unless *traits* say for ever.
    """

    port = "queues"

    def __init__(
        self,
        clock: Clock,
        traits: StoreTraits,
        seam: Seam = at_once,
        chance: Chance | None = None,
    ) -> None:
        super().__init__(seam, chance)
        self._traits = traits
        self._clock = clock
        self.stored: defaultdict[Queue, list[StoredMessage]] = defaultdict(list)
        self.made: set[Queue] = set()

    def texts(self, queue: Queue) -> list[str]:
        """Return the texts of all messages, hidden ones included, in the order of their puts."""
        return [message.text for message in self.stored[queue]]

    def waits(self, queue: Queue) -> list[timedelta]:
        """Return for how long from now each message stays hidden, in the order of their puts."""
        now = self._clock.now()
        return [max(timedelta(), message.visible_at - now) for message in self.stored[queue]]

    def earliest(
        self, *queues: Queue, besides: Container[str] = ()
    ) -> tuple[Queue, StoredMessage] | None:
        """
        Return what becomes visible first on *queues*: of equals, what was put first.

        *besides* are the identities of messages that don't count.
        """
        stored = [
            (queue, each)
            for queue in queues
            for each in self.stored[queue]
            if each.identity not in besides
        ]
        return min(stored, key=lambda pair: pair[1].visible_at, default=None)

    @request
    def put(self, queue: Queue, text: str, visible_in: timedelta = timedelta()) -> Receipt:
        if len(text.encode()) > self._traits.message_size + FOR_HEADERS:
            raise Unstorable
        message = StoredMessage(
            text, self._in(visible_in), self._clock.now(), self._chance.id(), self._chance.id()
        )
        self.stored[queue].append(message)
        self.made.add(queue)
        return Receipt(message.identity, message.receipt)

    @request
    def take_back(self, queue: Queue, receipt: Receipt) -> bool:
        if held := self._held(queue, receipt):
            self.stored[queue].remove(held)
        return held is not None

    @request
    def replace(
        self, queue: Queue, receipt: Receipt, text: str, visible_in: timedelta
    ) -> Receipt | None:
        if (held := self._held(queue, receipt)) is None:
            return None
        held.text = text
        self._hide(held, visible_in)
        return Receipt(held.identity, held.receipt)

    @request
    def receive(self, queue: Queue, hidden_for: timedelta) -> Sequence[Received]:
        now = self._clock.now()
        visible = [message for message in self.stored[queue] if message.visible_at <= now][:32]
        for message in visible:
            self._hide(message, max(hidden_for, timedelta(seconds=1)))
            message.count += 1
        return [
            Received(
                text=message.text,
                receipt=Receipt(message.identity, message.receipt),
                count=message.count,
            )
            for message in visible
        ]

    @request
    def delete(self, queue: Queue, message: Received) -> None:
        if held := self._held(queue, message.receipt):
            self.stored[queue].remove(held)

    @request
    def hide(self, queue: Queue, message: Received, visible_in: timedelta) -> None:
        if held := self._held(queue, message.receipt):
            self._hide(held, visible_in)

    @request
    def peek(self, queue: Queue) -> Backlog | None:
        if queue not in self.made:
            return None
        now = self._clock.now()
        visible = [each for each in self.stored[queue] if each.visible_at <= now][:32]
        peeked = [Peeked(each.text, each.stored_at) for each in visible]
        return Backlog(len(self.stored[queue]), peeked)

    @request
    def make(self, queue: Queue) -> None:
        self.made.add(queue)

    def _held(self, queue: Queue, receipt: Receipt) -> StoredMessage | None:
        identity, version = receipt
        for each in self.stored[queue]:
            if each.identity == identity:
                return each if each.receipt == version else None
        return None

    def _hide(self, message: StoredMessage, wait: timedelta) -> None:
        message.visible_at = self._in(wait)
        message.receipt = self._chance.id()

    def _in(self, wait: timedelta) -> datetime:
        if self._traits.hiding:
            seconds = -(-wait // timedelta(seconds=1))  # rounded up
            wait = timedelta(seconds=min(seconds, 7 * 24 * 3600))
        return self._clock.now() + max(wait, timedelta())


class MemorySender:
    """Sender on queues in memory."""

    def __init__(self, sender: MemoryQueues, run: OffLoop) -> None:
        self._sender = sender
        self._run = run

    async def put(self, queue: Queue, text: str, visible_in: timedelta = timedelta()) -> Receipt:
        return await self._run(partial(self._sender.put, queue, text, visible_in))

    async def put_all(
        self, queue: Queue, texts: Sequence[str], visible_in: timedelta = timedelta()
    ) -> Sequence[PutResult]:
        puts: list[PutResult] = []
        requests = (self.put(queue, text, visible_in) for text in texts)
        for ended in await asyncio.gather(*requests, return_exceptions=True):
            if isinstance(ended, BaseException) and not isinstance(ended, StorageUnavailable):
                raise ended
            puts.append(ended)
        return puts

    async def take_back(self, queue: Queue, receipt: Receipt) -> bool:
        return await self._run(partial(self._sender.take_back, queue, receipt))

    async def replace(
        self, queue: Queue, receipt: Receipt, text: str, visible_in: timedelta
    ) -> Receipt | None:
        return await self._run(partial(self._sender.replace, queue, receipt, text, visible_in))
