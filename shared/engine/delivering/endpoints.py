"""Keeps the endpoints of this process, and the memory that messages for them take."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime

from shared.delivery.health.endpoint_health import Health, endpoint_id
from shared.delivery.messages.message import MessagePart
from shared.delivery.pace import Limit, Returns, Speed
from shared.engine.caching.health_table import TableHealth
from shared.engine.delivering.endpoint import SOONEST_BACK, Endpoint
from shared.engine.delivering.scheduler import Scheduler
from shared.engine.delivering.shared_health import SharedHealth
from shared.engine.ports import Metrics, OffLoop
from shared.subscriptions.subscription import EventSubscription, SubscriptionKey

MOST = 10_000  # remembered while idle
BYTES = 64 * 1024 * 1024  # of events in messages in hand
BLOB = 1024 * 1024  # bytes of a payload blob that is not read yet
_LONGEST_FOR_MEMORY = {Speed.QUICK: 60.0, Speed.UNKNOWN: 1.0, Speed.SLOW: 0.0}  # seconds


@dataclass(slots=True, kw_only=True, eq=False)
class Memory:
    """The memory for events of messages in hand."""

    bytes: int = BYTES
    unpacked: dict[bool, int] = field(default_factory=lambda: {True: 0, False: 0})  # if quick
    _is_stopping: bool = False
    _first: dict[bool, asyncio.Lock] = field(  # of those that wait for memory
        default_factory=lambda: {True: asyncio.Lock(), False: asyncio.Lock()}
    )
    _freed: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def take(self, size: int, speed: Speed) -> AsyncIterator[bool]:
        """
        Take *size* bytes, once there is room for them; ``False``: there was none in time, or the
        host stops.

        *speed* is that of a message's quickest endpoint. Messages whose endpoints are not quick
        have half of the memory together; alone, a message may be of any size.
        """
        is_quick, has_it = speed is Speed.QUICK, False
        with suppress(TimeoutError):
            async with asyncio.timeout(_LONGEST_FOR_MEMORY[speed]), self._first[is_quick]:
                while not self._is_stopping and not self._has_room(size, is_quick=is_quick):
                    self._freed.clear()
                    await self._freed.wait()
                if not self._is_stopping:
                    has_it = True
                    self.unpacked[is_quick] += size
        try:
            yield has_it
        finally:
            if has_it:
                self.unpacked[is_quick] -= size
                self._freed.set()

    def stop(self) -> None:
        """Let nobody wait or take any more."""
        self._is_stopping = True
        self._freed.set()

    def _has_room(self, size: int, *, is_quick: bool) -> bool:
        not_quick, unpacked = self.unpacked[False], sum(self.unpacked.values())
        if not is_quick and not_quick and not_quick + size > self.bytes // 2:
            return False
        return not unpacked or unpacked + size <= self.bytes


@dataclass(slots=True, kw_only=True)
class Endpoints:
    """All endpoints that were pushed to of late, one for each subscription."""

    scheduler: Scheduler
    limit: Limit  # of an endpoint of which nothing is known
    health: TableHealth
    off_loop: OffLoop
    metrics: Metrics
    memory: Memory = field(default_factory=Memory)
    known: OrderedDict[SubscriptionKey, Endpoint] = field(default_factory=OrderedDict)
    _former: list[Endpoint] = field(default_factory=list)  # before a correction, until idle

    @property
    def all(self) -> Sequence[Endpoint]:
        """Those that are known, and those with something left of before a correction."""
        self._former = [each for each in self._former if not each.is_idle]
        return [*self.known.values(), *self._former]

    def of(self, subscription: EventSubscription) -> Endpoint:
        """Return the endpoint of a subscription; a corrected endpoint starts with no history."""
        key, id_ = subscription.key.folded, endpoint_id(subscription)
        endpoint = self.known.get(key)
        if endpoint is None or endpoint.id != id_:
            self._evict()
            if endpoint:
                self._former.append(endpoint)
            endpoint = self.known[key] = self._new(subscription)
        self.known.move_to_end(key)
        return endpoint

    def has_share(self, key: SubscriptionKey) -> bool:
        """Tell whether this process may push events of a subscription, as far as it knows."""
        endpoint = self.known.get(key.folded)
        return endpoint is None or endpoint.has_share

    def memory_for(self, parts: Sequence[MessagePart]) -> AbstractAsyncContextManager[bool]:
        """Take memory for a message, as its quickest endpoint may; ``False``: not now."""
        known = [self.known.get(part.key.folded) for part in parts]
        speeds = {each.speed if each else Speed.UNKNOWN for each in known}
        quickest = next(each for each in (Speed.QUICK, Speed.UNKNOWN, Speed.SLOW) if each in speeds)
        return self.memory.take(sum(map(_size, parts)), quickest)

    def book_return(self, part: MessagePart) -> datetime:
        """Book the return of a part for which there is no memory; at once if the host stops."""
        endpoint, now = self.known.get(part.key.folded), self.scheduler.clock.now()
        if self.scheduler.is_stopping:
            return now
        texts = [each.text for each in part.deliveries]
        return endpoint.book_return(texts) if endpoint else now + SOONEST_BACK

    def leftovers(self) -> Iterator[str]:
        """Yield what is in lines or under way."""
        for endpoint in self.all:
            if not endpoint.is_idle:
                open_ = sum(part.open for part in endpoint.parts)
                line = "/".join(endpoint.key)
                yield f"line {line}: deliveries {open_}, pushes {endpoint.under_way}"
        if pushes := self.scheduler.budget.under_way.total():
            yield f"budget: pushes {pushes}"
        if unpacked := sum(self.memory.unpacked.values()):
            yield f"budget: bytes of events {unpacked}"
        for key in (each.key for each in self.scheduler.budget.waiting):
            yield f"budget: {'/'.join(key)} waits for a push"

    def stop(self) -> None:
        """Let nothing more be pushed: what waits in lines goes back at once."""
        self.scheduler.is_stopping = True
        self.memory.stop()
        for endpoint in self.all:
            endpoint.look_soon()

    def _new(self, subscription: EventSubscription) -> Endpoint:
        return Endpoint(
            subscription=subscription,
            health=SharedHealth(
                key=subscription.key.folded,
                health=Health(endpoint=endpoint_id(subscription)),
                store=self.health,
                off_loop=self.off_loop,
                clock=self.scheduler.clock,
                metrics=self.metrics,
                tasks=self.scheduler.tasks,
            ),
            scheduler=self.scheduler,
            limit=self.limit,
            returns=Returns(self.scheduler.clock.now()),
        )

    def _evict(self) -> None:
        """Forget the endpoint that was idle for longest, if there are too many."""
        if len(self.known) >= MOST:
            key = next((key for key, each in self.known.items() if each.is_idle), None)
            if key:
                del self.known[key]


def _size(part: MessagePart) -> int:
    """Return about how many bytes the events of a part take in memory."""
    blobs = {each.origin.payload for each in part.deliveries if each.text is None}
    return len(blobs) * BLOB + sum(len(each.text or "") for each in part.deliveries)
