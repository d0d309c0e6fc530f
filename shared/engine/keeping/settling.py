"""Settles messages by puts, after which the host deletes them."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from shared.delivery.delivery import Delivery, DeliveryKey
from shared.delivery.messages.message import MessagePart
from shared.delivery.policy import EndState
from shared.engine.keeping.requeue import Queued, Requeue, all_stored
from shared.engine.ports import Metrics, Queue
from shared.engine.ports.settling import FollowUp, Settled, Settlement
from shared.errors import StorageUnavailable
from shared.metrics import Metric
from shared.subscriptions.subscription import SubscriptionKey

_Key = tuple[SubscriptionKey, DeliveryKey]  # of a delivery in its message


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
                is_dead = follow_up.part.dead_letter is not None
                alike = follow_up.part.due, follow_up.is_held
                together[id(follow_up) if is_dead else alike].append(follow_up)
            await all_stored(self._store(each, left_out, repeat_for) for each in together.values())
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
        left = _filtered((each.part for each in together), lambda key: key not in left_out)
        if not left:
            return
        _, is_held, blob_due_at = together[0]
        if blob_due_at:
            stored = await self.requeue.as_dead_letters(
                *left, visible_at=blob_due_at, repeat_for=repeat_for
            )
        else:
            stored = await self.requeue.at_due(*left, is_held=is_held, repeat_for=repeat_for)
        self._messages += stored
        for each in stored:
            self._count_given_up(each, 1)

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


def _settled(settlement: Settlement, left_out: Collection[_Key]) -> Settled:
    if not left_out:
        return Settled()
    again = (each for follow_up in settlement.follow_ups for each in follow_up.part.deliveries)
    found = {each.key for each in (*again, *(end.delivery for end in settlement.ends))}
    key = settlement.part.key
    return Settled(delivered={each for each in found if (key, each) in left_out})


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
