"""
Settles a message in one transaction: what follows, that parts are settled, and the message's end.

After a kill, only the parts that were not settled are pushed again.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, NamedTuple

from shared.adapters.sql.attempts import row_of, write_attempts
from shared.adapters.sql.database import Database, Row, WriteTransaction, moment
from shared.adapters.sql.documents import find_document
from shared.adapters.sql.leases import SqlLeases, receipt_of
from shared.adapters.sql.messages import (
    NewMessage,
    NewMessages,
    delete,
    delete_in_hand,
    insert,
    open_keys,
    park,
    parts_of,
    rewrite,
    settle_parts,
)
from shared.adapters.sql.messages import (
    replace as replace_message,
)
from shared.adapters.sql.traits import SQL
from shared.arm.subscription_codec import to_subscription_in_force
from shared.clock import Clock
from shared.delivery.delivery import Delivery, DeliveryKey
from shared.delivery.messages.message import MessagePart
from shared.delivery.messages.message_writer import encode_remaining, encode_together
from shared.delivery.messages.outline import outline_of
from shared.delivery.policy import EndState
from shared.engine.ports import Metrics, Queue, Table
from shared.engine.ports.leases import Lease
from shared.engine.ports.settling import Answer, FollowUp, Settled, Settlement
from shared.errors import UNREADABLE, StorageUnavailable
from shared.metrics import Metric
from shared.subscriptions.subscription import EventSubscription, SubscriptionKey

_PAUSES = (0.2, 0.5, 1, 2, 5, 10)  # seconds between tries; the last one repeats
_NO_WAIT = timedelta()
_Key = tuple[SubscriptionKey, DeliveryKey]  # of a delivery in its message


class SubscriptionChanged(StorageUnavailable):
    """A subscription is not as it was re-read: its events are judged anew by its new terms."""


class _Stored(NamedTuple):
    """A message that followed, with what it takes to change it."""

    queue: Queue
    message: NewMessage
    parts: tuple[MessagePart, ...]
    is_held: bool = False  # all are of one subscription, which may be paused
    version: int = 0


class _Steps(NamedTuple):
    """What one transaction does."""

    stored: Sequence[_Stored]
    ended: Counter[SubscriptionKey]  # how many parts of a subscription
    whole: set[SubscriptionKey]  # nothing of these is open then
    rest: NewMessage | None  # what the message has then; ``None``: what it has, but whole parts
    conditions: Sequence[Settlement]
    attempts: Sequence[Row]


class SqlSettling:
    """Settling of one message, which *lease* has in hand."""

    def __init__(  # noqa: PLR0913 - this is all, and each by its name
        self,
        *,
        database: Database,
        new: NewMessages,
        leases: SqlLeases,
        lease: Lease,
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        self._database = database
        self._new = new
        self._leases = leases
        self._lease = lease
        self._metrics = metrics
        self._clock = clock
        self._changes = asyncio.Lock()  # held while anything is stored
        self._is_unknown = False  # whether an earlier try was stored
        self._coming_again: set[SubscriptionKey] = set()
        self._delivered: set[_Key] = set()
        self._dropped: set[_Key] = set()
        # Open parts by subscription: more than one, if it was recreated between two publications.
        self._open = Counter(
            SubscriptionKey(*each[:2]).folded for each in outline_of(lease.body.decode()).parts
        )
        self._settled: set[_Key] = set()  # of parts of which others are open
        self._stored: list[_Stored] = []

    async def settle(self, parts: Sequence[Settlement], repeat_for: timedelta) -> list[Settled]:
        """
        Do as the port `Settling`.

        Raises:
            SubscriptionChanged: nothing is stored, since something ends by terms of before.
        """
        if not parts:
            return []
        async with self._changes:
            # What succeeds while the rest is being stored is stored as well, and taken back.
            left_out = set(self._delivered)
            steps = self._steps(parts, left_out)
            answer = await self._repeated(steps, repeat_for)
            if answer is Answer.SETTLED:
                self._note(parts, steps, left_out)
            return [_told(each, answer, left_out) for each in parts]

    def comes_again(self, keys: Iterable[SubscriptionKey]) -> None:
        self._coming_again.update(keys)

    def take_back(
        self, key: SubscriptionKey, deliveries: Iterable[Delivery]
    ) -> Coroutine[Any, Any, bool]:
        keys = {(key, each.key) for each in deliveries}
        self._delivered |= keys
        return self._take_back(key, keys)

    # ── Settling ──

    def _steps(self, parts: Sequence[Settlement], left_out: Collection[_Key]) -> _Steps:
        together: defaultdict[object, list[FollowUp]] = defaultdict(list)
        for each in (each for part in parts for each in part.follow_ups):
            key = each.part.key.folded if each.is_held else None  # parked by subscription
            alike = id(each) if each.part.dead_letter else (each.part.due, key)
            together[alike].append(each)
        stored = [each for group in together.values() for each in self._messages(group, left_out)]
        ended = Counter(each.part.key.folded for each in parts if each.is_whole)
        whole = {key for key, count in ended.items() if count >= self._open[key]}
        partly = [
            each
            for each in parts
            if each.part.key.folded not in whole and (each.follow_ups or each.ends)
        ]
        rest = self._rest(partly, whole) if partly else None
        conditions = [each for each in parts if each.ends]
        attempts = [row_of(each) for part in parts for each in part.attempts]
        return _Steps(stored, ended, whole, rest, conditions, attempts)

    def _messages(self, together: Sequence[FollowUp], left_out: Collection[_Key]) -> list[_Stored]:
        """Return the messages for what is due together, but what is *left_out*."""
        parts = _filtered((each.part for each in together), left_out)
        blob_due_at, due = together[0].blob_due_at, together[0].part.due
        now = self._clock.now()
        wait = max((blob_due_at or due or now) - now, _NO_WAIT)
        queue = Queue.DEADLETTERS if blob_due_at else Queue.RETRIES
        return [
            _Stored(queue, self._new.make(text, wait), together_, together[0].is_held)
            for together_, text in encode_together(parts, SQL.message_size)
        ]

    def _rest(
        self, partly: Sequence[Settlement], whole: Collection[SubscriptionKey]
    ) -> NewMessage | None:
        """Return the message with what is open of it."""
        for each in partly:
            gone = [*(end.delivery for end in each.ends)]
            gone += [one for again in each.follow_ups for one in again.part.deliveries]
            self._settled |= {(each.part.key.folded, one.key) for one in gone}
        left = [
            replace(part, deliveries=deliveries)
            for part in parts_of(self._lease.body)
            if part.key.folded in self._open and part.key.folded not in whole
            for deliveries in [
                tuple(
                    one
                    for one in part.deliveries
                    if (part.key.folded, one.key) not in self._settled
                )
            ]
            if deliveries
        ]
        if not left:
            return None
        number = receipt_of(self._lease).number
        return self._new.make(encode_remaining(*left), _NO_WAIT)._replace(number=number)

    async def _repeated(self, steps: _Steps, repeat_for: timedelta) -> Answer:
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + repeat_for.total_seconds()
        pauses = iter(_PAUSES)
        while True:
            try:
                done = await self._database.write_on_loop(
                    lambda writing: self._write(writing, steps), then=self._then(steps)
                )
            except SubscriptionChanged:
                raise
            except StorageUnavailable:
                self._is_unknown = True
                if loop.time() >= give_up_at:
                    raise
                await asyncio.sleep(next(pauses, _PAUSES[-1]))
            else:
                return done[0]

    def _write(self, writing: WriteTransaction, steps: _Steps) -> tuple[Answer, bool]:
        """Return the answer, and whether the message is not in hand any more."""
        number, run = receipt_of(self._lease).number, self._leases.run
        # First of all the message: whoever settles another part of it waits.
        if not writing.rows("SELECT 1 FROM messages WHERE id = ? AND run = ?", number, run):
            return Answer.SETTLED_ALREADY if self._is_unknown else Answer.NOT_OURS, True
        still_open = open_keys(writing, number)
        if not steps.whole <= still_open:
            if self._is_unknown:
                return Answer.SETTLED_ALREADY, False
            raise ValueError("a part is settled that is not open")
        for each in steps.conditions:
            _check_unchanged(writing, each)
        for stored in steps.stored:
            _store(writing, stored)
        write_attempts(writing, steps.attempts)
        is_over = still_open == steps.whole
        if is_over:
            delete_in_hand(writing, number, run)
        elif steps.rest:
            rewrite(writing, steps.rest)
        else:
            settle_parts(writing, number, steps.whole)
        return Answer.SETTLED, is_over

    def _then(self, steps: _Steps) -> Callable[[tuple[Answer, bool] | None], None]:
        def then(done: tuple[Answer, bool] | None) -> None:
            answer, is_over = done or (None, False)
            if is_over:
                self._leases.has_ended(self._lease)
            if answer is Answer.SETTLED:
                for queue in {each.queue for each in steps.stored}:
                    of_queue = [each.message for each in steps.stored if each.queue is queue]
                    self._leases.stored(queue, [], of_queue, 0)

        return then

    def _note(self, parts: Sequence[Settlement], steps: _Steps, left_out: set[_Key]) -> None:
        self._open -= steps.ended  # keeps what is above zero
        self._stored += steps.stored
        for stored in steps.stored:
            self._count_given_up(stored, 1)
        for each in (end for part in parts for end in part.ends):
            key = each.key, each.delivery.key
            if each.state is EndState.DROPPED:
                (left_out if key in self._delivered else self._dropped).add(key)

    # ── Taking back ──

    async def _take_back(self, key: SubscriptionKey, keys: set[_Key]) -> bool:
        async with self._changes:
            taken = [await self._shrink(place, keys) for place in range(len(self._stored))]
            return all(taken) and keys.isdisjoint(self._dropped) and key not in self._coming_again

    async def _shrink(self, place: int, keys: set[_Key]) -> bool:
        """Remove deliveries from one message; tell whether it has none of them now."""
        stored = self._stored[place]
        left = _filtered(stored.parts, keys)
        if _count(left) == _count(stored.parts):
            return True
        identity = stored.message.number, stored.queue.value, stored.version
        wait = max(moment(stored.message.due) - self._clock.now(), _NO_WAIT)
        rest = self._new.make(encode_remaining(*left), wait) if left else None

        def write(writing: WriteTransaction) -> bool:
            return replace_message(writing, identity, rest) if rest else delete(writing, identity)

        try:
            is_taken = await self._database.write_on_loop(write)
        except StorageUnavailable:  # It is logged as not taken back; the retry goes on.
            return False
        if is_taken:
            self._stored[place] = stored._replace(parts=tuple(left), version=stored.version + 1)
            self._count_given_up(stored, -1)
            self._count_given_up(self._stored[place], 1)
        return is_taken

    def _count_given_up(self, stored: _Stored, sign: int) -> None:
        """Count the events of a message that is, or is not any more, among the dead letters."""
        for part in stored.parts if stored.queue is Queue.DEADLETTERS else ():
            self._metrics.count(Metric.AWAITING_BLOB, *part.key, by=sign * len(part.deliveries))


def _store(writing: WriteTransaction, stored: _Stored) -> None:
    insert(writing, stored.queue, stored.message)
    if stored.is_held:
        park(writing, stored.message.number, stored.parts[0].key.folded)


def _check_unchanged(writing: WriteTransaction, settlement: Settlement) -> None:
    """
    Compare a subscription with what is stored now; a pause changes nothing for what is under way.

    Raises:
        SubscriptionChanged: it is another one, or gone, or can't be read.
    """
    key, expected = settlement.part.key.folded, settlement.subscription
    found: EventSubscription | None = None
    if row := find_document(writing, Table.EVENT_SUBSCRIPTIONS, key.topic, key.subscription):
        try:
            found = to_subscription_in_force(row.document)
        except UNREADABLE as error:
            raise SubscriptionChanged from error
    if found and expected:
        found = replace(found, pause=expected.pause)
    if found != expected:
        raise SubscriptionChanged


def _told(settlement: Settlement, answer: Answer, left_out: Collection[_Key]) -> Settled:
    again = (each for follow_up in settlement.follow_ups for each in follow_up.part.deliveries)
    found = {each.key for each in (*again, *(end.delivery for end in settlement.ends))}
    key = settlement.part.key
    return Settled(answer, {each for each in found if (key, each) in left_out})


def _filtered(parts: Iterable[MessagePart], without: Collection[_Key]) -> list[MessagePart]:
    """Return the parts with the deliveries that are left; those without any are left out."""
    found = []
    for part in parts:
        deliveries = tuple(each for each in part.deliveries if (part.key, each.key) not in without)
        if deliveries:
            found.append(replace(part, deliveries=deliveries))
    return found


def _count(parts: Iterable[MessagePart]) -> int:
    return sum(len(part.deliveries) for part in parts)
