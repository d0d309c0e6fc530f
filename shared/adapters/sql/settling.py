"""
Settles a message in one transaction: what follows, that parts are settled, and the message's end.

After a kill, only the parts that were not settled are pushed again.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import NamedTuple

from shared.adapters.sql.attempts import row_of, write_attempts
from shared.adapters.sql.database import (
    PLAIN,
    Catalogue,
    Database,
    Row,
    WriteOptions,
    WriteTransaction,
)
from shared.adapters.sql.documents import find_document
from shared.adapters.sql.hand import receipt_of
from shared.adapters.sql.leases import SqlLeases
from shared.adapters.sql.messages import (
    NewMessage,
    NewMessages,
    body_of,
    delete_in_hand,
    insert,
    keys_in_hand,
    park,
    parts_of,
    receipt_for,
    rewrite,
    settle_parts,
)
from shared.adapters.sql.tally import WaitingCounts
from shared.adapters.sql.traits import SQL
from shared.arm.subscription_codec import to_subscription_in_force
from shared.clock import Clock
from shared.delivery.delivery import Delivery, DeliveryKey
from shared.delivery.messages.message_writer import encode_remaining, encode_together
from shared.delivery.messages.outline import outline_of
from shared.engine.keeping.late_successes import LateSuccesses
from shared.engine.keeping.requeue import Queued
from shared.engine.ports import Metrics, Queue, Sender, Table
from shared.engine.ports.leases import Lease
from shared.engine.ports.settling import Answer, FollowUp, Settled, Settlement
from shared.errors import UNREADABLE, StorageUnavailable
from shared.subscriptions.subscription import EventSubscription, SubscriptionKey
from shared.tasks import loop_time

_PAUSES = (0.2, 0.5, 1, 2, 5, 10)  # seconds between tries; the last one repeats
_NO_WAIT = timedelta()
_JUDGING = WriteOptions(catalogue=Catalogue.SHARED)
_Key = tuple[SubscriptionKey, DeliveryKey]  # of a delivery in its message


class _SubscriptionsChanged(Exception):
    """What some settlements end by is not as it was re-read: nothing is stored."""

    def __init__(self, of: Sequence[Settlement]) -> None:
        super().__init__()
        self.of = of


class _New(NamedTuple):
    """A message that is to follow."""

    message: NewMessage
    queued: Queued  # what it is then
    is_held: bool  # all are of one subscription, which may be paused


class _Steps(NamedTuple):
    """What one transaction does."""

    following: Sequence[_New]
    ended: Counter[SubscriptionKey]  # how many parts of a subscription
    whole: set[SubscriptionKey]  # nothing of these is open then
    settled: set[_Key]  # of parts of which others are open
    rest: NewMessage | None  # what the message has then; ``None``: what it has, but whole parts
    conditions: Sequence[Settlement]
    attempts: Sequence[Row]
    counts: WaitingCounts


class SqlSettling:
    """Settling of one message, which *lease* has in hand."""

    def __init__(  # noqa: PLR0913 - this is all, and each by its name
        self,
        *,
        database: Database,
        new: NewMessages,
        sender: Sender,
        leases: SqlLeases,
        lease: Lease,
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        self._database = database
        self._new = new
        self._leases = leases
        self._lease = lease
        self._clock = clock
        self._late = LateSuccesses(sender=sender, metrics=metrics)
        self.metrics = WaitingCounts(clock)
        self.comes_again = self._late.comes_again
        self.take_back = self._late.take_back
        self._is_unknown = False  # whether an earlier try was stored
        # Open parts by subscription: more than one, if it was recreated between two publications.
        self._open = Counter(
            SubscriptionKey(*each[:2]).folded for each in outline_of(lease.body.decode()).parts
        )
        # Of parts of which others are open.
        self._settled: set[_Key] = set()

    async def settle(self, parts: Sequence[Settlement], repeat_for: timedelta) -> list[Settled]:
        async with self._late.storing():
            changed: list[Settlement] = []
            answer = Answer.CHANGED
            while kept := [each for each in parts if each not in changed]:
                steps = self._steps(kept)
                try:
                    answer = await self._repeated(steps, repeat_for)
                except _SubscriptionsChanged as found:
                    changed += found.of
                    continue
                if answer is not Answer.NOT_OURS:
                    self._open -= steps.ended  # keeps what is above zero
                    self._settled = steps.settled
                    self.metrics.forget(_keys(kept))
                    self._late.stored(each.queued for each in steps.following)
                break
            told = iter(self._late.told(kept, answer, are_drops_stored=True))
            return [Settled(Answer.CHANGED) if each in changed else next(told) for each in parts]

    def _steps(self, parts: Sequence[Settlement]) -> _Steps:
        together: defaultdict[object, list[FollowUp]] = defaultdict(list)
        for each in (each for part in parts for each in part.follow_ups):
            key = each.part.key.folded if each.is_held else None  # parked by subscription
            alike = id(each) if each.part.dead_letter else (each.part.due, key)
            together[alike].append(each)
        following = [each for group in together.values() for each in self._messages(group)]
        ended = Counter(each.part.key.folded for each in parts if each.is_whole)
        whole = {key for key, count in ended.items() if count >= self._open[key]}
        partly = [
            each
            for each in parts
            if each.part.key.folded not in whole and (each.follow_ups or each.ends)
        ]
        settled = self._settled | {
            (each.part.key.folded, one.key) for each in partly for one in _followed(each)
        }
        rest = self._rest(settled, whole) if partly else None
        conditions = [each for each in parts if each.ends]
        attempts = [row_of(each) for part in parts for each in part.attempts]
        counts = self.metrics.of(_keys(parts))
        self._late.count_drops(parts, counts)
        return _Steps(following, ended, whole, settled, rest, conditions, attempts, counts)

    def _messages(self, together: Sequence[FollowUp]) -> Iterator[_New]:
        """Yield the messages for what is due together, but what was delivered meanwhile."""
        parts = self._late.without(each.part for each in together)
        blob_due_at, due = together[0].blob_due_at, together[0].part.due
        now = self._clock.now()
        wait = max((blob_due_at or due or now) - now, _NO_WAIT)
        queue = Queue.DEADLETTERS if blob_due_at else Queue.RETRIES
        visible_at = loop_time() + wait.total_seconds()
        for stored, text in encode_together(parts, SQL.message_size):
            message = self._leases.for_others(queue, self._new.make(text, wait))
            receipt = receipt_for(message.number, 0, self._database.run)
            queued = Queued(queue, receipt, stored, visible_at)
            yield _New(message, queued, together[0].is_held)

    def _rest(
        self,
        settled: Collection[_Key],
        whole: Collection[SubscriptionKey],
    ) -> NewMessage | None:
        """Return the message with what is open of it."""
        left = [
            replace(part, deliveries=deliveries)
            for part in parts_of(self._lease.body)
            if part.key.folded in self._open and part.key.folded not in whole
            for deliveries in [
                tuple(one for one in part.deliveries if (part.key.folded, one.key) not in settled)
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
                    lambda writing: self._write(writing, steps),
                    _JUDGING if steps.conditions else PLAIN,
                    self._then(steps),
                )
            except StorageUnavailable:
                self._is_unknown = True
                if loop.time() >= give_up_at:
                    raise
                await asyncio.sleep(next(pauses, _PAUSES[-1]))
            else:
                return done[0]

    def _write(self, writing: WriteTransaction, steps: _Steps) -> tuple[Answer, bool]:
        """Return the answer, and whether the message is not in hand any more."""
        receipt = receipt_of(self._lease)
        number, run = receipt.number, self._database.run_of(receipt.run)
        # First of all the message: whoever settles another part of it waits.
        still_open = keys_in_hand(writing, number, run)
        if still_open is None:
            is_done = self._is_unknown and run > 0
            return Answer.SETTLED_ALREADY if is_done else Answer.NOT_OURS, True
        if self._is_unknown and _is_stored(writing, steps, still_open, number):
            return Answer.SETTLED_ALREADY, False
        if not steps.whole <= still_open:
            raise ValueError("a part is settled that is not open")
        if changed := [each for each in steps.conditions if not _is_unchanged(writing, each)]:
            raise _SubscriptionsChanged(changed)
        for new in steps.following:
            _store(writing, new)
        write_attempts(writing, steps.attempts)
        is_over = still_open == steps.whole
        if is_over:
            delete_in_hand(writing, number, run, has_rows=receipt.has_rows)
        elif steps.rest:
            rewrite(writing, steps.rest)
        else:
            settle_parts(writing, number, steps.whole)
        writing.count(steps.counts.counts)
        return Answer.SETTLED, is_over

    def _then(self, steps: _Steps) -> Callable[[tuple[Answer, bool] | None], None]:
        def then(done: tuple[Answer, bool] | None) -> None:
            answer, is_over = done or (None, False)
            if is_over:
                self._leases.has_ended(self._lease)
            if answer in (Answer.SETTLED, None):  # after a failure it may be stored
                for queue in {each.queued.queue for each in steps.following}:
                    its = [each.message for each in steps.following if each.queued.queue is queue]
                    self._leases.stored(queue, [], its)

        return then


def _store(writing: WriteTransaction, new: _New) -> None:
    insert(writing, new.queued.queue, new.message)
    if new.is_held:
        park(writing, new.message.number, new.queued.parts[0].key.folded)


def _is_stored(
    writing: WriteTransaction, steps: _Steps, still_open: Collection[SubscriptionKey], number: int
) -> bool:
    """Tell whether a message that is in hand is as *steps* leave it."""
    if not steps.whole <= set(still_open):
        return True
    return steps.rest is not None and body_of(writing, number) == steps.rest.body


def _is_unchanged(writing: WriteTransaction, settlement: Settlement) -> bool:
    """Compare a subscription with what is stored now; a pause changes nothing for an end."""
    key, expected = settlement.part.key.folded, settlement.subscription
    found: EventSubscription | None = None
    if row := find_document(writing, Table.EVENT_SUBSCRIPTIONS, key.topic, key.subscription):
        try:
            found = to_subscription_in_force(row.document)
        except UNREADABLE:
            return False
    if found and expected:
        found = replace(found, pause=expected.pause)
    return found == expected


def _followed(settlement: Settlement) -> list[Delivery]:
    """Return what was delivered, has ended, or comes again."""
    again = (each for follow_up in settlement.follow_ups for each in follow_up.part.deliveries)
    return [*settlement.delivered, *(end.delivery for end in settlement.ends), *again]


def _keys(settlements: Sequence[Settlement]) -> set[SubscriptionKey]:
    return {each.part.key for each in settlements}
