"""Keeps what follows from a message, and takes back what has succeeded meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from shared.delivery.delivery import Delivery, DeliveryKey
from shared.delivery.messages.message import MessagePart
from shared.engine.keeping.requeue import Queued, Requeue
from shared.engine.ports import Metrics, Queue
from shared.errors import StorageUnavailable
from shared.metrics import Metric
from shared.subscriptions.subscription import SubscriptionKey

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
