"""Stores deliveries for later in few messages, and takes back what has succeeded meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from shared.clock import Clock
from shared.delivery.delivery import Delivery, DeliveryKey
from shared.delivery.messages.message import MessagePart
from shared.delivery.messages.message_writer import encode_remaining, encode_together
from shared.engine.delivering.event_loop import loop_time
from shared.engine.ports import Metrics, Queue, Receipt, Sender
from shared.errors import StorageUnavailable, Unstorable
from shared.metrics import Metric
from shared.subscriptions.subscription import SubscriptionKey

LONG_WAIT = timedelta(minutes=10)  # longer waits must not make Azure scale out
LONG_HOLD = timedelta(minutes=1)  # likewise for held deliveries, of which there may be many
WAKE_AHEAD = timedelta(minutes=1)  # the period of the wake timer
OTHER_VERSION_AGAIN_IN = timedelta(minutes=5)  # an instance of that version may receive it
PATIENCE = timedelta(minutes=2)  # with a failing put
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
    clock: Clock
    sleep: Callable[[float], Awaitable[None]]

    async def at_due(
        self,
        *parts: MessagePart,
        untriggered_from: timedelta = LONG_WAIT,
        patience: timedelta = PATIENCE,
    ) -> list[Queued]:
        """
        Store deliveries so that they are received when they are due, or now without ``due``.

        Waits longer than *untriggered_from* are spent on ``waiting``, the queue without a trigger.

        Raises:
            StorageUnavailable: storage failed for as long; any put may or may not be stored.
        """
        due = parts[0].due
        wait = (due - self.clock.now()) if due else timedelta()
        if wait > untriggered_from:
            return await self._store(Queue.WAITING, parts, wait - WAKE_AHEAD, patience)
        return await self._store(Queue.RETRIES, parts, max(wait, timedelta()), patience)

    async def as_dead_letters(
        self, *parts: MessagePart, visible_at: datetime, patience: timedelta = PATIENCE
    ) -> list[Queued]:
        """
        Store ended deliveries so that the next timer after *visible_at* writes their blob.

        Raises:
            StorageUnavailable: as `at_due`.
        """
        wait = max(visible_at - self.clock.now(), timedelta())
        return await self._store(Queue.DEADLETTERS, parts, wait, patience)

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
        (receipt,) = await self._put_all(queue, [text], visible_in, PATIENCE)
        return receipt

    async def _store(
        self,
        queue: Queue,
        parts: Sequence[MessagePart],
        visible_in: timedelta,
        patience: timedelta,
    ) -> list[Queued]:
        visible_at = loop_time() + visible_in.total_seconds()
        messages = list(encode_together(parts))
        texts = [text for _, text in messages]
        receipts = await self._put_all(queue, texts, visible_in, patience)
        return [
            Queued(queue, receipt, stored, visible_at)
            for (stored, _), receipt in zip(messages, receipts, strict=True)
        ]

    async def _put_all(
        self, queue: Queue, texts: Sequence[str], visible_in: timedelta, patience: timedelta
    ) -> list[Receipt]:
        """Put all texts, and those again that may not be stored."""
        give_up_at = loop_time() + patience.total_seconds()
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


# Called with the parts, then the patience.
PutParts = Callable[..., Coroutine[Any, Any, Sequence[Queued]]]
_Key = tuple[SubscriptionKey, DeliveryKey]  # of a delivery in its message


@dataclass(slots=True, kw_only=True, eq=False)
class Stored:
    """
    The messages that follow from one message, and which of its deliveries succeeded late.

    Deliveries whose success comes before they are stored for later are left out; after that, their
    message is deleted or shrunk. This works until the message is received: then the retry has
    begun, and is a duplicate. Source: contract §3.5, late response rule ("best effort").
    """

    requeue: Requeue
    metrics: Metrics
    # Held while messages are stored or taken back.
    changes: asyncio.Lock = field(default_factory=asyncio.Lock)
    # Their parts come again, whatever is taken back.
    coming_again: set[SubscriptionKey] = field(default_factory=set)
    _delivered: set[_Key] = field(default_factory=set)
    _dropped: set[_Key] = field(default_factory=set)
    _messages: list[Queued] = field(default_factory=list)

    async def store(self, parts: Sequence[MessagePart], put: PutParts) -> list[MessagePart]:
        """
        Let *put* store what was not delivered meanwhile, and return what was.

        The caller holds `changes`.

        Raises:
            StorageUnavailable: as *put* does.
        """
        left = _filtered(parts, lambda key: key not in self._delivered)
        if left:
            stored = await put(*left)
            self._messages += stored
            for each in stored:
                self._count_given_up(each, 1)
        return _filtered(parts, lambda key: key in self._delivered) if self._delivered else []

    def drop(self, key: SubscriptionKey, delivery: Delivery) -> bool:
        """Note that a delivery is to be dropped; ``False`` if it was delivered meanwhile."""
        if (key, delivery.key) in self._delivered:
            return False
        self._dropped.add((key, delivery.key))
        return True

    async def take_back(self, key: SubscriptionKey, deliveries: Iterable[Delivery]) -> bool:
        """Remove deliveries that succeeded late from every message; tell whether all could be."""
        keys = {(key, each.key) for each in deliveries}
        async with self.changes:
            self._delivered |= keys
            taken = [await self._shrink(place, keys) for place in range(len(self._messages))]
            return all(taken) and keys.isdisjoint(self._dropped) and key not in self.coming_again

    async def _shrink(self, place: int, keys: set[_Key]) -> bool:
        """Remove deliveries from one message; tell whether it has none of them now."""
        queued = self._messages[place]
        left = _filtered(queued.parts, lambda key: key not in keys)
        if _count(left) == _count(queued.parts):
            return True
        shrunk = None
        with suppress(StorageUnavailable):  # It is logged as not taken back; the retry goes on.
            shrunk = await self.requeue.shrink(queued, left)
        if shrunk:
            self._messages[place] = shrunk
            self._count_given_up(queued, -1)
            self._count_given_up(shrunk, 1)
        return shrunk is not None

    def _count_given_up(self, queued: Queued, sign: int) -> None:
        """Count the events of a message that is, or is not any more, among the dead letters."""
        for part in queued.parts if queued.queue is Queue.DEADLETTERS else ():
            self.metrics.count(Metric.AWAITING_BLOB, *part.key, by=sign * len(part.deliveries))


def _filtered(parts: Iterable[MessagePart], chosen: Callable[[_Key], bool]) -> list[MessagePart]:
    """Return the parts with their chosen deliveries; those without any are left out."""
    found = []
    for part in parts:
        deliveries = tuple(each for each in part.deliveries if chosen((part.key, each.key)))
        if deliveries:
            found.append(replace(part, deliveries=deliveries))
    return found


def _count(parts: Iterable[MessagePart]) -> int:
    return sum(len(part.deliveries) for part in parts)
