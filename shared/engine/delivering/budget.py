"""Divides what all endpoints share: pushes under way, messages in flight, and memory."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from shared.delivery.pace import Speed
from shared.engine.keeping.requeue import PATIENCE

if TYPE_CHECKING:
    from shared.engine.delivering.endpoint import Endpoint

PUSHES = 4096  # under way in a process, as far as its descriptors allow
BYTES = 64 * 1024 * 1024  # of events in messages in flight
_TIMES_FREE = 3
_LONGEST_FOR_MEMORY = {Speed.QUICK: 60.0, Speed.UNKNOWN: 1.0, Speed.SLOW: 0.0}  # seconds


def has_room(speed: Speed, own: int, taken: int, total: int) -> bool:
    """
    Tell whether an endpoint that holds *own* of *taken* may have one more.

    Endpoints that are not quick hold half together, and *taken* counts what they hold; one that is
    unknown and holds nothing may have its first from the next quarter. No endpoint holds more than
    three times what it leaves free: whoever hangs, something is left for others.
    """
    if speed is Speed.UNKNOWN and not own:
        return taken < total * 3 // 4
    open_to = total if speed is Speed.QUICK else total // 2
    return own < _TIMES_FREE * (open_to - taken)


@dataclass(slots=True, kw_only=True)
class Places:
    """
    The messages in flight of one queue function.

    While they are scarce, what would wait for an endpoint that does not answer briefly is requeued,
    and failing puts are not repeated. Through the *entrance* the parts of one message go at a time:
    many messages that come back together do not keep the loop from those of the other queue.
    """

    total: int
    taken: int = 0
    entrance: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def are_scarce(self) -> bool:
        """Whether more than half are taken: what comes may not wait long."""
        return self.taken > self.total // 2

    @property
    def are_almost_gone(self) -> bool:
        """Whether more than three quarters are taken: nor may what waits already."""
        return self.taken > self.total * 3 // 4

    def patience(self) -> timedelta:
        """Return for how long a message may keep its place while puts fail."""
        return timedelta() if self.are_scarce else PATIENCE


@dataclass(slots=True, kw_only=True, eq=False)
class Budget:
    """The budget of one process, whose state belongs to the event loop."""

    pushes: int = PUSHES
    bytes: int = BYTES
    is_stopping: bool = False
    _under_way: Counter[Speed] = field(default_factory=Counter)  # pushes, by endpoints' speed
    _waiting: dict[Endpoint, None] = field(default_factory=dict)  # for a push
    _unpacked: dict[bool, int] = field(default_factory=lambda: {True: 0, False: 0})  # if quick
    _first: dict[bool, asyncio.Lock] = field(  # of those that wait for memory
        default_factory=lambda: {True: asyncio.Lock(), False: asyncio.Lock()}
    )
    _freed: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def memory(self, size: int, speed: Speed) -> AsyncIterator[bool]:
        """
        Take *size* bytes, once there is room for them; ``False``: there was none in time, or the
        host stops.

        *speed* is that of a message's quickest endpoint. Messages whose endpoints are not quick
        have half of the memory together; alone, a message may be of any size.
        """
        is_quick, has_it = speed is Speed.QUICK, False
        with suppress(TimeoutError):
            async with asyncio.timeout(_LONGEST_FOR_MEMORY[speed]), self._first[is_quick]:
                while not self.is_stopping and not self._has_memory(size, is_quick=is_quick):
                    self._freed.clear()
                    await self._freed.wait()
                if not self.is_stopping:
                    has_it = True
                    self._unpacked[is_quick] += size
        try:
            yield has_it
        finally:
            if has_it:
                self._unpacked[is_quick] -= size
                self._freed.set()

    def leftovers(self) -> Iterator[str]:
        """Yield what uses it, or waits for it."""
        if pushes := self._under_way.total():
            yield f"budget: pushes {pushes}"
        if unpacked := sum(self._unpacked.values()):
            yield f"budget: bytes of events {unpacked}"
        for endpoint in self._waiting:
            yield f"budget: {'/'.join(endpoint.health.key)} waits for a push"

    def stop(self) -> None:
        """Let nothing more be pushed: the host stops."""
        self.is_stopping = True
        self._freed.set()

    def _has_memory(self, size: int, *, is_quick: bool) -> bool:
        not_quick, unpacked = self._unpacked[False], sum(self._unpacked.values())
        if not is_quick and not_quick and not_quick + size > self.bytes // 2:
            return False
        return not unpacked or unpacked + size <= self.bytes

    def may_push(self, endpoint: Endpoint) -> bool:
        """Tell whether a push may begin; if not, the endpoint is asked again when one has ended."""
        speed = endpoint.speed
        total = taken = self._under_way.total()
        if speed is not Speed.QUICK:
            taken -= self._under_way[Speed.QUICK]
        if total < self.pushes and has_room(speed, endpoint.under_way, taken, self.pushes):
            self._waiting.pop(endpoint, None)
            return True
        self._waiting[endpoint] = None
        return False

    def keeps_from_first(self, endpoint: Endpoint) -> bool:
        """Tell whether an endpoint of which nothing is known waits for its first push."""
        return endpoint.speed is Speed.UNKNOWN and endpoint in self._waiting

    def count(self, speed: Speed, pushes: int) -> None:
        """Count pushes that begin, or end if negative, to an endpoint of that speed."""
        self._under_way[speed] += pushes

    def next_waiting(self) -> None:
        """Let endpoints push that waited: first those that have the fewest under way."""
        blocked: set[Speed] = set()  # where one can't push, none can
        for endpoint in sorted(self._waiting, key=lambda each: each.under_way):
            if endpoint.speed not in blocked:
                endpoint.pump()  # and to the end, if it gets some and waits on
                if endpoint in self._waiting:
                    blocked.add(endpoint.speed)

    def leave(self, endpoint: Endpoint) -> None:
        """Note that an endpoint has nothing to push any more."""
        self._waiting.pop(endpoint, None)
