"""Databases for the tests of the SQL store."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from shared.adapters.sql.database import Row, WriteTransaction
from shared.adapters.sql.dialects import MOST_NUMBER, NUMBER_BITS
from shared.adapters.sql.postgres.processes import boottime
from shared.adapters.sql.postgres.store import PostgresStore
from shared.adapters.sql.postgres.transaction import Transaction
from shared.adapters.sql.sqlite.database import SqliteDatabase
from shared.adapters.sql.sqlite.folder import Folder
from shared.adapters.threads import SystemThreads
from shared.clock import Clock, SystemClock
from shared.engine.ports import Threads
from testbed.postgres import ROLE, PostgresServer


class Schema:
    """A new schema of *server*, for stores one after the other."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self.name = server.new_schema()

    @contextmanager
    def opened(self, clock: Clock | None, *, dies: bool = False) -> Iterator[PostgresStore]:
        """Open a store; others find one that *dies* dead, as they do after 45 s."""
        threads = SystemThreads()
        with self._server.new_store(schema=self.name, clock=clock, threads=threads) as store:
            store.leases._for_others = 0  # There are none: what is put down is due at once.
            yield store
        if dies:
            self.judge(store)

    def store(
        self,
        *,
        clock: Clock | None = None,
        boottime: Callable[[], float] = boottime,
        threads: Threads | None = None,
    ) -> AbstractContextManager[PostgresStore]:
        """Open a store beside others."""
        return self._server.new_store(
            schema=self.name, clock=clock, boottime=boottime, threads=threads or SystemThreads()
        )

    def judge(self, store: PostgresStore) -> None:
        """Mark a store's process as dead, as another would."""
        self.do("UPDATE processes SET dead = TRUE WHERE id = $1", id_of(store))

    def holders(self) -> list[Row]:
        """Return id and number of the process that has each message in hand."""
        wanted = f"SELECT run >> {NUMBER_BITS}, run & {MOST_NUMBER} FROM messages"  # noqa: S608
        return self.do(f"{wanted} WHERE run > 0 ORDER BY id")

    def do(self, statement: str, *parameters: object) -> list[Row]:
        """Run a statement in the schema."""
        with self._server.connected(ROLE) as connection:
            connection.execute(f"SET search_path = {self.name}".encode())
            cursor = psycopg.RawCursor(connection)
            cursor.execute(statement.encode(), parameters or None)
            return list(cursor.fetchall()) if cursor.description else []


class Time:
    """The seconds of a machine's clock that goes on while it is suspended."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


class Cut:
    """
    Cuts the connection at the next commit: *before* it is sent, or when it is stored.

    At the next with rows of *where*, if that is given.
    """

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, *, is_stored: bool, times: int = 1, where: str = ""
    ) -> None:
        self.left = times
        self.then: Callable[[], object] = lambda: None
        execute = Transaction.execute

        def cut(transaction: Transaction, statement: str, *given: Any) -> Any:
            if statement != "COMMIT" or not self.left or not has_rows(transaction):
                return execute(transaction, statement, *given)
            connection = transaction._connection
            self.left -= 1
            if is_stored:
                execute(transaction, statement, *given)
                if connection._pipeline:
                    connection._pipeline.sync()
            connection.close()
            self.then()
            raise psycopg.OperationalError("server closed the connection unexpectedly")

        def has_rows(transaction: Transaction) -> bool:
            return not where or bool(execute(transaction, where).fetchall())

        monkeypatch.setattr(Transaction, "execute", cut)


def id_of(store: PostgresStore) -> int:
    return store.database.run >> NUMBER_BITS


Place = Path | Schema
#: For tests of what SQLite alone has.
in_folder = pytest.mark.parametrize("folder", ["sqlite"], indirect=True)


@contextmanager
def opened(folder: Path, **options: Any) -> Iterator[SqliteDatabase]:
    """Open the database of a folder, and close it afterwards."""
    clock = options.pop("clock", None) or SystemClock()
    threads = SystemThreads(options.pop("monotonic", time.monotonic))
    database = SqliteDatabase(Folder(folder), clock, threads, **options)
    try:
        yield database
    finally:
        database.close()


def add(writing: WriteTransaction, name: str, size: int = 1) -> None:
    """Store a row that is found by `names`."""
    statement = "INSERT INTO payloads (name, expires, body) VALUES (?, 0, ?)"
    writing.run(statement, name, bytes(size))


def names(database: SqliteDatabase) -> set[str]:
    return {
        name for (name,) in database.read(lambda reading: reading.rows("SELECT name FROM payloads"))
    }
