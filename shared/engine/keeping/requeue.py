"""Stores deliveries for later in few messages, and changes those that are stored."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from shared.clock import Clock
from shared.delivery.messages.message import MessagePart
from shared.delivery.messages.message_writer import encode_remaining, encode_together
from shared.engine.ports import Queue, Receipt, Sender, StoreTraits
from shared.engine.ports.settling import REPEATED_FOR
from shared.errors import StorageUnavailable, Unstorable
from shared.tasks import loop_time

WAKE_AHEAD = timedelta(minutes=1)  # the period of the wake timer
OTHER_VERSION_AGAIN_IN = timedelta(minutes=5)  # an instance of that version may receive it
_PAUSES = (0.2, 0.5, 1, 2, 5, 10)  # seconds between puts; the last one repeats


class Queued(NamedTuple):
    """A stored message of one or more subscriptions, with what it takes to change it."""

    queue: Queue
    receipt: Receipt
    parts: tuple[MessagePart, ...]
    visible_at: float  # in seconds of the loop's clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Requeue:
    """Stores messages for later, on the event loop; several are put side by side."""

    sender: Sender
    traits: StoreTraits
    clock: Clock
    sleep: Callable[[float], Awaitable[None]]

    async def at_due(
        self,
        *parts: MessagePart,
        is_held: bool = False,
        blob_due_at: datetime | None = None,
        repeat_for: timedelta = REPEATED_FOR,
    ) -> list[Queued]:
        """
        Store deliveries so that they are received when they are due, or now without ``due``.

        *parts* are of a subscription each, with the same ``due`` and ``rounds``. A wait in which a
        message may not hide there is spent on ``waiting``. *is_held*: there may be many that wait
        alike. *blob_due_at*: they have ended, and the next timer after that writes their blob.

        Raises:
            StorageUnavailable: storage failed for *repeat_for*; any put may or may not be stored.
        """
        due = blob_due_at or parts[0].due
        wait = (due - self.clock.now()) if due else timedelta()
        if blob_due_at:
            queue = Queue.DEADLETTERS
        elif self.traits.may_hide(wait, is_held=is_held):
            queue = Queue.RETRIES
        else:
            queue, wait = Queue.WAITING, wait - WAKE_AHEAD
        wait = max(wait, timedelta())
        visible_at = loop_time() + wait.total_seconds()
        messages = list(encode_together(parts, self.traits.message_size))
        receipts = await self._put_all(queue, [text for _, text in messages], wait, repeat_for)
        return [
            Queued(queue, receipt, stored, visible_at)
            for (stored, _), receipt in zip(messages, receipts, strict=True)
        ]

    async def put(self, queue: Queue, text: str, visible_in: timedelta) -> Receipt:
        """
        Put one message.

        Raises:
            Unstorable: it is too large.
            StorageUnavailable: puts failed for two minutes.
        """
        (receipt,) = await self._put_all(queue, [text], visible_in, REPEATED_FOR)
        return receipt

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


async def shrink(queued: Queued, parts: Iterable[MessagePart], sender: Sender) -> Queued | None:
    """
    Leave only the deliveries of *parts* in a stored message; delete it if there are none.

    It stays hidden as long as before. ``None`` if it was received meanwhile: then it is unchanged.

    Raises:
        StorageUnavailable: it may or may not be changed.
    """
    left = tuple(parts)
    if not left:
        gone = await sender.take_back(queued.queue, queued.receipt)
        return queued._replace(parts=()) if gone else None
    wait = timedelta(seconds=max(queued.visible_at - loop_time(), 0))
    receipt = await sender.replace(queued.queue, queued.receipt, encode_remaining(*left), wait)
    return queued._replace(parts=left, receipt=receipt) if receipt else None
