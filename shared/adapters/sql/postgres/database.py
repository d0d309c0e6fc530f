"""A database of PostgreSQL's, as a process that others may take over from."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from functools import partial
from secrets import randbits
from typing import Any, NamedTuple, TypeVar

import psycopg

from shared import VERSION, telemetry
from shared.adapters.sql.database import (
    Catalogue,
    ReadTransaction,
    StoreRefused,
    Write,
    moment,
    new_id,
)
from shared.adapters.sql.dialects import NUMBER_BITS, POSTGRESQL
from shared.adapters.sql.messages import numbers_of
from shared.adapters.sql.migrations import LATEST, migrations
from shared.adapters.sql.postgres import schema as schema_
from shared.adapters.sql.postgres.connecting import (
    SCHEMA,
    Connecting,
    check,
    cut,
)
from shared.adapters.sql.postgres.transaction import MICROS, Process, Transaction
from shared.adapters.sql.postgres.writer import GroupWrite, Own, PostgresWriter, is_lost
from shared.engine.ports import Threads
from shared.engine.ports.measures import StoreMeasure
from shared.errors import StorageUnavailable

T = TypeVar("T")
LEASE_SECONDS = 30.0  # this process's own, from the sending of a renewal
DEAD_SECONDS = 45.0  # of successful reads of a row that stays as it is
RENEWED_EVERY, OBSERVED_EVERY = 10.0, 5.0
_MISSED = 3  # reads: who has not looked for so long has seen nothing
_READERS = 2
_READER_WAIT = 5.0  # for one that is free
_HANGS_AFTER = 15.0
_AGAIN_SECONDS = 1.0  # after a failure
_MIGRATION_LOCK_MS = 60_000
_FORGOTTEN_AFTER = 24 * 3600 * 1_000_000  # microseconds after a judgement
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # goes on while suspended


def boottime() -> float:
    return time.clock_gettime(_CLOCK)


class DatabaseTime:
    """
    The time of the database, as it was told, and what has passed since by *elapsed* (seconds).

    So that the servers' own clocks may differ by hours.
    """

    def __init__(self, elapsed: Callable[[], float]) -> None:
        self._elapsed = elapsed
        self._told = 0, 0.0  # microseconds since 1970, and when

    is_trusted = True

    def tell(self, micros: int) -> None:
        self._told = micros, self._elapsed()

    def now(self) -> datetime:
        micros, at = self._told
        return moment(micros) + timedelta(seconds=self._elapsed() - at)


class Seen(NamedTuple):
    """What was read of a process's row."""

    number: int
    renewals: int
    dead: bool
    start: int


class PostgresDatabase:
    """
    Database in a *schema* of PostgreSQL's, as a new process, until `close`.

    *told* gets the time of the database, with how many seconds it took to ask. `in_hand` and `lost`
    are those of `PostgresWriter`; `may_be_free` is called when another process is found dead. All
    are called from threads, once it has begun. *draw* and *new_id* are those of `PostgresWriter`.

    Raises:
        StoreRefused: it can't be used; the message says what to do.
    """

    dialect = POSTGRESQL

    def __init__(  # noqa: PLR0913 - this is all, and each by its name
        self,
        connecting: Connecting,
        threads: Threads,
        *,
        schema: str = SCHEMA,
        allows_async: bool = False,
        told: Callable[[datetime, float], object] = lambda _, __: None,
        boottime: Callable[[], float] = boottime,
        draw: Callable[[int], int] = randbits,
        new_id: Callable[[], str] = new_id,
    ) -> None:
        self._connecting = connecting
        self._threads = threads
        self._schema = schema
        self._told = told
        self._boottime = boottime
        self.in_hand: Callable[[], Collection[int]] = tuple
        self.lost: Callable[[], object] = lambda: None
        self.may_be_free: Callable[[], object] = lambda: None
        self._readers: list[psycopg.Connection[Any]] = []
        self._keeper: psycopg.Connection[Any] | None = None  # of `apart`
        self._keeping = threads.lock()
        self._waiting: dict[int, tuple[psycopg.Connection[Any], float]] = {}  # for an answer
        self._readings = _Turns(threads, _READERS)
        self._lock = threads.lock()
        self._seen: dict[int, tuple[Seen, float]] = {}  # and since when a row is as it is
        self._seen_at = 0.0
        self._dead: set[int] = set()
        self.takeovers = 0
        self.time = DatabaseTime(boottime)
        try:
            with connecting.open() as connection:
                if doubtful := check(connection, allows_async=allows_async):
                    telemetry.warning("storage.unsafe", detail=doubtful)
                self.time.tell(connection.execute(f"SELECT {MICROS}".encode()).fetchall()[0][0])
                self._migrate(connection)
        except psycopg.Error as error:
            raise connecting.refusal(error) from None
        self._writer = PostgresWriter(
            connecting,
            schema,
            threads,
            boottime=boottime,
            in_hand=lambda: self.in_hand(),  # noqa: PLW0108 - it is set later
            lost=self._lose,
            draw=draw,
            new_id=new_id,
        )
        self.numbers = _Numbers(self._writer.own.process.start)
        self._ending: Future[None] = Future()
        self._work: list[Future[None]] = []  # done once it has ended
        self.observe()

    # ── Database ──

    @property
    def run(self) -> int:
        return self._writer.own.process.run

    def run_of(self, taken: int) -> int:
        return self.run if taken >> NUMBER_BITS == self._writer.own.process.id else -1

    def write(
        self, write: Write[T], *, grows: bool = False, catalogue: Catalogue = Catalogue.FREE
    ) -> T:
        del grows  # The database's own disk is looked after by others.
        call: Write[T] = GroupWrite(call=write, catalogue=catalogue)
        return self._writer.write(call)

    async def write_on_loop(  # noqa: PLR0913 - this is all, and each by its name
        self,
        write: Write[T],
        *,
        grows: bool = False,
        then: Callable[[T | None], object] = lambda _: None,
        births: Collection[int] = (),
        claims: Collection[int] = (),
        catalogue: Catalogue = Catalogue.FREE,
    ) -> T:
        del grows
        call: Write[T] = GroupWrite(call=write, births=births, claims=claims, catalogue=catalogue)
        try:
            result = self._writer.write_on_loop(call, then)
        except StorageUnavailable:
            then(None)
            raise
        return await result

    def read(self, read: Callable[[ReadTransaction], T]) -> T:
        with self._reader() as connection:
            return _read(connection, self._schema, read)

    # ── Processes ──

    @property
    def has_lease(self) -> bool:
        """Whether nobody else may have what is in hand: by time since a renewal was sent."""
        return self._boottime() - self._writer.own.renewed_at < LEASE_SECONDS

    @property
    def is_new(self) -> bool:
        """Whether this was the first process of all that it ever had."""
        return self._writer.own.process.start == 1

    @property
    def is_elected(self) -> bool:
        """Whether this is the oldest process that is not dead."""
        alive = [seen.start for seen, _ in self._seen.values() if not seen.dead]
        return self.has_lease and bool(alive) and self._writer.own.process.start == min(alive)

    def renew(self) -> None:
        """Tell the others that this process lives; no commit that takes long is waited for."""
        own, sent = self._writer.own, self._boottime()
        renewal = "UPDATE processes SET renewals = renewals + 1 WHERE id = ?"
        returned = f"{renewal} RETURNING {MICROS}, renewals"
        try:
            ((now, renewals),) = self.apart(
                lambda transaction: transaction.rows(returned, own.process.id), own.process
            )
        except StorageUnavailable as error:
            if is_lost(error.__cause__):
                self._begin_anew(own)
            raise
        if renewals <= own.renewals:
            self._begin_anew(own)
            return
        self._writer.renewed(own._replace(renewals=renewals, renewed_at=sent))
        self.time.tell(now)
        self._told(moment(now), self._boottime() - sent)

    def _begin_anew(self, own: Own) -> None:
        if self._writer.lose(own):
            self.write(lambda _: None)

    def observe(self) -> None:
        """Look who lives; mark as dead who has not renewed for long enough, by our own clock."""
        rows = "SELECT id, number, renewals, dead, start FROM processes"
        try:
            found = self.read(lambda reading: reading.rows(rows))
        except StorageUnavailable:
            self._seen = {}  # An outage makes nobody dead.
            raise
        now, before = self._boottime(), self._seen
        if now - self._seen_at > _MISSED * OBSERVED_EVERY:
            before = {}  # It was stopped or suspended, and perhaps all others with it.
        seen = {}
        for id_, *values in found:
            known = before.get(id_)
            of = Seen(*values)
            seen[id_] = known if known and known[0] == of else (of, now)
        self._seen, self._seen_at = seen, now
        dead = {id_ for id_, (of, _) in seen.items() if of.dead}
        if dead - self._dead:
            self.may_be_free()
        self._dead = dead
        for id_, (of, since) in seen.items():
            if not of.dead and now - since >= DEAD_SECONDS and id_ != self._writer.own.process.id:
                self._judge(id_, of)

    def end_process(self) -> None:
        """Tell the others that this process is no more, once it has handed back what it had."""
        ended = f"UPDATE processes SET dead = TRUE, judged = {MICROS} WHERE id = ?"
        self.write(lambda writing: writing.run(ended, self._writer.own.process.id))

    def forget_processes(self) -> int:
        """Delete the rows of processes that were judged a day ago, and have nothing left."""
        old = (
            f"DELETE FROM processes WHERE dead AND judged < {MICROS} - ? AND NOT EXISTS ("
            f"SELECT 1 FROM messages WHERE run BETWEEN processes.id << {NUMBER_BITS}"
            f" AND (processes.id + 1) << {NUMBER_BITS})"
        )
        return self.write(lambda writing: writing.run(old, _FORGOTTEN_AFTER))

    def _judge(self, id_: int, seen: Seen) -> None:
        """Mark a process as dead, unless its row has changed; what it has is free by that."""
        judged = (
            f"UPDATE processes SET dead = TRUE, judged = {MICROS}"
            " WHERE id = ? AND number = ? AND renewals = ? AND NOT dead"
        )

        def judge(transaction: Transaction) -> int:
            transaction.exclude(id_)
            return transaction.run(judged, id_, seen.number, seen.renewals)

        if self.apart(judge):
            self.takeovers += 1
            telemetry.warning("process.judged_dead", process=id_)
            self.may_be_free()

    def apart(self, call: Callable[[Transaction], T], process: Process | None = None) -> T:
        """
        Return what *call* returns in a transaction of its own, on a connection beside the writer's.

        If it holds no *process*, it may wait for a lock that others hold.

        Raises:
            StorageUnavailable: it may or may not be stored.
        """
        with self._keeping:
            try:
                kept, self._keeper = self._keeper, None
                connection = kept if kept and _answers(kept) else self._connecting.open()
                with self._watched(connection):
                    transaction = Transaction(connection, self._schema)
                    if process:
                        transaction.begin(process)
                    else:
                        transaction.begin_without()
                    result = call(transaction)
                    transaction.execute("COMMIT")
            except psycopg.Error as error:
                telemetry.warning("storage.failed", error=type(error).__name__, detail=str(error))
                raise StorageUnavailable from error
            self._keeper = connection
        return result

    def _lose(self) -> None:
        telemetry.warning("process.begun_anew", process=self._writer.own.process.id)
        self.numbers.begin(self._writer.own.process.start)
        self.lost()

    # ── Operating ──

    @property
    def fault(self) -> str:
        """Why nothing may be stored now; empty: the last transaction was."""
        return self._writer.fault

    @property
    def commit_time(self) -> tuple[int, float]:
        """How many commits there were, and how many seconds they took."""
        return self._writer.commits, self._writer.commit_seconds

    def measures(self) -> list[StoreMeasure]:
        """Return figures of its tables, and of the processes."""
        wanted = (
            "SELECT CAST(COALESCE(SUM(pg_total_relation_size(relid)), 0) AS BIGINT),"
            " CAST(COALESCE(SUM(n_dead_tup), 0) AS BIGINT) FROM pg_stat_user_tables"
            " WHERE schemaname = ?"
        )
        ((size, dead),) = self.read(lambda reading: reading.rows(wanted, self._schema))
        alive = sum(not seen.dead for seen, _ in self._seen.values())
        return [
            StoreMeasure("bytes", "Size of the tables.", size),
            StoreMeasure("dead_rows", "Rows that are to be vacuumed.", dead),
            StoreMeasure("processes", "Servers that live.", alive),
            StoreMeasure(
                "lease_age_seconds",
                f"Since this server said that it lives; from {LEASE_SECONDS:.0f} on it pushes "
                "nothing.",
                self._boottime() - self._writer.own.renewed_at,
            ),
            StoreMeasure(
                "takeovers_total",
                "Servers that this one has found dead.",
                self.takeovers,
                only_rises=True,
            ),
        ]

    def close(self) -> None:
        """Store what was asked for, and end."""
        self._ending.set_result(None)
        for each in self._work:
            self._threads.result(each)
        self._writer.close()
        for connection in filter(None, [*self._readers, self._keeper]):
            connection.close()

    def begin(self) -> None:
        """Begin to renew, and to look after others."""
        for period, call in (
            (RENEWED_EVERY, self.renew),
            (OBSERVED_EVERY, self.observe),
            (1.0, self._cut_what_hangs),
        ):
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
                telemetry.error("storage.failed", error="process", detail=str(error))
        ended.set_result(None)

    def _ends_within(self, seconds: float) -> bool:
        with suppress(TimeoutError):
            self._threads.result(self._ending, seconds)
        return self._ending.done()

    def _cut_what_hangs(self) -> None:
        """End connections that have got no answer for long: the server, or the way to it, hangs."""
        began, limit = self._writer.busy_since, self._threads.monotonic() - _HANGS_AFTER
        if began is not None and began < limit and (connection := self._writer.connection):
            cut(connection)
        with self._lock:
            hung = [each for each, at in self._waiting.values() if at < limit]
        for each in hung:
            cut(each)

    @contextmanager
    def _reader(self) -> Iterator[psycopg.Connection[Any]]:
        """
        Give a connection that reads, and keep it if nothing fails.

        Raises:
            StorageUnavailable: there is none, or it has failed.
        """
        self._readings.take(_READER_WAIT)
        try:
            connection = self._take_reader()
            with self._watched(connection):
                yield connection
            with self._lock:
                self._readers.append(connection)
        except psycopg.Error as error:
            telemetry.error("storage.failed", error=type(error).__name__, detail=str(error))
            raise StorageUnavailable from error
        finally:
            self._readings.give_back()

    @contextmanager
    def _watched(self, connection: psycopg.Connection[Any]) -> Iterator[None]:
        """Have a connection cut that hangs, and close it if something fails."""
        with self._lock:
            self._waiting[id(connection)] = connection, self._threads.monotonic()
        try:
            yield
        except BaseException:
            with suppress(psycopg.Error):
                connection.close()
            raise
        finally:
            with self._lock:
                self._waiting.pop(id(connection), None)

    def _take_reader(self) -> psycopg.Connection[Any]:
        """Return a connection that answers."""
        while True:
            with self._lock:
                connection = self._readers.pop() if self._readers else None
            if connection is None:
                return self._connecting.open()
            if _answers(connection):
                return connection

    def _migrate(self, connection: psycopg.Connection[Any]) -> None:
        """
        Bring the schema up to date; keep one that is newer.

        Raises:
            StoreRefused: it is of a program that this one is too old for.
        """
        transaction = Transaction(connection, self._schema)
        transaction.begin_without()
        transaction.execute(f"SET LOCAL lock_timeout = {_MIGRATION_LOCK_MS}")
        transaction.lock_catalogue(Catalogue.EXCLUSIVE)
        name = self._schema
        if not transaction.rows("SELECT 1 FROM pg_namespace WHERE nspname = ?", name):
            transaction.execute(f'CREATE SCHEMA "{name}"')
        number, oldest, program = 0, 0, ""
        if transaction.rows("SELECT to_regclass('migrations')") != [(None,)]:
            latest = "SELECT number, oldest, program FROM migrations ORDER BY number DESC LIMIT 1"
            ((number, oldest, program),) = transaction.rows(latest)
        if oldest > LATEST:
            raise StoreRefused(
                f"The database {self._connecting.place} was last used by a newer Pushgrid, and its "
                f"schema can't be used by this one ({VERSION}): it takes Pushgrid {program} or "
                f"newer (schema {oldest}). Install that."
            )
        for each in migrations("postgresql"):
            if each.number > number:
                for statement in (*each.statements, *schema_.STATEMENTS.get(each.number, ())):
                    transaction.execute(statement)
                transaction.run(
                    "INSERT INTO migrations (number, oldest, program) VALUES (?, ?, ?)",
                    *(each.number, each.oldest, each.program),
                )
        transaction.execute("COMMIT")


def _answers(connection: psycopg.Connection[Any]) -> bool:
    """Tell whether a connection can be used; else it is closed."""
    try:
        connection.execute("SELECT 1")
    except psycopg.Error:
        connection.close()
        return False
    return True


@contextmanager
def reading(connecting: Connecting) -> Iterator[Callable[[Callable[[ReadTransaction], T]], T]]:
    """
    Give what reads the database, whose servers may run, without being one of them.

    Raises:
        StoreRefused: there is no store, or it can't be read.
    """
    try:
        with connecting.open() as connection:
            yield partial(_read, connection, SCHEMA)
    except psycopg.Error as error:
        raise connecting.refusal(error) from None


def _read(
    connection: psycopg.Connection[Any], schema: str, read: Callable[[ReadTransaction], T]
) -> T:
    transaction = Transaction(connection, schema)
    transaction.begin_reading()
    result = read(transaction)
    transaction.execute("COMMIT")
    return result


class _Numbers:
    """The numbers of messages: of the latest start."""

    def __init__(self, start: int) -> None:
        self._numbers = numbers_of(start)

    def begin(self, start: int) -> None:
        self._numbers = numbers_of(start)

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        return next(self._numbers)


class _Turns:
    """Lets so many threads at a time read."""

    def __init__(self, threads: Threads, many: int) -> None:
        self._result, self._lock, self._free = threads.result, threads.lock(), many
        self._waiting: deque[Future[None]] = deque()

    def take(self, seconds: float) -> None:
        """
        Wait for a turn.

        Raises:
            StorageUnavailable: there is none after *seconds*.
        """
        turn: Future[None] = Future()
        with self._lock:
            self._waiting.append(turn)
            self._hand_out()
        try:
            self._result(turn, seconds)
        except TimeoutError:
            with self._lock:
                if turn.done():  # at this very moment
                    return
                self._waiting.remove(turn)
            raise StorageUnavailable("all connections are in use") from None

    def give_back(self) -> None:
        with self._lock:
            self._free += 1
            self._hand_out()

    def _hand_out(self) -> None:
        while self._free and self._waiting:
            self._free -= 1
            self._waiting.popleft().set_result(None)
