"""Takes messages from the home as they are due, and has the app deliver them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from shared import telemetry
from shared.engine.ports import Queue
from shared.engine.ports.leases import LEASED, Lease, Leases
from shared.errors import StorageUnavailable

_AGAIN_SECONDS = 1.0  # after the home has failed

Deliver = Callable[[Lease], Awaitable[None]]


class Deliveries:
    """
    Runs *deliver* for each message that *leases* hands over, at most *most* of a queue at a time.

    A message that could not be handled is given back, as soon as the home can; one whose task is
    cancelled stays in hand. Of messages that the home has lost, nothing more is pushed.
    """

    def __init__(self, leases: Leases, deliver: Deliver, most: int) -> None:
        self._leases = leases
        self._deliver = deliver
        self._most = most
        self._claims: list[asyncio.Task[None]] = []
        self._running: dict[Queue, set[asyncio.Task[None]]] = {each: set() for each in LEASED}
        self._delivering: set[asyncio.Task[None]] = set()  # of them
        self._lost: set[asyncio.Task[None]] = set()  # of them: others have their messages
        leases.lost = self._stop_delivering
        self._has_room = {each: asyncio.Event() for each in LEASED}

    @property
    def under_way(self) -> int:
        """How many messages are being delivered."""
        return sum(map(len, self._running.values()))

    def begin(self) -> None:
        """Begin to take messages."""
        self._claims = [asyncio.create_task(self._claim(queue)) for queue in LEASED]

    async def stop_taking(self) -> None:
        """Take no more messages; those in hand go on."""
        for each in self._claims:
            each.cancel()
        await asyncio.gather(*self._claims, return_exceptions=True)

    async def finish(self, seconds: float) -> int:
        """Wait for what is under way, *seconds* at most; cancel the rest, and return how many."""
        if tasks := self._tasks():
            await asyncio.wait(tasks, timeout=seconds)
        for each in (left := self._tasks()):
            each.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        return len(left)

    def _tasks(self) -> list[asyncio.Task[None]]:
        return [task for tasks in self._running.values() for task in tasks]

    async def _claim(self, queue: Queue) -> None:
        running, room = self._running[queue], self._has_room[queue]
        while True:
            while len(running) >= self._most:
                room.clear()
                await room.wait()
            try:
                leased = await self._leases.claim(queue, self._most - len(running))
            except StorageUnavailable as error:
                telemetry.error("claim.failed", queue=queue, detail=str(error))
                await asyncio.sleep(_AGAIN_SECONDS)
                continue
            for each in leased:
                # In an empty context: a push may outlive the message that began it.
                task = asyncio.create_task(self._handle(each), context=telemetry.own_context())
                running.add(task)
                task.add_done_callback(running.discard)
                task.add_done_callback(self._lost.discard)
                task.add_done_callback(lambda _: room.set())

    def _stop_delivering(self) -> None:
        """Push nothing more of what is in hand: others have it."""
        self._lost.update(self._tasks())
        for each in self._delivering:
            each.cancel()

    async def _handle(self, lease: Lease) -> None:
        task = asyncio.current_task()
        assert task  # noqa: S101 - this runs as one
        self._delivering.add(task)
        try:
            if task not in self._lost:
                await self._deliver(lease)
        except asyncio.CancelledError:
            if task not in self._lost:
                raise
            task.uncancel()
            after = self._leases.end
        except Exception as error:  # noqa: BLE001 - one message's trouble ends no other
            fault = f"{type(error).__name__}: {error}"
            telemetry.error("message.failed", queue=lease.queue, detail=fault)
            after = self._leases.give_back
        else:
            after = self._leases.end
        finally:
            self._delivering.discard(task)
        while True:
            try:
                return await after(lease)
            except StorageUnavailable as error:  # It stays in hand until the home can do it.
                telemetry.error("message.unsettled", queue=lease.queue, detail=str(error))
                await asyncio.sleep(_AGAIN_SECONDS)
