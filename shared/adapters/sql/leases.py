"""
Hands messages to this process. A message in hand has the number of its run: that is its lease.

What a dead process had is free by definition, and the death is counted when it is claimed. In a
folder, whose lock one process has, each lower number is that of a dead one; on PostgreSQL
`processes` tells who is dead, and which number of theirs counts (`dialects.py`).
"""

from __future__ import annotations

import asyncio
import heapq
import math
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from itertools import count
from typing import TypeVar

from shared.adapters.sql.claiming import (
    claim_due,
    claim_freed,
    claim_left,
    in_hand,
    lease_of,
    merge,
    next_due,
    open_row,
)
from shared.adapters.sql.database import (
    Database,
    WriteOptions,
    WriteTransaction,
    micros,
    moment,
)
from shared.adapters.sql.hand import AHEAD, Hand, SqlReceipt, receipt_of
from shared.adapters.sql.messages import (
    MINE,
    NewMessage,
    delete_in_hand,
    open_keys,
    open_text,
    put_down,
)
from shared.adapters.sql.suspects import Suspects
from shared.clock import Clock
from shared.engine.ports import Queue, Threads
from shared.engine.ports.leases import LEASED, GiveUp, Lease
from shared.errors import StorageUnavailable
from shared.tasks import loop_time

T = TypeVar("T")
#: What others are to find is due so long after it is made: nobody has looked there before then.
FOR_OTHERS = AHEAD + timedelta(seconds=1)  # that its commit may take
MOST_FAILURES = 20  # as on Azure; then it is recorded
AGAIN_IN = timedelta(minutes=1)  # after a failure
_THREADS = 2  # for what the event loop must not wait for
_LOOP_SECONDS = 2.0  # until the loop has taken what was stored
_LEASE_AGAIN_SECONDS = 1.0  # between looks whether this process has its lease again
_BACK_AGAIN_SECONDS = 0.1  # between tries to hand back


class SqlLeases:
    """
    Leases of this process, on its event loop.

    *give_up* is called on *threads*. Where others store what is due, or die, the table is checked
    every *look_every* seconds, from where the last look has ended. So what is in nobody's hand is
    stored ahead of all looks (`for_others`). What comes late all the same its own process knows
    (`stored`), and the others find once that is dead (`look_for_the_dead`).
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        threads: Threads,
        give_up: GiveUp,
        *,
        look_every: float = math.inf,
    ) -> None:
        self._look_every = look_every
        for_others = FOR_OTHERS if look_every < math.inf else timedelta()
        self._for_others = for_others // timedelta(microseconds=1)
        self._database = database
        self._clock = clock
        self._off_loop = threads.pool("store", _THREADS)
        self._result = threads.result
        self.lost: Callable[[], object] = lambda: None
        self._give_up = give_up
        self._hands = {queue: Hand() for queue in LEASED}
        self._order = count()
        self._suspects = Suspects(database, self._end_as_poison)
        self._is_open = True
        self._loop: asyncio.AbstractEventLoop | None = None  # once it is used

    # ── What the sender says ──

    def reserve(self, queue: Queue, many: int) -> int:
        """
        Return for how many of *many* new messages there is room, which is kept for them.

        None while others are due in the table: they were there before.
        """
        hand, self._loop = self._hands.get(queue), asyncio.get_running_loop()
        if hand is None or not self._is_open or hand.is_behind(self._now(), timedelta()):
            return 0
        many = max(0, min(many, hand.room))
        hand.reserved += many
        return many

    def for_others(self, queue: Queue, message: NewMessage) -> NewMessage:
        """Return *message* as it is stored in nobody's hand: due where nobody has looked yet."""
        if queue not in self._hands:
            return message
        return message._replace(due=max(message.due, message.stored + self._for_others))

    def stored(
        self,
        queue: Queue,
        born: Sequence[NewMessage],
        others: Sequence[NewMessage],
        reserved: int = 0,
        run: int = 0,
    ) -> None:
        """Take what was born as *run* into this process's hand; note when *others* are due."""
        if (hand := self._hands.get(queue)) is None:
            return
        hand.reserved -= reserved
        for each in born:
            has_rows = bool(each.outline.payloads)
            receipt = SqlReceipt(each.number, run, moment(each.due), has_rows=has_rows)
            hand.ready.append(Lease(queue, each.body, receipt))
        if others:
            hand.note(moment(min(each.due for each in others)))
        hand.news.set()

    def may_be_stored(self, queue: Queue, messages: Sequence[NewMessage], reserved: int) -> None:
        """Look for messages of which nobody knows; room was *reserved* for the first of them."""
        self.stored(queue, [], messages, reserved)
        if hand := self._hands.get(queue):
            hand.doubt(each.number for each in messages[:reserved])

    def may_be_unparked(self) -> None:
        """Look for what is not parked any more; from any thread."""
        self._on_loop(partial(self._hands[Queue.RETRIES].look_anew, self._now()))

    # ── What the database says, from any thread ──

    def numbers_in_hand(self) -> Collection[int]:
        """
        Return the numbers of what is in hand, once all is that was stored so far.

        Raises:
            StorageUnavailable: the event loop does not answer.
        """
        return self._ask(self._numbers)

    def empty(self) -> None:
        """
        Have nothing in hand any more: others may have it, also what was handed over.

        Raises:
            StorageUnavailable: the event loop does not answer, and goes on with it.
        """
        self._ask(self._empty)

    def look_for_the_dead(self) -> None:
        """Claim what a process had in hand that is dead."""
        self._on_loop(self._look_anew)

    # ── Leases ──

    async def claim(self, queue: Queue, most: int) -> Sequence[Lease]:
        hand, self._loop = self._hands[queue], asyncio.get_running_loop()
        while True:
            hand.news.clear()
            if not self._database.has_lease:
                await asyncio.sleep(_LEASE_AGAIN_SECONDS)
                continue
            if hand.look_at <= loop_time():
                hand.look_at = loop_time() + self._look_every
                hand.has_to_look = True
            if self._suspects.may_be_left:
                if leases := await self._suspects.claim(most):
                    return self._handed_over(leases)
                continue
            if leases := hand.take_due(self._now(), most):
                return leases
            if hand.wants_a_claim(self._now()) and hand.is_worth_a_claim:
                await self._fill(queue, hand)
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(hand.wait(self._now())):
                    await hand.news.wait()

    def _handed_over(self, leases: Sequence[Lease]) -> Sequence[Lease]:
        for each in leases:
            self._hands[each.queue].out.add(receipt_of(each)[:2])
        return leases

    def has(self, lease: Lease) -> bool:
        """Tell whether a message is in hand, and was handed over."""
        return receipt_of(lease)[:2] in self._hands[lease.queue].out

    async def end(self, lease: Lease) -> None:
        """Does nothing for one that was settled (`SqlSettling`)."""
        if self.has(lease):
            await self._delete(lease)

    async def give_back(self, lease: Lease) -> None:
        """What did not end this process has no deaths any more."""
        number, taken, *_ = receipt_of(lease)
        due = self._clock.now() + AGAIN_IN

        def write(writing: WriteTransaction) -> Lease | None:
            """Return what is open of it, if it has failed too often: then it is in hand still."""
            mine = number, self._database.run_of(taken)
            columns = "UPDATE messages SET receives = receives + 1, deaths = 0"
            rows = writing.rows(f"{columns} WHERE {MINE} RETURNING receives, body", *mine)
            if rows and rows[0][0] >= MOST_FAILURES:
                text = open_text(rows[0][1].decode(), open_keys(writing, number))
                return lease._replace(body=text.encode())
            put = "UPDATE messages SET run = 0, due = ?, receipt = receipt + 1"
            if writing.run(f"{put} WHERE {MINE}", micros(due), *mine):
                put_down(writing, number)
            return None

        if left := await self._database.write_on_loop(write):
            await self._end_as_poison(left, f"it has failed {MOST_FAILURES} times")
        else:
            self._hands[lease.queue].note(due)
            self.has_ended(lease)

    async def _end_as_poison(self, lease: Lease, why: str) -> None:
        await self._off_loop(partial(self._give_up, lease.queue, lease.body.decode(), why))
        await self._delete(lease)

    async def _delete(self, lease: Lease) -> None:
        receipt = receipt_of(lease)

        def write(writing: WriteTransaction) -> None:
            run = self._database.run_of(receipt.run)
            delete_in_hand(writing, receipt.number, run, has_rows=receipt.has_rows)

        await self._database.write_on_loop(write)
        self.has_ended(lease)

    async def hand_back(self) -> None:
        self._is_open = False
        out = {number for hand in self._hands.values() for number, _ in hand.out}
        while True:  # for as long as who ends waits
            with suppress(StorageUnavailable):
                await self._let_go(out)
                break
            await asyncio.sleep(_BACK_AGAIN_SECONDS)
        self._forget()

    async def close(self) -> None:
        self._is_open = False
        await self._let_go(())

    async def _let_go(self, kept: Collection[int]) -> None:
        """Let others have all but *kept* that is in hand, or will be by what is being stored."""
        taken = "SELECT id FROM messages WHERE run > 0 AND run = ? ORDER BY id"
        put = "UPDATE messages SET run = 0, receipt = receipt + 1"
        due = micros(self._now()) + self._for_others
        put += f", due = CASE WHEN due < ? THEN ? ELSE due END WHERE {MINE}"

        def write(writing: WriteTransaction) -> None:
            run = self._database.run
            for (number,) in writing.rows(taken, run):
                if number not in kept and writing.run(put, due, due, number, run):
                    put_down(writing, number)

        await self._database.write_on_loop(write)

    # ── Parts of the above ──

    def _ask(self, call: Callable[[], T]) -> T:
        """Return what *call* returns on the loop; without one nothing is handed over."""
        answer: Future[T] = Future()
        if not self._on_loop(lambda: answer.set_result(call())):
            return call()
        try:
            return self._result(answer, _LOOP_SECONDS)
        except TimeoutError:
            raise StorageUnavailable("the event loop does not answer") from None

    def _on_loop(self, call: Callable[[], object]) -> bool:
        """Tell whether there is a loop, on which *call* is made."""
        if self._loop:
            with suppress(RuntimeError):  # The loop has been closed.
                self._loop.call_soon_threadsafe(call)
                return True
        return False

    def _numbers(self) -> list[int]:
        numbers = [number for hand in self._hands.values() for number in hand.numbers]
        return [*numbers, *self._suspects.numbers]

    def _empty(self) -> None:
        self.lost()
        self._forget()
        self._look_anew()

    def _forget(self) -> None:
        """Have nothing in hand but what was handed over."""
        self._suspects.forget()
        for hand in self._hands.values():
            hand.forget()

    def _look_anew(self) -> None:
        self._suspects.look_anew()
        for hand in self._hands.values():
            hand.all_at = 0.0
            hand.look_anew(self._now())

    def _now(self) -> datetime:
        return self._clock.now()

    async def _fill(self, queue: Queue, hand: Hand) -> None:
        """
        Claim from the table what is due, and first what a process had that has died.

        The rows of what was claimed before are not read again: as long as somebody has a snapshot
        of before, they can't be removed.
        """
        most = hand.claimable
        doubtful = hand.doubtful[:most]
        now = self._now()
        until = now + AHEAD
        floor = hand.begin_claim(until)
        taken: list[int] = []

        def write(writing: WriteTransaction) -> tuple[list[Lease], int, datetime | None]:
            run = self._database.run
            rows = in_hand(writing, run, doubtful)
            rows += claim_left(writing, run, queue, most - len(rows))
            read_to = floor
            if some := most - len(rows):
                found, read_to = claim_due(writing, run, queue, (floor, micros(until)), some)
                rows += found
            if queue is Queue.RETRIES:
                rows += claim_freed(writing, run, most - len(rows), micros(now))
            is_all = len(rows) < most
            taken[:] = [row[0] for row in rows]
            rows = merge(writing, [open_row(writing, row) for row in rows], run, micros(now))
            leases = [lease_of(row, run) for row in rows]
            return leases, read_to, next_due(writing, queue, read_to) if is_all else now

        def then(claimed: tuple[list[Lease], int, datetime | None] | None) -> None:
            # In the order of the commits: what is put later is noted later.
            hand.reserved -= most
            if claimed is None:
                hand.doubt(taken)
                hand.floor, hand.has_to_look = min(hand.floor, floor), True
            else:
                known = {*doubtful, *taken}  # taken: also one that was not looked at
                hand.doubtful = [each for each in hand.doubtful if each not in known]
                leases, read_to, due = claimed
                hand.end_claim(floor, read_to, due)
                for lease in leases:
                    heapq.heappush(hand.ahead, (receipt_of(lease).due, next(self._order), lease))

        hand.reserved += most
        hand.has_to_look, hand.look_at = False, loop_time() + self._look_every
        await self._database.write_on_loop(write, WriteOptions(claims=taken), then)

    def has_ended(self, lease: Lease) -> None:
        """Note that a message is out of hand."""
        receipt = receipt_of(lease)
        hand = self._hands[lease.queue]
        hand.out.discard(receipt[:2])
        self._suspects.has_ended(receipt.number)
        if hand.wants_a_claim(self._now()):
            hand.news.set()
