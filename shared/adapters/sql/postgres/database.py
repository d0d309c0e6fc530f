"""A database of PostgreSQL's, as a process that others may take over from."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future
from contextlib import suppress
from datetime import datetime
from functools import partial
from secrets import randbits
from typing import TypeVar

import psycopg

from shared import telemetry
from shared.adapters.sql.database import PLAIN, ReadTransaction, Write, WriteOptions, ignore, new_id
from shared.adapters.sql.dialects import NUMBER_BITS
from shared.adapters.sql.group_writer import GroupWriter
from shared.adapters.sql.messages import numbers_of
from shared.adapters.sql.postgres.committer import PostgresCommitter
from shared.adapters.sql.postgres.connecting import SCHEMA, Connecting, check, cut
from shared.adapters.sql.postgres.connections import PostgresConnections
from shared.adapters.sql.postgres.processes import DatabaseTime, PostgresProcesses, boottime
from shared.adapters.sql.postgres.schema import check_schema, migrate
from shared.adapters.sql.postgres.transaction import NOW_MICROS, Process
from shared.engine.ports import Threads
from shared.engine.ports.measures import StoreMeasure
from shared.errors import StorageUnavailable

T = TypeVar("T")
_HANGS_AFTER = 15.0
_AGAIN_SECONDS = 1.0  # after a failure


class PostgresDatabase:
    """
    Database in a *schema* of PostgreSQL's, as a new process, until `close`.

    *told* gets the time of the database, with how many seconds it took to ask. `in_hand` and `lost`
    are called from threads, once it has begun; they are those of `PostgresCommitter`, as *draw* and
    *new_id* are.

    Raises:
        StoreRefused: it can't be used; the message says what to do.
    """

    def __init__(  # noqa: PLR0913 - this is all, and each by its name
        self,
        connecting: Connecting,
        threads: Threads,
        *,
        schema: str = SCHEMA,
        allows_unsafe: bool = False,
        told: Callable[[datetime, float], object] = lambda _, __: None,
        boottime: Callable[[], float] = boottime,
        draw: Callable[[int], int] = randbits,
        new_id: Callable[[], str] = new_id,
    ) -> None:
        self._threads = threads
        self._schema = schema
        self.in_hand: Callable[[], Collection[int]] = tuple
        self.lost: Callable[[], object] = lambda: None
        self.connections = PostgresConnections(connecting, schema, threads)
        self.time = DatabaseTime(boottime)
        try:
            with connecting.open() as connection:
                if doubtful := check(connection, allows_unsafe=allows_unsafe):
                    telemetry.warning("storage.unsafe", detail=doubtful)
                self.time.tell(connection.execute(f"SELECT {NOW_MICROS}".encode()).fetchall()[0][0])
                migrate(connection, schema, connecting.place, threads)
                check_schema(connection, schema, connecting.place)
        except psycopg.Error as error:
            raise connecting.refusal(error) from None
        self._committer = PostgresCommitter(
            connecting,
            schema,
            threads,
            boottime=boottime,
            in_hand=lambda: self.in_hand(),  # noqa: PLW0108 - it is set later
            lost=lambda: self.lost(),  # noqa: PLW0108 - it is set later
            draw=draw,
            new_id=new_id,
        )
        self._numbers: dict[int, Iterator[int]] = {}  # of new messages, by the start
        self._writer = GroupWriter(self._committer, threads)
        self.processes = PostgresProcesses(
            self._committer,
            self._writer,
            self.connections,
            boottime=boottime,
            time=self.time,
            told=told,
        )
        self._ending: Future[None] = Future()
        self._work: list[Future[None]] = []  # done once it has ended
        self.processes.observe()

    # ── Database ──

    @property
    def run(self) -> int:
        return self._process.run

    def run_of(self, taken: int) -> int:
        return self.run if taken >> NUMBER_BITS == self._process.id else -1

    def write(self, write: Write[T], options: WriteOptions = PLAIN) -> T:
        return self._writer.write(write, options)

    async def write_on_loop(
        self,
        write: Write[T],
        options: WriteOptions = PLAIN,
        then: Callable[[T | None], object] = ignore,
    ) -> T:
        try:
            result = self._writer.write_on_loop(write, options, then)
        except StorageUnavailable:
            then(None)
            raise
        return await result

    def read(self, read: Callable[[ReadTransaction], T]) -> T:
        return self.connections.read(read)

    @property
    def has_lease(self) -> bool:
        return self.processes.has_lease

    @property
    def is_new(self) -> bool:
        """Whether this was the first process of all that it ever had."""
        return self._process.start == 1

    def next_number(self) -> int:
        """Return the number of a new message, which no other has."""
        start = self._process.start
        return next(self._numbers.setdefault(start, numbers_of(start)))

    @property
    def _process(self) -> Process:
        """As which this one is known now."""
        return self._committer.own.process

    # ── Operating ──

    @property
    def fault(self) -> str:
        return self._committer.fault or self.processes.fault

    @property
    def commit_time(self) -> tuple[int, float]:
        return self._committer.commits, self._committer.commit_seconds

    def measures(self) -> list[StoreMeasure]:
        """Return figures of its tables, and of the processes."""
        wanted = (
            "SELECT CAST(COALESCE(SUM(pg_total_relation_size(relid)), 0) AS BIGINT),"
            " CAST(COALESCE(SUM(n_dead_tup), 0) AS BIGINT) FROM pg_stat_user_tables"
            " WHERE schemaname = ?"
        )
        ((size, dead),) = self.read(lambda reading: reading.rows(wanted, self._schema))
        return [
            StoreMeasure("bytes", "Size of the tables.", size),
            StoreMeasure("dead_rows", "Rows that are to be vacuumed.", dead),
            *self.processes.measures(),
        ]

    def close(self) -> None:
        self._ending.set_result(None)
        for each in self._work:
            self._threads.result(each)
        self._writer.close()
        self.connections.close()

    def begin(self) -> None:
        """Begin to renew, and to look after others."""
        telemetry.info("process.begun", process=self._process.id)
        for period, call in (*self.processes.work, (1.0, self._cut_what_hangs)):
            self._work.append(Future())
            self._threads.begin(partial(self._keep, period, call, self._work[-1]))

    def _keep(self, period: float, call: Callable[[], object], ended: Future[None]) -> None:
        pause = period
        while not self._ends_within(pause):
            pause = period
            try:
                call()
            except StorageUnavailable as error:
                pause = min(period, _AGAIN_SECONDS)
                name = type(error.__cause__ or error).__name__
                telemetry.error("storage.failed", error=name, detail=str(error))
        ended.set_result(None)

    def _ends_within(self, seconds: float) -> bool:
        with suppress(TimeoutError):
            self._threads.result(self._ending, seconds)
        return self._ending.done()

    def _cut_what_hangs(self) -> None:
        """End connections that have got no answer for long: the server, or the way to it, hangs."""
        began, limit = self._committer.busy_since, self._threads.monotonic() - _HANGS_AFTER
        if began is not None and began < limit and (connection := self._committer.connection):
            cut(connection)
        for each in self.connections.hung(limit):
            cut(each)
