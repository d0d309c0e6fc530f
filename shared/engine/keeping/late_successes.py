"""Leaves out of what follows a message what succeeded late, or takes it back."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from shared.delivery.delivery import Delivery, DeliveryKey
from shared.delivery.messages.message import MessagePart
from shared.delivery.policy import EndState
from shared.engine.keeping.requeue import Queued, shrink
from shared.engine.ports import Metrics, Queue, Sender
from shared.engine.ports.settling import Answer, Settled, Settlement
from shared.errors import StorageUnavailable
from shared.metrics import Metric
from shared.subscriptions.subscription import SubscriptionKey


class _Key(NamedTuple):
    """A delivery in its message."""

    subscription: SubscriptionKey
    delivery: DeliveryKey


@dataclass(slots=True, kw_only=True, eq=False)
class LateSuccesses:
    """
    What of one message succeeded late, and the messages that follow it.

    What succeeds before it is stored for later is left out; after that, its message is deleted or
    shrunk. This works until the message is received: then the retry has begun, and is a duplicate.
    """

    sender: Sender
    metrics: Metrics
    _changes: asyncio.Lock = field(default_factory=asyncio.Lock)
    _coming_again: set[SubscriptionKey] = field(default_factory=set)
    _delivered: set[_Key] = field(default_factory=set)
    _left_out: set[_Key] = field(default_factory=set)  # of what is stored now
    _dropped: set[_Key] = field(default_factory=set)
    _following: list[Queued] = field(default_factory=list)

    @asynccontextmanager
    async def storing(self) -> AsyncIterator[None]:
        """
        Take nothing back while what follows is stored, and leave out what was delivered before.

        What succeeds meanwhile is stored as well, and taken back after that.
        """
        async with self._changes:
            self._left_out = set(self._delivered)
            yield

    def without(self, parts: Iterable[MessagePart]) -> list[MessagePart]:
        """Return what is to be stored of *parts*; those of which nothing is left, are left out."""
        return _without(parts, self._left_out)

    def stored(self, messages: Iterable[Queued]) -> None:
        """Note that messages follow."""
        for each in messages:
            self._following.append(each)
            self._count_given_up(each, 1)

    def told(
        self,
        settlements: Sequence[Settlement],
        answer: Answer = Answer.SETTLED,
        *,
        are_drops_stored: bool = False,
    ) -> list[Settled]:
        """
        Return the answer for each, once what follows is stored.

        *are_drops_stored*: what was delivered since then is a drop nevertheless.
        """
        late = self._left_out if are_drops_stored else self._delivered
        for ended in (each for settlement in settlements for each in settlement.ends):
            key = _Key(ended.key, ended.delivery.key)
            if ended.state is EndState.DROPPED and answer is not Answer.NOT_OURS:
                (self._left_out if key in late else self._dropped).add(key)
        return [Settled(answer, self._left_out_of(each)) for each in settlements]

    def count_drops(self, settlements: Sequence[Settlement], metrics: Metrics) -> None:
        """Count by *metrics* the ends of which nothing is left, but of what was delivered."""
        drops = Counter(
            (ended.key, ended.reason)
            for settlement in settlements
            for ended in settlement.ends
            if ended.state is EndState.DROPPED
            and _Key(ended.key, ended.delivery.key) not in self._left_out
        )
        for (key, reason), by in drops.items():
            metrics.count(Metric.DROPPED, *key, by=by, DropReason=reason)

    def comes_again(self, keys: Iterable[SubscriptionKey]) -> None:
        """Do as the port `Settling`."""
        self._coming_again.update(keys)

    def take_back(
        self, key: SubscriptionKey, deliveries: Iterable[Delivery]
    ) -> Coroutine[Any, Any, bool]:
        """Do as the port `Settling`."""
        # Marked before any wait: what is settled in this turn already leaves them out.
        keys = {_Key(key, each.key) for each in deliveries}
        self._delivered |= keys
        return self._take_back(key, keys)

    async def _take_back(self, key: SubscriptionKey, keys: set[_Key]) -> bool:
        async with self._changes:
            taken = [await self._shrink(place, keys) for place in range(len(self._following))]
            return all(taken) and keys.isdisjoint(self._dropped) and key not in self._coming_again

    async def _shrink(self, place: int, keys: set[_Key]) -> bool:
        """Remove deliveries from one message; tell whether it has none of them now."""
        queued = self._following[place]
        left = _without(queued.parts, keys)
        if left == [*queued.parts]:
            return True
        shrunk = None
        with suppress(StorageUnavailable):  # It is logged as not taken back; the retry goes on.
            shrunk = await shrink(queued, left, self.sender)
        if shrunk:
            self._following[place] = shrunk
            self._count_given_up(queued, -1)
            self._count_given_up(shrunk, 1)
        return shrunk is not None

    def _left_out_of(self, settlement: Settlement) -> set[DeliveryKey]:
        again = (each for follow_up in settlement.follow_ups for each in follow_up.part.deliveries)
        found = {each.key for each in (*again, *(end.delivery for end in settlement.ends))}
        key = settlement.part.key
        return {each for each in found if _Key(key, each) in self._left_out}

    def _count_given_up(self, queued: Queued, sign: int) -> None:
        """Count the events of a message that is, or is not any more, among the dead letters."""
        for part in queued.parts if queued.queue is Queue.DEADLETTERS else ():
            self.metrics.count(Metric.AWAITING_BLOB, *part.key, by=sign * len(part.deliveries))


def _without(parts: Iterable[MessagePart], gone: set[_Key]) -> list[MessagePart]:
    found = []
    for part in parts:
        left = tuple(each for each in part.deliveries if _Key(part.key, each.key) not in gone)
        if len(left) == len(part.deliveries):
            found.append(part)
        elif left:
            found.append(replace(part, deliveries=left))
    return found
