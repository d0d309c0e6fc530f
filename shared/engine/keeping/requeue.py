"""
Stores deliveries for later in few messages, changes those that are stored, and so settles messages.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from shared.clock import Clock
from shared.delivery.attempt_record import AttemptRecord
from shared.delivery.delivery import Delivery, DeliveryKey
from shared.delivery.messages.message import MessagePart
from shared.delivery.messages.message_writer import encode_remaining, encode_together
from shared.delivery.policy import EndState
from shared.engine.ports import Metrics, Queue, Receipt, Sender, StoreTraits
from shared.engine.ports.settling import REPEATED_FOR, FollowUp, Settled, Settlement
from shared.errors import StorageUnavailable, Unstorable
from shared.metrics import Metric
from shared.subscriptions.subscription import SubscriptionKey
from shared.tasks import loop_time

WAKE_AHEAD = timedelta(minutes=1)  # the period of the wake timer
OTHER_VERSION_AGAIN_IN = timedelta(minutes=5)  # an instance of that version may receive it
_PAUSES = (0.2, 0.5, 1, 2, 5, 10)  # seconds between puts; the last one repeats

_Key = tuple[SubscriptionKey, DeliveryKey]  # of a delivery in its message


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


@dataclass(slots=True, kw_only=True, eq=False)
class PutSettling:
    """
    Settling of one message, where nothing is stored of whose it is: what follows is put.

    Deliveries whose success comes before they are stored for later are left out; after that, their
    message is deleted or shrunk. This works until the message is received: then the retry has
    begun, and is a duplicate.
    """

    requeue: Requeue
    metrics: Metrics
    record: Callable[[Sequence[AttemptRecord]], object]  # has attempts stored soon
    # Held while messages are stored or taken back.
    _changes: asyncio.Lock = field(default_factory=asyncio.Lock)
    _coming_again: set[SubscriptionKey] = field(default_factory=set)
    _delivered: set[_Key] = field(default_factory=set)
    _dropped: set[_Key] = field(default_factory=set)
    _messages: list[Queued] = field(default_factory=list)

    async def settle(self, parts: Sequence[Settlement], repeat_for: timedelta) -> list[Settled]:
        async with self._changes:
            # What succeeds while the rest is being stored is stored as well, and taken back.
            left_out = set(self._delivered)
            together: defaultdict[object, list[FollowUp]] = defaultdict(list)
            for follow_up in (each for part in parts for each in part.follow_ups):
                alike = follow_up.part.due, follow_up.is_held
                together[id(follow_up) if follow_up.blob_due_at else alike].append(follow_up)
            await _all_stored(self._store(each, left_out, repeat_for) for each in together.values())
            self.record([each for part in parts for each in part.attempts])
            for each in (end for part in parts for end in part.ends):
                key = each.key, each.delivery.key
                if each.state is EndState.DROPPED:
                    (left_out if key in self._delivered else self._dropped).add(key)
            return [_settled(each, left_out) for each in parts]

    def comes_again(self, keys: Iterable[SubscriptionKey]) -> None:
        self._coming_again.update(keys)

    def take_back(
        self, key: SubscriptionKey, deliveries: Iterable[Delivery]
    ) -> Coroutine[Any, Any, bool]:
        # Marked before any wait: what is settled in this turn already leaves them out.
        keys = {(key, each.key) for each in deliveries}
        self._delivered |= keys
        return self._take_back(key, keys)

    async def _take_back(self, key: SubscriptionKey, keys: set[_Key]) -> bool:
        async with self._changes:
            taken = [await self._shrink(place, keys) for place in range(len(self._messages))]
            return all(taken) and keys.isdisjoint(self._dropped) and key not in self._coming_again

    async def _store(
        self, together: Sequence[FollowUp], left_out: Collection[_Key], repeat_for: timedelta
    ) -> None:
        """Put what is due together, but what is *left_out*."""
        _, is_held, blob_due_at = together[0]
        if left := _without((each.part for each in together), left_out):
            stored = await self.requeue.at_due(
                *left, is_held=is_held, blob_due_at=blob_due_at, repeat_for=repeat_for
            )
            self._messages += stored
            for each in stored:
                self._count_given_up(each, 1)

    async def _shrink(self, place: int, keys: set[_Key]) -> bool:
        """Remove deliveries from one message; tell whether it has none of them now."""
        queued = self._messages[place]
        left = _without(queued.parts, keys)
        if left == [*queued.parts]:
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


def _settled(settlement: Settlement, left_out: Collection[_Key]) -> Settled:
    if not left_out:
        return Settled()
    again = (each for follow_up in settlement.follow_ups for each in follow_up.part.deliveries)
    found = {each.key for each in (*again, *(end.delivery for end in settlement.ends))}
    key = settlement.part.key
    return Settled(delivered={each for each in found if (key, each) in left_out})


def _without(parts: Iterable[MessagePart], gone: Collection[_Key]) -> list[MessagePart]:
    """Return the parts without what is *gone*; those of which nothing is left, are left out."""
    found = []
    for part in parts:
        left = tuple(each for each in part.deliveries if (part.key, each.key) not in gone)
        if len(left) == len(part.deliveries):
            found.append(part)
        elif left:
            found.append(replace(part, deliveries=left))
    return found


async def _all_stored(puts: Iterable[Awaitable[object]]) -> None:
    """Wait for all *puts*, side by side; then raise the error of the first one that failed."""
    for each in await asyncio.gather(*puts, return_exceptions=True):
        if isinstance(each, BaseException):
            raise each
