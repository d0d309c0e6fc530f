"""Divides what all endpoints share: pushes under way, and memory."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Protocol

from shared.delivery.pace import Speed
from shared.subscriptions.subscription import SubscriptionKey

PUSHES = 4096  # under way in a process, as far as its descriptors allow
BYTES = 64 * 1024 * 1024  # of events in messages in hand
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


class Pushing(Protocol):
    """What pushes: an endpoint."""

    @property
    def key(self) -> SubscriptionKey:
        """Whose it is."""

    @property
    def speed(self) -> Speed:
        """How fast its latest pushes were."""

    @property
    def under_way(self) -> int:
        """How many requests it has under way."""

    def pump(self) -> int:
        """Begin a request, if one may begin now; return how many were begun."""


@dataclass(slots=True, kw_only=True, eq=False)
class Budget:
    """The budget of one process, whose state belongs to the event loop."""

    pushes: int = PUSHES
    bytes: int = BYTES
    is_stopping: bool = False
    under_way: Counter[Speed] = field(default_factory=Counter)  # pushes, by endpoints' speed
    waiting: dict[Pushing, None] = field(default_factory=dict)  # for a push
    unpacked: dict[bool, int] = field(default_factory=lambda: {True: 0, False: 0})  # if quick
    _has_freed: bool = False  # a push has ended since the last turn of those that wait
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
                    self.unpacked[is_quick] += size
        try:
            yield has_it
        finally:
            if has_it:
                self.unpacked[is_quick] -= size
                self._freed.set()

    def leftovers(self) -> Iterator[str]:
        """Yield what uses it, or waits for it."""
        if pushes := self.under_way.total():
            yield f"budget: pushes {pushes}"
        if unpacked := sum(self.unpacked.values()):
            yield f"budget: bytes of events {unpacked}"
        for endpoint in self.waiting:
            yield f"budget: {'/'.join(endpoint.key)} waits for a push"

    def stop(self) -> None:
        """Let nothing more be pushed: the host stops."""
        self.is_stopping = True
        self._freed.set()

    def _has_memory(self, size: int, *, is_quick: bool) -> bool:
        not_quick, unpacked = self.unpacked[False], sum(self.unpacked.values())
        if not is_quick and not_quick and not_quick + size > self.bytes // 2:
            return False
        return not unpacked or unpacked + size <= self.bytes

    def may_push(self, endpoint: Pushing) -> bool:
        """Tell whether a push may begin."""
        speed = endpoint.speed
        total = taken = self.under_way.total()
        if speed is not Speed.QUICK:
            taken -= self.under_way[Speed.QUICK]
        return total < self.pushes and has_room(speed, endpoint.under_way, taken, self.pushes)

    def keeps_from_first(self, endpoint: Pushing) -> bool:
        """Tell whether an endpoint of which nothing is known waits for its first push."""
        return endpoint.speed is Speed.UNKNOWN and endpoint in self.waiting

    def count(self, speed: Speed, pushes: int) -> None:
        """Count pushes to an endpoint of that speed, or no longer if negative."""
        self.under_way[speed] += pushes

    def end(self, speed: Speed) -> None:
        """Count a push less: it has ended, and others may push."""
        self.under_way[speed] -= 1
        self._has_freed = True

    def in_turn(self) -> Iterator[Pushing]:
        """
        Yield those that wait and may push since another push has ended: the fewest first.

        Each is pushed for before the next is asked for, and stays in `waiting` if it waits on.
        """
        if not self._has_freed:
            return
        self._has_freed = False
        blocked: set[Speed] = set()  # where one can't push, none can
        for endpoint in sorted(self.waiting, key=lambda each: each.under_way):
            if endpoint.speed not in blocked:
                yield endpoint
                if endpoint in self.waiting:
                    blocked.add(endpoint.speed)
