"""Stores deliveries for later in few messages, and changes those that are stored."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from shared.clock import Clock
from shared.delivery.messages.message import MessagePart
from shared.delivery.messages.message_writer import encode_remaining, encode_together
from shared.engine.keeping.event_loop import loop_time
from shared.engine.ports import Queue, Receipt, Sender, StoreTraits
from shared.errors import StorageUnavailable, Unstorable

WAKE_AHEAD = timedelta(minutes=1)  # the period of the wake timer
OTHER_VERSION_AGAIN_IN = timedelta(minutes=5)  # an instance of that version may receive it
REPEATED_FOR = timedelta(minutes=2)  # a failing put
_PAUSES = (0.2, 0.5, 1, 2, 5, 10)  # seconds between puts; the last one repeats


class Queued(NamedTuple):
    """A stored message of one or more subscriptions, with what it takes to change it."""

    queue: Queue
    receipt: Receipt
    parts: tuple[MessagePart, ...]
    visible_at: float  # in seconds of the loop's clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Requeue:
    """
    Stores messages for later, on the event loop; failing puts are repeated for up to two minutes.

    What takes several queue messages is put side by side. *parts* are of a subscription each, and
    are due together: they have the same ``due`` and ``rounds``.
    """

    sender: Sender
    traits: StoreTraits
    clock: Clock
    sleep: Callable[[float], Awaitable[None]]

    async def at_due(
        self,
        *parts: MessagePart,
        is_held: bool = False,
        repeat_for: timedelta = REPEATED_FOR,
    ) -> list[Queued]:
        """
        Store deliveries so that they are received when they are due, or now without ``due``.

        A wait in which a message may not hide there is spent on ``waiting``. *is_held*: there may
        be many that wait alike.

        Raises:
            StorageUnavailable: storage failed for as long; any put may or may not be stored.
        """
        due = parts[0].due
        wait = (due - self.clock.now()) if due else timedelta()
        if self.traits.may_hide(wait, is_held=is_held):
            return await self._store(Queue.RETRIES, parts, max(wait, timedelta()), repeat_for)
        return await self._store(Queue.WAITING, parts, wait - WAKE_AHEAD, repeat_for)

    async def as_dead_letters(
        self, *parts: MessagePart, visible_at: datetime, repeat_for: timedelta = REPEATED_FOR
    ) -> list[Queued]:
        """
        Store ended deliveries so that the next timer after *visible_at* writes their blob.

        Raises:
            StorageUnavailable: as `at_due`.
        """
        wait = max(visible_at - self.clock.now(), timedelta())
        return await self._store(Queue.DEADLETTERS, parts, wait, repeat_for)

    async def shrink(self, queued: Queued, parts: Iterable[MessagePart]) -> Queued | None:
        """
        Leave only the deliveries of *parts* in a stored message; delete it if there are none.

        It stays hidden as long as before. ``None`` if it was received meanwhile: then it is
        unchanged.

        Raises:
            StorageUnavailable: it may or may not be changed.
        """
        left = tuple(parts)
        if not left:
            gone = await self.sender.take_back(queued.queue, queued.receipt)
            return queued._replace(parts=()) if gone else None
        wait = timedelta(seconds=max(queued.visible_at - loop_time(), 0))
        text = encode_remaining(*left)
        receipt = await self.sender.replace(queued.queue, queued.receipt, text, wait)
        return queued._replace(parts=left, receipt=receipt) if receipt else None

    async def put(self, queue: Queue, text: str, visible_in: timedelta) -> Receipt:
        """
        Put one message.

        Raises:
            Unstorable: it is too large.
            StorageUnavailable: puts failed for two minutes.
        """
        (receipt,) = await self._put_all(queue, [text], visible_in, REPEATED_FOR)
        return receipt

    async def _store(
        self,
        queue: Queue,
        parts: Sequence[MessagePart],
        visible_in: timedelta,
        repeat_for: timedelta,
    ) -> list[Queued]:
        visible_at = loop_time() + visible_in.total_seconds()
        messages = list(encode_together(parts, self.traits.message_size))
        texts = [text for _, text in messages]
        receipts = await self._put_all(queue, texts, visible_in, repeat_for)
        return [
            Queued(queue, receipt, stored, visible_at)
            for (stored, _), receipt in zip(messages, receipts, strict=True)
        ]

    async def _put_all(
        self, queue: Queue, texts: Sequence[str], visible_in: timedelta, repeat_for: timedelta
    ) -> list[Receipt]:
        """Put all texts, and those again that may not be stored."""
        give_up_at = loop_time() + repeat_for.total_seconds()
        receipts: dict[int, Receipt] = {}
        pauses = iter(_PAUSES)
        while True:
            left = [index for index in range(len(texts)) if index not in receipts]
            puts = await self.sender.put_all(queue, [texts[index] for index in left], visible_in)
            faults = []
            for index, put in zip(left, puts, strict=True):
                if isinstance(put, StorageUnavailable):
                    faults.append(put)
                else:
                    receipts[index] = put
            if not faults:
                return [receipts[index] for index in range(len(texts))]
            for fault in faults:
                if isinstance(fault, Unstorable) or loop_time() >= give_up_at:
                    raise fault
            await self.sleep(next(pauses, _PAUSES[-1]))


async def all_stored(puts: Iterable[Awaitable[object]]) -> None:
    """Wait for all *puts*, side by side; then raise the error of the first one that failed."""
    for each in await asyncio.gather(*puts, return_exceptions=True):
        if isinstance(each, BaseException):
            raise each
