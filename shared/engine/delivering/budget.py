"""Divides what all endpoints share: pushes under way, messages in flight, and memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum, auto
from typing import TYPE_CHECKING

from shared.engine.delivering.requeue import PATIENCE

if TYPE_CHECKING:
    from shared.engine.delivering.endpoint import Endpoint
    from shared.engine.delivering.in_flight import InFlight

PUSHES = 4096  # under way in a process, as far as its descriptors allow
MESSAGES = 256  # in flight of each queue function: batchSize + newBatchThreshold in host.json
BYTES = 64 * 1024 * 1024  # of events in messages in flight
_TIMES_FREE = 3


class Speed(Enum):
    """How fast an endpoint's latest pushes were."""

    UNKNOWN = auto()  # none has ended yet
    QUICK = auto()
    SLOW = auto()


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


@dataclass(slots=True, kw_only=True, eq=False)
class Places:
    """
    The messages in flight of one queue function.

    *slow* are those that wait for slow endpoints only, *busy* those with a push under way.
    *storing* counts those of which nothing is pushed, while what follows is stored.
    """

    total: int = MESSAGES
    in_flight: int = 0
    storing: int = 0
    slow: dict[InFlight, None] = field(default_factory=dict)
    busy: dict[InFlight, None] = field(default_factory=dict)

    def admits(self, message: InFlight) -> bool:
        """
        Tell whether a message that has just come may wait for its endpoints.

        The last places are kept for endpoints that give them back in no time.
        """
        self.recount(message)
        if message not in self.slow:
            is_brief = any(each.endpoint.is_brief for each in message.pushing)
            return is_brief or self.in_flight <= self.total * 7 // 8
        endpoints = [each.endpoint for each in message.pushing]
        own = len(endpoints[0].alone_in(self)) - 1 if len(endpoints) == 1 else 0
        return has_room(Speed.SLOW, own, len(self.slow) - 1, self.total)

    def may_push(self, endpoint: Endpoint) -> bool:
        """Tell whether an endpoint may have pushes under way in one more message."""
        busy = len(self.busy)
        if not endpoint.is_quick:
            busy = sum(not each.waits_for_quick for each in self.busy)
        return has_room(endpoint.speed, endpoint.busy, busy, self.total)

    def patience(self) -> timedelta:
        """Return for how long a message may keep its place while puts fail."""
        return PATIENCE if len(self.slow) + self.storing <= self.total // 2 else timedelta()

    def recount(self, message: InFlight) -> None:
        """Learn whether the endpoints that a message waits for are all slow now."""
        if message.pushing and all(each.endpoint.speed is Speed.SLOW for each in message.pushing):
            self.slow.setdefault(message)
        else:
            self.slow.pop(message, None)

    def surplus(self) -> list[InFlight]:
        """Return the latest slow messages beyond the half, if nothing of them is under way."""
        surplus = len(self.slow) - self.total // 2
        if surplus <= 0:
            return []
        return [each for each in reversed(self.slow) if not each.under_way][:surplus]


@dataclass(slots=True, kw_only=True, eq=False)
class Budget:
    """The budget of one process, whose state belongs to the event loop."""

    pushes: int = PUSHES
    bytes: int = BYTES
    is_stopping: bool = False
    _under_way: int = 0
    _not_quick: int = 0  # of those under way
    _waiting: dict[Endpoint, Places] = field(default_factory=dict)  # for a push of a message there
    _unpacked: dict[bool, int] = field(default_factory=lambda: {True: 0, False: 0})  # if quick
    _first: dict[bool, asyncio.Lock] = field(  # of those that wait for memory
        default_factory=lambda: {True: asyncio.Lock(), False: asyncio.Lock()}
    )
    _freed: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def memory(self, size: int, speed: Speed) -> AsyncIterator[bool]:
        """
        Take *size* bytes, once there is room for them; ``False``: there was none in time.

        *speed* is that of a message's quickest endpoint. Messages whose endpoints are not quick
        have half of the memory together; alone, a message may be of any size.
        """
        is_quick, has_it = speed is Speed.QUICK, False
        with suppress(TimeoutError):
            async with asyncio.timeout(_LONGEST_FOR_MEMORY[speed]), self._first[is_quick]:
                while not self._has_memory(size, is_quick=is_quick):
                    self._freed.clear()
                    await self._freed.wait()
                has_it = True
                self._unpacked[is_quick] += size
        try:
            yield has_it
        finally:
            if has_it:
                self._unpacked[is_quick] -= size
                self._freed.set()

    def _has_memory(self, size: int, *, is_quick: bool) -> bool:
        not_quick, unpacked = self._unpacked[False], sum(self._unpacked.values())
        if not is_quick and not_quick and not_quick + size > self.bytes // 2:
            return False
        return not unpacked or unpacked + size <= self.bytes

    def may_push(self, endpoint: Endpoint, message: InFlight) -> bool:
        """Tell whether a push may begin; if not, the endpoint is asked again when one has ended."""
        speed = endpoint.speed
        taken = self._under_way if speed is Speed.QUICK else self._not_quick
        may = self._under_way < self.pushes and has_room(
            speed, endpoint.under_way, taken, self.pushes
        )
        if may and (message.under_way or message.places.may_push(endpoint)):
            self._waiting.pop(endpoint, None)
            return True
        self._waiting[endpoint] = message.places
        return False

    def count(self, endpoint: Endpoint, by: int) -> None:
        """Count a push that begins (1) or ends (-1)."""
        self._under_way += by
        if not endpoint.is_quick:
            self._not_quick += by

    def speed_changed(self, endpoint: Endpoint) -> None:
        """Learn that an endpoint with pushes under way is quick now, or no longer."""
        self._not_quick += -endpoint.under_way if endpoint.is_quick else endpoint.under_way

    def next_waiting(self) -> None:
        """Let endpoints push that waited: first those that have the fewest under way."""
        blocked: set[tuple[Speed, Places]] = set()  # the first that can't push speaks for its like
        waiting = sorted(self._waiting.items(), key=lambda each: each[0].under_way)
        for endpoint, places in waiting:
            if (endpoint.speed, places) not in blocked:
                endpoint.pump()  # and to the end, if it gets some and waits on
                if endpoint in self._waiting:
                    blocked.add((endpoint.speed, self._waiting[endpoint]))

    def leave(self, endpoint: Endpoint) -> None:
        """Note that an endpoint has nothing to push any more."""
        self._waiting.pop(endpoint, None)
