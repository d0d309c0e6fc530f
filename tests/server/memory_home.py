"""A home in memory, in real time: the ports of the fixture, handed over as a store does."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeVar

from pushgrid.testing.memory import MemoryQueues, MemorySender, MemoryStore, StoredMessage
from shared.app import BackgroundWork
from shared.clock import Clock
from shared.delivery.messages.message import OtherVersion, ReplayStep
from shared.delivery.messages.message_reader import decode
from shared.engine.ports import Metrics, Queue, Receipt, Received, Threads
from shared.engine.ports.leases import LEASED, GiveUp, HasShare, Lease
from shared.errors import InvalidSettings, StorageUnavailable
from shared.settings import Settings
from shared.subscriptions.subscription import SubscriptionKey
from shared.watched_clock import WatchedClock

T = TypeVar("T")
_HIDDEN = timedelta(days=1)  # what is in hand: nobody else takes it
_AGAIN_IN = timedelta(seconds=1)
_MOST_TRIES = 20


class _RealTime:
    """A clock that the ports in memory take for a test's."""

    is_trusted = True

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def now(self) -> datetime:
        return self._clock.now()

    @property
    def elsewhere(self) -> _RealTime:
        return self

    def monotonic(self) -> float:
        return time.monotonic()


class _ToldQueues(MemoryQueues):
    """Calls *changed* with a queue on which a message was put, or hidden anew."""

    changed: Callable[[Queue], object] = staticmethod(lambda _: None)

    def put(self, queue: Queue, text: str, visible_in: timedelta = timedelta()) -> Receipt:
        receipt = super().put(queue, text, visible_in)
        self.changed(queue)
        return receipt

    def hide(self, queue: Queue, message: Received, visible_in: timedelta) -> None:
        super().hide(queue, message, visible_in)
        self.changed(queue)


class MemoryLeases:
    """Implements `Leases` on queues in memory."""

    def __init__(self, queues: _ToldQueues) -> None:
        self.lost: Callable[[], object] = lambda: None
        self.queues = queues
        self.changed: dict[Queue, asyncio.Event] = defaultdict(asyncio.Event)

    async def claim(self, queue: Queue, most: int) -> Sequence[Lease]:
        changed = self.changed[queue]
        while True:
            changed.clear()
            taken = self.queues.receive(queue, _HIDDEN)
            for each in taken[most:]:
                self.queues.hide(queue, each, timedelta())
            if taken:
                return [Lease(queue, each.text.encode(), each) for each in taken[:most]]
            try:
                async with asyncio.timeout(self._seconds(queue)):
                    await changed.wait()
            except TimeoutError:
                continue

    async def end(self, message: Lease) -> None:
        self.queues.delete(message.queue, _received(message))

    async def give_back(self, message: Lease) -> None:
        received = _received(message)
        if received.count < _MOST_TRIES:
            self.queues.hide(message.queue, received, _AGAIN_IN)
            return
        self.queues.put(Queue(f"{message.queue}-poison"), received.text)
        self.queues.delete(message.queue, received)

    async def hand_back(self) -> None:
        """Do nothing: there is no other process."""

    async def close(self) -> None:
        """Do nothing: the next process finds nothing."""

    def _seconds(self, queue: Queue) -> float | None:
        """Return in how many seconds the next message is due."""
        found: tuple[Queue, StoredMessage] | None = self.queues.earliest(queue)
        if found is None:
            return None
        return max(0.0, min(self.queues.waits(queue)).total_seconds()) + 0.001


class MemoryHome:
    """Implements `Home`; the tests' own, since it loses everything with its process."""

    def __init__(
        self, folder: Path, settings: Settings, clock: WatchedClock, threads: Threads
    ) -> None:
        del folder, settings, threads
        self.store = MemoryStore(_RealTime(clock), _at_once)  # type: ignore[arg-type]
        self.queues = _ToldQueues(clock, self.store.traits)
        self.store.queues, self.store.sender = self.queues, MemorySender(self.queues, _at_once)
        self.leases = MemoryLeases(self.queues)
        self.is_elected = self.has_lease = self.is_new = True
        self.background: Sequence[BackgroundWork] = ()
        self.refusal = ""  # why it can't be opened
        self.calls: list[str] = []  # in their order
        self._broken = asyncio.Event()

    async def open(self, give_up: GiveUp, has_share: HasShare) -> None:
        del give_up, has_share
        self.calls.append("open")
        if self.refusal:
            raise InvalidSettings(self.refusal)
        loop = asyncio.get_running_loop()

        def tell(queue: Queue) -> None:
            loop.call_soon_threadsafe(self.leases.changed[queue].set)

        self.queues.changed = tell

    def refusal_of(self, error: StorageUnavailable) -> InvalidSettings:
        return InvalidSettings(error.message)

    def settling(self, lease: Lease, metrics: Metrics) -> None:
        del lease, metrics

    def has_waiting(self, key: SubscriptionKey) -> bool:
        return any(
            part.key.folded == key.folded
            for queue in (*LEASED, Queue.WAITING, Queue.DEADLETTERS)
            for text in self.queues.texts(queue)
            if not isinstance(found := decode(text.encode()), OtherVersion | ReplayStep)
            for part in found
        )

    async def broken(self) -> str:
        await self._broken.wait()
        return "it is in memory only"

    async def close(self) -> None:
        self.calls.append("close")


async def _at_once(call: Callable[[], T]) -> T:
    return call()


def _received(message: Lease) -> Received:
    if not isinstance(message.receipt, Received):
        raise StorageUnavailable
    return message.receipt
