"""Keeps what one message stored for later, so that a success after the timeout can take it back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from shared.delivery.delivery import Delivery, DeliveryKey
from shared.delivery.messages.message import DeliveryMessage
from shared.engine.delivering.requeue import Queued, Requeue
from shared.errors import StorageUnavailable
from shared.subscriptions.subscription import SubscriptionKey

Put = Callable[..., Coroutine[Any, Any, Sequence[Queued]]]  # of a DeliveryMessage for each part
_Key = tuple[SubscriptionKey, DeliveryKey]  # of a delivery in its message


@dataclass(slots=True, kw_only=True, eq=False)
class Stored:
    """
    The messages that follow from one message, and which of its deliveries succeeded late.

    Deliveries whose success comes before they are stored for later are left out; after that, their
    message is deleted or shrunk. This works until the message is received: then the retry has
    begun, and is a duplicate. Source: contract §3.5, late response rule ("best effort").

    *changes* is held while messages are stored, side by side, and while one is taken back.
    *abandoned* are subscriptions whose part comes again, whatever is taken back.
    """

    requeue: Requeue
    changes: asyncio.Lock = field(default_factory=asyncio.Lock)
    abandoned: set[SubscriptionKey] = field(default_factory=set)
    _delivered: set[_Key] = field(default_factory=set)
    _dropped: set[_Key] = field(default_factory=set)
    _messages: list[Queued] = field(default_factory=list)

    async def store(self, parts: Sequence[DeliveryMessage], put: Put) -> list[DeliveryMessage]:
        """
        With the lock `changes`, let *put* store what was not delivered meanwhile; return what was.

        Raises:
            StorageUnavailable: as *put* does.
        """
        left = _filtered(parts, lambda key: key not in self._delivered)
        if left:
            self._messages += await put(*left)
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
            return all(taken) and keys.isdisjoint(self._dropped) and key not in self.abandoned

    async def _shrink(self, place: int, keys: set[_Key]) -> bool:
        """Remove deliveries from one message; tell whether it has none of them now."""
        queued = self._messages[place]
        left = _filtered(queued.parts, lambda key: key not in keys)
        if _count(left) == _count(queued.parts):
            return True
        shrunk = None
        with suppress(StorageUnavailable):  # It is logged as not taken back; the retry goes on.
            shrunk = await self.requeue.shrink(queued, left)
        self._messages[place] = shrunk or queued
        return shrunk is not None


def _filtered(
    parts: Iterable[DeliveryMessage], chosen: Callable[[_Key], bool]
) -> list[DeliveryMessage]:
    """Return the parts with their chosen deliveries; those without any are left out."""
    found = []
    for part in parts:
        deliveries = tuple(each for each in part.deliveries if chosen((part.key, each.key)))
        if deliveries:
            found.append(replace(part, deliveries=deliveries))
    return found


def _count(parts: Iterable[DeliveryMessage]) -> int:
    return sum(len(part.deliveries) for part in parts)
