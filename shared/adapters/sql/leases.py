"""
Hands messages to this process. The lock of the folder is their lease: no renewal, no clock.

A message in hand has the number of the run. A lower one is that of a process that has died, so it
is free by definition, and its death is counted when it is claimed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from shared.adapters.sql.database import Database, Reading, Row, Writing, micros, moment
from shared.adapters.sql.messages import delete_rows, put_down
from shared.clock import Clock
from shared.engine.ports import Lease, Queue

#: Queues whose messages are handed over, and where those go that fail too often.
HANDED = {Queue.RETRIES: Queue.RETRIES_POISON, Queue.DELIVERIES: Queue.DELIVERIES_POISON}
DEATHS_TOGETHER = 3  # from then on it runs alone
MOST_FAILURES = 20  # as on Azure
_CLAIM = (
    "UPDATE messages SET run = ?, receipt = receipt + 1, deaths = deaths + ? WHERE id IN"
    " (SELECT id FROM messages WHERE {} LIMIT ?) RETURNING id, queue, body, due, deaths"
)
_LEFT = "run > 0 AND run < ? AND deaths {} ? ORDER BY id"
_DUE = "run = 0 AND queue = ? AND due <= ? AND deaths {} ? ORDER BY due, id"


class SqlLeases:
    """Leases of the process whose number is *run*, on its event loop."""

    def __init__(self, database: Database, run: int, clock: Clock) -> None:
        self.run = run
        self._database = database
        self._clock = clock
        self._take: Callable[[Lease], object] | None = None
        self._later: Callable[[datetime], object] = lambda _: None
        self._room = 0
        self._in_hand: Counter[Queue] = Counter()

    def attach(
        self, take: Callable[[Lease], object], room: int, later: Callable[[datetime], object]
    ) -> None:
        self._take, self._room, self._later = take, room, later

    def detach(self) -> None:
        self._room = 0

    # ── What the sender says ──

    def reserve(self, queue: Queue, count: int) -> int:
        """Return for how many of *count* new messages there is room, which is kept for them."""
        if queue not in HANDED:
            return 0
        count = max(0, min(count, self._room - self._in_hand[queue]))
        self._in_hand[queue] += count
        return count

    def born(self, queue: Queue, leases: Sequence[Lease], reserved: int) -> None:
        """Hand over what was stored of that for which room is *reserved*."""
        self._in_hand[queue] -= reserved - len(leases)
        for each in leases:
            if self._take:
                self._take(each)

    def is_due_later(self, queue: Queue, due: datetime) -> None:
        """Tell when something is due that was not handed over."""
        if queue in HANDED:
            self._later(due)

    # ── Leases ──

    async def claim(self, until: datetime) -> Sequence[Lease]:
        room = {queue: self.reserve(queue, self._room) for queue in HANDED}

        def write(writing: Writing) -> list[Row]:
            # What a process had in hand that has died is little: there was room for it there.
            left = _LEFT.format("<"), self.run, DEATHS_TOGETHER - 1
            rows = self._claim(writing, 1, sum(room.values()), *left)
            for queue in HANDED:
                most = room[queue] - sum(row[1] == queue for row in rows)
                due = _DUE.format("<"), queue.value, micros(until), DEATHS_TOGETHER
                rows += self._claim(writing, 0, max(0, most), *due)
            return rows

        leases: Sequence[Lease] = []

        def then(rows: list[Row] | None) -> None:
            nonlocal leases
            leases = [_lease(row) for row in rows or ()]
            for queue, kept in room.items():
                self._in_hand[queue] -= kept - sum(each.queue is queue for each in leases)

        await self._database.write_on_loop(write, then=then)
        return leases

    async def claim_alone(self, until: datetime) -> Lease | None:
        def write(writing: Writing) -> list[Row]:
            left = _LEFT.format(">="), self.run, DEATHS_TOGETHER - 1
            rows = self._claim(writing, 1, 1, *left)
            for queue in HANDED:
                due = _DUE.format(">="), queue.value, micros(until), DEATHS_TOGETHER
                rows += self._claim(writing, 0, 1 - len(rows), *due)
            return rows

        for row in await self._database.write_on_loop(write):
            lease = _lease(row)
            self._in_hand[lease.queue] += 1
            return lease
        return None

    async def next_due(self) -> datetime | None:
        wanted = (
            "SELECT due FROM messages WHERE run = 0 AND queue = ? AND deaths < ?"
            " ORDER BY due LIMIT 1"
        )

        def read(reading: Reading) -> list[int]:
            rows = [reading.rows(wanted, queue.value, DEATHS_TOGETHER) for queue in HANDED]
            return [due for found in rows for (due,) in found]

        due = await self._database.read_on_loop(read)
        return moment(min(due)) if due else None

    async def end(self, lease: Lease) -> bool:
        def write(writing: Writing) -> bool:
            statement = "DELETE FROM messages WHERE id = ? AND run = ?"
            ended = writing.run(statement, lease.message, self.run)
            if ended and lease.has_rows:
                delete_rows(writing, lease.message)
            return bool(ended)

        ended = await self._database.write_on_loop(write)
        self._in_hand[lease.queue] -= ended
        return ended

    async def fail(self, lease: Lease, wait: timedelta) -> None:
        due = self._clock.now() + wait

        def write(writing: Writing) -> bool:
            put = writing.run(
                "UPDATE messages SET run = 0, due = ?, receives = receives + 1, queue = CASE"
                " WHEN receives + 1 < ? THEN queue ELSE ? END WHERE id = ? AND run = ?",
                *(micros(due), MOST_FAILURES, HANDED[lease.queue].value, lease.message, self.run),
            )
            put_down(writing, lease.message)
            return bool(put)

        self._in_hand[lease.queue] -= await self._database.write_on_loop(write)
        self._later(due)

    async def give_back(self, leases: Sequence[Lease]) -> None:
        def write(writing: Writing) -> list[Queue]:
            put = []
            for each in leases:
                statement = "UPDATE messages SET run = 0 WHERE id = ? AND run = ?"
                if writing.run(statement, each.message, self.run):
                    put_down(writing, each.message)
                    put.append(each.queue)
            return put

        if leases:
            self._in_hand.subtract(await self._database.write_on_loop(write))

    def _claim(
        self, writing: Writing, deaths: int, most: int, wanted: str, *values: object
    ) -> list[Row]:
        if not most:
            return []
        return writing.rows(_CLAIM.format(wanted), self.run, deaths, *values, most)


def _lease(row: Row) -> Lease:
    number, queue, body, due, deaths = row
    return Lease(number, Queue(queue), body.decode(), moment(due), deaths)
