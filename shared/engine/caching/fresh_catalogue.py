"""Sees to it that a process matches by topics and subscriptions that others have changed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from shared.engine.ports import OffLoop
from shared.tasks import Tasks


class FreshCatalogue:
    """
    Forgets what was read of topics and subscriptions, once their version is another one.

    *read*, which is called *off_loop*, returns the version, *forget* drops what was read before.
    Used on the event loop. Who comes while one reads shares the next reading: what was answered
    before has to be in it.
    """

    def __init__(
        self,
        read: Callable[[], int],
        forget: Callable[[], object],
        off_loop: OffLoop,
        tasks: Tasks,
    ) -> None:
        self._read = read
        self._forget = forget
        self._off_loop = off_loop
        self._tasks = tasks
        self._known: int | None = None
        self._now: asyncio.Task[None] | None = None
        self._next: asyncio.Task[None] | None = None

    async def ready(self) -> None:
        """
        Return once all that is read from now on has every change that was answered before.

        Raises:
            StorageUnavailable: nobody knows.
        """
        if self._next is None:
            self._next = self._tasks.spawn(self._after(self._now))
            self._next.add_done_callback(_hear)
        await asyncio.shield(self._next)

    async def _after(self, former: asyncio.Task[None] | None) -> None:
        if former:
            await asyncio.wait([former])
        self._now, self._next = self._next, None
        version = await self._off_loop(self._read)
        if version != self._known:
            self._forget()
            self._known = version


def _hear(task: asyncio.Task[None]) -> None:
    """There may be nobody left who waits for it."""
    if not task.cancelled():
        task.exception()
