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
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from itertools import count
from typing import NamedTuple

from shared.adapters.sql.database import (
    Database,
    ReadTransaction,
    Row,
    WriteTransaction,
    micros,
    moment,
)
from shared.adapters.sql.messages import (
    NEVER,
    NewMessage,
    delete_in_hand,
    message_of,
    open_keys,
    open_text,
    parts_of,
    put_down,
    rewrite,
)
from shared.adapters.sql.traits import SQL
from shared.clock import Clock
from shared.delivery.messages.copies import without_copies
from shared.delivery.messages.merging import headers_of, merged
from shared.delivery.messages.message import MessagePart
from shared.delivery.messages.message_writer import encode_together
from shared.delivery.messages.outline import outline_of
from shared.engine.ports import Queue, Threads
from shared.engine.ports.leases import GiveUp, Lease
from shared.tasks import loop_time

HANDED = (Queue.DELIVERIES, Queue.RETRIES)  # the queues whose messages are handed over
ROOM = SQL.most_in_hand  # messages of each
AHEAD = timedelta(seconds=1)  # that messages are claimed before they are due
_AT_LEAST = AHEAD / 2  # that the first of them is: one claim takes what follows it
#: What others are to find is due so long after it is made: nobody has looked there before then.
FOR_OTHERS = AHEAD + timedelta(seconds=1)  # that its commit may take
MOST_FAILURES = 20  # as on Azure; then it is recorded
AGAIN_IN = timedelta(minutes=1)  # after a failure
DEATHS_TOGETHER = 3  # a message with as many is a suspect
DEATHS = 6  # from then on it does not run
SUSPECT_SECONDS = 3.0  # a process that lives so long with suspects has survived them
_BATCH = 256
_LOOK_SECONDS = 60.0  # a clock that was set is noticed by then
_ALL_SECONDS = 3600.0  # between looks at everything that is due
_THREADS = 2  # for what the event loop must not wait for
_LOOP_SECONDS = 2.0  # until the loop has taken what was stored
_LEASE_SECONDS = 1.0  # between looks whether this process has its lease again
_CLAIM = (
    "UPDATE messages SET run = ?, parked = NULL,"
    " deaths = deaths + CASE WHEN run > 0 THEN 1 ELSE 0 END"
    " WHERE id IN ({}) RETURNING id, queue, body, due, deaths, receives"
)
_DUE = (
    "SELECT id FROM messages WHERE run = 0 AND queue = ? AND due BETWEEN ? AND ?"
    " ORDER BY due, id LIMIT ?"
)
_FREED = "SELECT id FROM messages WHERE parked = ? ORDER BY id LIMIT ?"
_MINE = "id = ? AND run = ?"
_IN_HAND = f"SELECT id, queue, body, due, deaths, receives FROM messages WHERE {_MINE}"
#: What nothing keeps parked any more.
_FREE = (
    "SELECT id FROM parked WHERE NOT EXISTS (SELECT 1 FROM documents"
    " WHERE kind IN ('eventsubscriptions', 'endpointhealth')"
    " AND partition = topic AND name = subscription AND documents.pause = parked.pause)"
    " OR NOT EXISTS (SELECT 1 FROM documents WHERE kind = 'eventsubscriptions'"
    " AND partition = topic AND name = subscription) ORDER BY id"
)


class SqlReceipt(NamedTuple):
    """What is known of a message in hand."""

    number: int
    run: int  # as which it was taken
    due: datetime
    deaths: int = 0
    has_rows: bool = True  # rows that name it, beside its own


class _Hand:
    """The messages of a queue in hand, and when the next is due that is in the table alone."""

    def __init__(self) -> None:
        self.ready: deque[Lease] = deque()  # due, and not handed over yet
        self.ahead: list[tuple[datetime, int, Lease]] = []  # a heap
        self.out: set[tuple[int, int]] = set()  # numbers and runs of what was handed over
        self.doubtful: list[int] = []  # numbers of messages that may be in it: nobody knows
        self.reserved = 0  # for messages that are being stored or claimed
        self.next_due: datetime | None = moment(0)  # at a start something may be
        self.news = asyncio.Event()
        self.floor = 0  # in microseconds: what was due before was claimed, or is others'
        self.all_at = 0.0  # by the loop's clock: when that is looked at, too
        self.look_at = math.inf  # by the loop's clock: when others may have stored something
        self.has_to_look = False  # for that

    @property
    def room(self) -> int:
        return ROOM - len(self.ready) - len(self.ahead) - len(self.out) - self.reserved

    @property
    def is_worth_a_claim(self) -> bool:
        """Whether there is room for more than a message or two."""
        return self.room >= _BATCH or not (self.ready or self.ahead or self.out)

    @property
    def numbers(self) -> list[int]:
        leases = [*self.ready, *(lease for _, _, lease in self.ahead)]
        out = (number for number, _ in self.out)
        return [*out, *(receipt_of(each).number for each in leases), *self.doubtful]

    def doubt(self, numbers: Iterable[int]) -> None:
        """Note messages that a transaction of unknown outcome has taken."""
        self.doubtful = [*dict.fromkeys([*self.doubtful, *numbers])]

    def note(self, due: datetime) -> None:
        """Note that a message in the table alone is due then."""
        self.next_due = due if self.next_due is None else min(due, self.next_due)
        self.floor = min(self.floor, micros(due))
        self.news.set()

    def begin_claim(self, until: datetime) -> int:
        """Return from when on to read what is due until then; what is noted now comes next."""
        if self.all_at <= loop_time():
            self.floor, self.all_at = 0, loop_time() + _ALL_SECONDS
        floor, self.floor = self.floor, micros(until) + 1
        return floor


class SqlLeases:
    """
    Leases of this process, on its event loop.

    *give_up* is called on *threads*. Where others store what is due, or die, the table is looked at
    *look_every* so many seconds, from where the last look has ended. So what is in nobody's hand is
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
        self._hands = {queue: _Hand() for queue in HANDED}
        self._order = count()
        self._looks_for_suspects = True  # there may be such messages
        self._found: list[Lease] = []  # the next of them, in hand and not handed over
        self._doubtful: list[int] = []  # numbers of those that may be: nobody knows
        self._suspects: set[int] = set()  # the messages that nothing else runs beside
        self._together = 1  # so many of them run: twice as many after each time that it survived
        self._survived_at = 0.0  # by the loop's time
        self._looking = asyncio.Lock()
        self._is_over = asyncio.Event()  # set when they are out of hand
        self._is_open = True
        self._loop: asyncio.AbstractEventLoop | None = None  # once something is claimed

    # ── What the sender says ──

    def reserve(self, queue: Queue, many: int) -> int:
        """
        Return for how many of *many* new messages there is room, which is kept for them.

        None while others are due in the table: they were there before.
        """
        hand = self._hands.get(queue)
        if hand is None or not self._is_open or self._is_behind(hand, timedelta()):
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

    def may_be_free(self) -> None:
        """Look for what is not parked any more; from any thread."""
        self._on_loop(partial(self._hands[Queue.RETRIES].note, self._now()))

    # ── What the database says, from any thread ──

    def numbers_in_hand(self) -> Collection[int]:
        """Return the numbers of what is in hand, once all is that was stored so far."""
        found: Future[Collection[int]] = Future()
        self._on_loop(lambda: found.set_result(self._numbers()))
        with suppress(TimeoutError):
            return self._result(found, _LOOP_SECONDS)
        return ()  # The loop waits for the database, or is over: nobody goes on with what it has.

    def lose(self) -> None:
        """Have nothing in hand any more: others may have it, also what was handed over."""
        self._on_loop(self._lose)

    def look_for_the_dead(self) -> None:
        """Claim what a process had in hand that is dead."""
        self._on_loop(self._look_anew)

    # ── Leases ──

    async def claim(self, queue: Queue, most: int) -> Sequence[Lease]:
        hand, self._loop = self._hands[queue], asyncio.get_running_loop()
        while True:
            hand.news.clear()
            if not self._database.has_lease:
                await asyncio.sleep(_LEASE_SECONDS)
                continue
            if hand.look_at <= loop_time():
                hand.look_at = loop_time() + self._look_every
                hand.has_to_look = True
            if self._looks_for_suspects:
                if leases := await self._next_suspects(most):
                    return leases
                continue
            if leases := self._due(hand, most):
                return leases
            if self._wants_a_claim(hand) and hand.is_worth_a_claim:
                await self._fill(queue, hand)
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(self._wait(hand)):
                    await hand.news.wait()

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
            rows = writing.rows(f"{columns} WHERE {_MINE} RETURNING receives, body", *mine)
            if rows and rows[0][0] >= MOST_FAILURES:
                text = open_text(rows[0][1].decode(), open_keys(writing, number))
                return lease._replace(body=text.encode())
            put = "UPDATE messages SET run = 0, due = ?, receipt = receipt + 1"
            if writing.run(f"{put} WHERE {_MINE}", micros(due), *mine):
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
        numbers = [each for each in self._numbers() if each not in out]
        self._forget()
        await self._let_go(numbers)

    async def close(self) -> None:
        self._is_open = False
        await self._let_go(self._numbers())

    async def _let_go(self, numbers: Collection[int]) -> None:
        put = "UPDATE messages SET run = 0, receipt = receipt + 1"
        due = micros(self._now()) + self._for_others
        put += f", due = CASE WHEN due < ? THEN ? ELSE due END WHERE {_MINE}"

        def write(writing: WriteTransaction) -> None:
            for number in numbers:
                if writing.run(put, due, due, number, self._database.run):
                    put_down(writing, number)

        await self._database.write_on_loop(write)

    # ── Parts of the above ──

    def _on_loop(self, call: Callable[[], object]) -> None:
        if self._loop:
            with suppress(RuntimeError):  # The loop has been closed.
                self._loop.call_soon_threadsafe(call)

    def _numbers(self) -> list[int]:
        numbers = [number for hand in self._hands.values() for number in hand.numbers]
        return [*numbers, *(receipt_of(each).number for each in self._found), *self._doubtful]

    def _lose(self) -> None:
        self.lost()
        self._forget()
        self._look_anew()

    def _forget(self) -> None:
        """Have nothing in hand but what was handed over."""
        self._found = []
        for hand in self._hands.values():
            hand.ready.clear()
            hand.ahead.clear()

    def _look_anew(self) -> None:
        self._looks_for_suspects = True
        for hand in self._hands.values():
            hand.all_at = 0.0
            hand.note(self._now())

    def _wants_a_claim(self, hand: _Hand) -> bool:
        """Tell whether to look at the table; a look for what others may have stored is no news."""
        return hand.has_to_look or self._is_behind(hand)

    def _is_behind(self, hand: _Hand, ahead: timedelta = _AT_LEAST) -> bool:
        """Tell whether something in the table alone is due, or will be within *ahead*."""
        return hand.next_due is not None and hand.next_due - ahead <= self._now()

    def _now(self) -> datetime:
        return self._clock.now()

    def _due(self, hand: _Hand, most: int) -> list[Lease]:
        """Take what is due out of the hand, in order."""
        now = self._now()
        while hand.ahead and hand.ahead[0][0] <= now:
            hand.ready.append(heapq.heappop(hand.ahead)[-1])
        leases = [hand.ready.popleft() for _ in range(min(most, len(hand.ready)))]
        hand.out.update(receipt_of(each)[:2] for each in leases)
        return leases

    def _wait(self, hand: _Hand) -> float:
        """Return for how many seconds nothing is to be done, but for news."""
        moments = [due for due, *_ in hand.ahead[:1]]
        if hand.next_due is not None and not self._is_behind(hand):
            moments.append(hand.next_due - _AT_LEAST)
        waits = [(each - self._now()).total_seconds() for each in moments]
        return max(0.0, min([*waits, hand.look_at - loop_time(), _LOOK_SECONDS]))

    async def _fill(self, queue: Queue, hand: _Hand) -> None:
        """
        Claim from the table what is due, and first what a process had that has died.

        The rows of what was claimed before are not read again: as long as somebody has a snapshot
        of before, they can't be removed.
        """
        most = min(_BATCH, hand.room)
        doubtful = hand.doubtful[:most]
        now = self._now()
        until = now + AHEAD
        floor = hand.begin_claim(until)
        taken: list[int] = []

        def write(writing: WriteTransaction) -> tuple[list[Lease], int, datetime | None]:
            run, words = self._database.run, writing.dialect
            rows = [row for each in doubtful for row in writing.rows(_IN_HAND, each, run)]
            left = run, run, queue.value, DEATHS_TOGETHER - 1, most - len(rows)
            rows += writing.rows(_CLAIM.format(words.left), *left)
            read_to = floor
            if some := most - len(rows):
                due = queue.value, floor, micros(until), some
                found = writing.rows(_CLAIM.format(_DUE + words.skipping), run, *due)
                rows += found
                is_cut = len(found) == some
                read_to = max(row[3] for row in found) if is_cut else micros(until) + 1
            if queue is Queue.RETRIES:
                rows += self._claim_freed(writing, most - len(rows), micros(now))
            is_all = len(rows) < most
            taken[:] = [row[0] for row in rows]
            rows = _merge(writing, [_open(writing, row) for row in rows], run)
            leases = [_lease(row, run) for row in rows]
            return leases, read_to, _next_due(writing, queue, read_to) if is_all else now

        def then(claimed: tuple[list[Lease], int, datetime | None] | None) -> None:
            # In the order of the commits: what is put later is noted later.
            hand.reserved -= most
            if claimed is None:
                hand.doubt(taken)
                hand.floor = min(hand.floor, floor)
            else:
                known = {*doubtful, *taken}  # taken: also one that was not looked at
                hand.doubtful = [each for each in hand.doubtful if each not in known]
                leases, read_to, hand.next_due = claimed
                hand.floor = min(hand.floor, read_to)
                for lease in leases:
                    heapq.heappush(hand.ahead, (receipt_of(lease).due, next(self._order), lease))

        hand.reserved += most
        hand.has_to_look, hand.look_at = False, loop_time() + self._look_every
        await self._database.write_on_loop(write, then=then, claims=taken)

    def _claim_freed(self, writing: WriteTransaction, most: int, now: int) -> list[Row]:
        """Claim what was parked for a pause or hold that is over, or whose subscription is gone."""
        rows: list[Row] = []
        for (parked,) in writing.rows(_FREE):
            left = most - len(rows)
            some = _CLAIM.format(_FREED + writing.dialect.skipping)
            freed = writing.rows(some, self._database.run, parked, left)
            writing.run_all(
                "UPDATE messages SET due = ? WHERE id = ?", [(now, row[0]) for row in freed]
            )
            rows += [(*row[:3], now, *row[4:]) for row in freed]
            if len(freed) == left:
                break
            # Locked first: who parks meanwhile is seen then, and not waited for.
            own = f"SELECT id FROM parked WHERE id = ?{writing.dialect.skipping}"
            if writing.rows(own, parked):
                writing.run(
                    "DELETE FROM parked WHERE id = ?"
                    " AND NOT EXISTS (SELECT 1 FROM messages WHERE parked = parked.id)",
                    parked,
                )
        return rows

    async def _next_suspects(self, most: int) -> list[Lease]:
        """Take messages that may have ended processes, before anything else is in hand."""
        now = asyncio.get_running_loop().time
        async with self._looking:
            if not self._looks_for_suspects:
                return []
            if not self._suspects or now() >= self._survived_at:
                await self._acquit()
                return await self._take_suspects(most)
        with suppress(TimeoutError):
            async with asyncio.timeout_at(self._survived_at):
                await self._is_over.wait()
        return []

    async def _acquit(self) -> None:
        """Let what did not end this process have no deaths any more: it is slow."""
        if slow := [(number, self._database.run) for number in self._suspects]:
            statement = f"UPDATE messages SET deaths = 0 WHERE {_MINE}"
            await self._database.write_on_loop(lambda writing: writing.run_all(statement, slow))
            self._suspects.clear()

    async def _take_suspects(self, most: int) -> list[Lease]:
        if not self._found:
            await self._find_suspects(min(self._together, most))
        if not self._found:
            self._looks_for_suspects = False
            return []
        if receipt_of(self._found[0]).deaths >= DEATHS:
            why = f"{DEATHS} processes have ended while it was delivered"
            await self._end_as_poison(self._found[0], why)
            self._found = []
            return []
        found, self._found = self._found, []
        self._together = min(2 * self._together, _BATCH)
        self._survived_at = asyncio.get_running_loop().time() + SUSPECT_SECONDS
        self._is_over.clear()
        for each in found:
            receipt = receipt_of(each)
            self._suspects.add(receipt.number)
            self._hands[each.queue].out.add(receipt[:2])
        return found

    async def _find_suspects(self, most: int) -> None:
        """Find one that has ended a process as a suspect, which runs alone; or else *most*."""
        doubtful = self._doubtful
        taken: list[int] = []

        def then(leases: list[Lease] | None) -> None:
            self._found = leases or []
            self._doubtful = [] if leases is not None else taken or doubtful

        def write(writing: WriteTransaction) -> list[Lease]:
            claim, run = _CLAIM.format(writing.dialect.suspects), self._database.run
            deaths = DEATHS_TOGETHER
            rows = [row for each in doubtful for row in writing.rows(_IN_HAND, each, run)]
            rows = rows or writing.rows(claim, run, run, deaths, deaths + 1, 1)
            rows = rows or writing.rows(claim, run, run, deaths - 1, deaths, most)
            taken[:] = [row[0] for row in rows]
            return [_lease(_open(writing, row), run) for row in rows]

        await self._database.write_on_loop(write, then=then, claims=taken)

    def has_ended(self, lease: Lease) -> None:
        """Note that a message is out of hand."""
        receipt = receipt_of(lease)
        hand = self._hands[lease.queue]
        hand.out.discard(receipt[:2])
        self._suspects.discard(receipt.number)
        if not self._suspects:
            self._is_over.set()
        if self._wants_a_claim(hand):
            hand.news.set()


def _next_due(reading: ReadTransaction, queue: Queue, floor: int) -> datetime | None:
    wanted = "SELECT MIN(due) FROM messages WHERE run = 0 AND queue = ? AND due BETWEEN ? AND ?"
    ((due,),) = reading.rows(wanted, queue.value, floor, NEVER - 1)
    return None if due is None else moment(due)


def _merge(writing: WriteTransaction, rows: Sequence[Row], run: int) -> list[Row]:
    """
    Merge claimed messages of the same subscriptions: they are due within a second.

    Those that have failed, or ended a process, stay alone.
    """
    alike: dict[object, list[Row]] = defaultdict(list)
    found = []
    for row in rows:
        _, _, body, _, deaths, receives = row
        outline = outline_of(body.decode())
        if outline.parts and not deaths and not receives:
            alike[frozenset(each[:2] for each in outline.parts)].append(row)
        else:
            found.append(row)
    for group in alike.values():
        found += _merge_alike(writing, group, run)
    return found


def _merge_alike(writing: WriteTransaction, rows: Sequence[Row], run: int) -> list[Row]:
    """Merge messages of the same names, if they have the same parts otherwise."""
    if len(rows) == 1:
        return [*rows]
    by_headers: dict[object, list[tuple[Row, Sequence[MessagePart]]]] = defaultdict(list)
    for row, parts in zip(rows, without_copies([parts_of(row[2]) for row in rows]), strict=True):
        by_headers[headers_of(parts)].append((row, parts))
    found = []
    for group in by_headers.values():
        due = max(row[3] for row, _ in group)
        together = [replace(each, due=moment(due)) for each in merged(parts for _, parts in group)]
        texts = [text for _, text in encode_together(together, SQL.message_size)]
        if len(texts) >= len(group):
            found += [row for row, _ in group]
            continue
        for (row, _), text in zip(group, texts, strict=False):
            rewrite(writing, message_of(row[0], text, due))
            found.append((*row[:2], text.encode(), due, *row[4:]))
        for row, _ in group[len(texts) :]:
            delete_in_hand(writing, row[0], run)
    return found


def _open(writing: WriteTransaction, row: Row) -> Row:
    """Return a claimed row with the text of what is not settled: a process may have died midway."""
    number, queue, body, *others = row
    text = open_text(body.decode(), open_keys(writing, number))
    return (number, queue, text.encode(), *others)


def receipt_of(lease: Lease) -> SqlReceipt:
    assert isinstance(lease.receipt, SqlReceipt)  # noqa: S101 - it is ours
    return lease.receipt


def _lease(row: Row, run: int) -> Lease:
    number, queue, body, due, deaths, _ = row
    return Lease(Queue(queue), body, SqlReceipt(number, run, moment(due), deaths))
