"""
Keeps a received message hidden while its function runs: renewed at half of the time.

So does the real host (Storage.Common UpdateQueueMessageVisibilityCommand.cs, 2024-10), but for two
things (measured, host 4.1037.0): when the function ends, it cancels a renewal under way, whose
receipt is lost, and runs the message again; and a renewal that fails for 28 s ends it. Here the
first is awaited, and the second is tried again after an eighth of the time.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from datetime import timedelta

from devhost.queue.storage import ReceivedMessage, RestQueue
from devhost.storage.errors import (
    QueueGoneError,
    StaleReceiptError,
    StorageBusyError,
    StorageRefusedError,
)


class QueueLease:
    """The claim to one message, with its latest receipt: each renewal makes the last one stale."""

    def __init__(self, queue: RestQueue, message: ReceivedMessage, hidden: timedelta) -> None:
        self._queue = queue
        self._id = message.id
        self._receipt = message.pop_receipt
        self._hidden = hidden
        self._timer: asyncio.TimerHandle | None = None
        self._renewal: asyncio.Task[None] | None = None

    async def delete(self) -> None:
        """Delete the message."""
        await self._await_renewal()
        await self._queue.delete(self._id, self._receipt)

    async def release(self, hidden: timedelta) -> None:
        """Make the message visible again after *hidden*."""
        await self._await_renewal()
        await self._queue.hide(self._id, self._receipt, hidden)

    @contextlib.contextmanager
    def renewed(self) -> Iterator[None]:
        """Renew the claim at half of its time until the block ends."""
        self._renew_after(self._hidden / 2)
        try:
            yield
        finally:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def _renew_after(self, delay: timedelta) -> None:
        # A timer instead of a task: most functions end before the first renewal.
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(delay.total_seconds(), self._start_renewal)

    def _start_renewal(self) -> None:
        self._renewal = asyncio.create_task(self._renew())

    async def _await_renewal(self) -> None:
        # A renewal in progress changes the receipt, so it is awaited and not cancelled.
        if self._renewal is not None:
            await asyncio.wait([self._renewal])

    async def _renew(self) -> None:
        delay = self._hidden / 2
        try:
            self._receipt = await self._queue.hide(self._id, self._receipt, self._hidden)
        except StorageBusyError:
            delay /= 4
        except (StaleReceiptError, QueueGoneError, StorageRefusedError):
            return
        # None: the function has ended in the meantime.
        if self._timer is not None:
            self._renew_after(delay)
