"""
SQLite: one connection writes and checkpoints, in WAL mode; a commit returns when it is synced.

A failed sync leaves nobody knowing what is on the disk (Rebello et al., ATC 2020), so after a
failure, and at every start, a truncating checkpoint and a check come before the next commit: what
a power failure leaves has to be what was answered. If they fail, the store is dead.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, closing
from typing import Any

import apsw

from shared import telemetry
from shared.adapters.sql.database import CountedIn, Row, StoreRefused, micros, moment, new_id
from shared.adapters.sql.dialects import SQLITE
from shared.adapters.sql.migrations import Migration, migrations
from shared.adapters.sql.sqlite import files
from shared.adapters.sql.sqlite.files import (
    APPLICATION,
    Broken,
    Connect,
    connect,
    copy_file,
    open_file,
    refused,
    said,
    schema_of,
)
from shared.adapters.sql.sqlite.folder import Folder
from shared.adapters.sql.sqlite.seen_time import SeenTime
from shared.adapters.sql.tally import CountedRows
from shared.clock import Clock
from shared.errors import StorageUnavailable, Unstorable
from shared.metrics import Counts

_CHECKPOINT_PAGES = 1000  # of the WAL: 4 MB
_LONGEST_WAL = 16_000  # pages: from then on a checkpoint empties the file, if nobody reads it
_SPARE_PAGES = 2_000  # that are kept for what comes

#: Faults of a row or a statement, which SQLite undoes by itself; any other is the connection's.
_REFUSALS = (
    apsw.ConstraintError,
    apsw.MismatchError,
    apsw.RangeError,
    apsw.BindingsError,
    apsw.SQLError,
)


class SqliteConnection:
    """
    The connection that writes the file of *folder*, for one thread; *clock* tells the time.

    Its methods may raise `Broken`.

    Raises:
        StoreRefused: the file can't be used.
    """

    dialect = SQLITE
    is_repeat = False  # A start knows what it has stored.

    def __init__(
        self,
        folder: Folder,
        clock: Clock,
        monotonic: Callable[[], float] = time.monotonic,
        *,
        connect: Connect = connect,
        instance: str = "",  # what its counts are stored by
    ) -> None:
        self._folder = folder
        self._monotonic = monotonic
        self._connect = connect
        self._pages = 0  # of the WAL
        self._is_suspect = False
        self.time = SeenTime(clock, monotonic)
        self._counted = CountedRows(instance or new_id())
        self.dead = ""  # why, once it is
        self.fault = ""  # why the last transaction failed, if it did
        self.died: Callable[[str], object] = lambda _: None
        self.commits, self.commit_seconds, self.checkpoints = 0, 0.0, 0
        with refused(folder), ExitStack() as undone:
            self._file = open_file(folder.database, connect)
            undone.callback(self._file.close)
            self._prepare()
            self.make_safe()
            undone.pop_all()

    # ── What a start does ──

    def _prepare(self) -> None:
        if self._file.readonly("main"):
            raise StoreRefused(
                f"'{self._folder.database}' is read-only. Let the server's user write to it."
            )
        found = self._value("PRAGMA application_id")
        if found != APPLICATION:
            if found or self.rows("SELECT name FROM sqlite_schema LIMIT 1"):
                raise StoreRefused(
                    f"'{self._folder.database}' is a database of another program. Name another "
                    "folder."
                )
            # Before the first table, so that what is deleted can be given back.
            self.run("PRAGMA auto_vacuum = INCREMENTAL")
            self.run(f"PRAGMA application_id = {APPLICATION}")
        if (mode := self._value("PRAGMA journal_mode = WAL")) != "wal":
            raise StoreRefused(
                f"The file system of '{self._folder.path}' does not support SQLite's WAL mode "
                f"(it is '{mode}'). Name a folder on a local disk."
            )
        for pragma in (
            "synchronous = FULL",
            "fullfsync = ON",  # macOS: a plain sync leaves data in the drive's cache
            "checkpoint_fullfsync = ON",
            "wal_autocheckpoint = 0",  # only `tidy` and `make_safe` do it
            "foreign_keys = ON",
            "trusted_schema = OFF",
            "temp_store = MEMORY",
        ):
            self.run(f"PRAGMA {pragma}")
        self._file.set_wal_hook(self._appended)

    def make_safe(self) -> None:
        """
        Write the whole WAL into the database, sync it, and check the database.

        Raises:
            Broken: it can't be done.
        """
        busy, _, _ = self.rows("PRAGMA wal_checkpoint(TRUNCATE)")[0]
        if busy:
            raise Broken("another program uses the database") from apsw.BusyError()
        self._pages = 0
        if faults := self._faults():
            raise Broken(f"the database is damaged: {'; '.join(faults)}")

    def _faults(self) -> list[str]:
        """Check what is in the file: a connection of its own has nothing in memory."""
        try:
            with closing(open_file(self._folder.database, self._connect)) as fresh:
                return [text for (text,) in fresh.execute("PRAGMA quick_check(3)") if text != "ok"]
        except apsw.Error as error:
            raise Broken(said(error)) from error

    def migrate(self) -> None:
        """
        Bring the schema up to date, after a copy of the file; keep one that is newer.

        Raises:
            StoreRefused: it is of a program that this one is too old for.
        """
        with refused(self._folder):
            schema = schema_of(self.rows, self._folder.database)
            todo = [each for each in migrations("sqlite") if each.number > schema]
            if todo and schema:
                copy = self._folder.backup_path(f"schema-{schema}")
                copy_file(self._folder.database, copy, self._connect)
                telemetry.info("store.migrating", schema=schema, to=todo[-1].number, copy=str(copy))
            for each in todo:
                self._migrate(each)

    def _migrate(self, each: Migration) -> None:
        self.begin()
        try:
            for statement in each.statements:
                self.run(statement)
            self.run(
                "INSERT INTO migrations (number, oldest, program) VALUES (?, ?, ?)",
                *(each.number, each.oldest, each.program),
            )
            self.commit()
        except BaseException:
            self.rollback()
            raise

    def begin_run(self) -> int:
        """Count a start, and return its number; time goes on from the latest that was stored."""
        with refused(self._folder):
            self.begin()
            self.run("UPDATE state SET value = value + 1 WHERE name = 'run'")
            run: int = self._value("SELECT value FROM state WHERE name = 'run'")
            self.time.begin(moment(self._value("SELECT value FROM state WHERE name = 'seen'")))
            self.commit()
            return run

    # ── Transactions ──

    @property
    def changes(self) -> int:
        """How many rows were changed so far; what is undone counts as well."""
        return self._file.total_changes()

    def rows(self, statement: str, *parameters: object) -> list[Row]:
        return self._done(lambda: self._file.execute(statement, parameters).fetchall())

    def _done(self, execute: Callable[[], list[Row]]) -> list[Row]:
        try:
            return execute()
        except apsw.TooBigError as error:
            raise Unstorable from error
        except _REFUSALS as error:
            raise StorageUnavailable(said(error)) from error
        except apsw.Error as error:
            # Nothing was written where another program has the lock.
            self._is_suspect = self._is_suspect or not isinstance(error, apsw.BusyError)
            self.fault = said(error)
            raise Broken(said(error)) from error

    def run(self, statement: str, *parameters: object) -> int:
        self.rows(statement, *parameters)
        return self._file.changes()

    def send(self, statement: str, *parameters: object) -> None:
        self.rows(statement, *parameters)

    def run_all(self, statement: str, parameters: Iterable[Row]) -> None:
        self._done(lambda: self._file.executemany(statement, parameters).fetchall())

    def count(self, counts: Mapping[CountedIn, Counts]) -> None:
        self._counted.add(counts)

    def begin(self) -> None:
        """Begin a transaction; what a failure has left is made safe first."""
        if self.dead:
            raise Broken(self.dead)
        if self._is_suspect:
            self._recover()
        self.rows("BEGIN IMMEDIATE")

    def commit(self) -> None:
        if now := self.time.due():
            self.run("UPDATE state SET value = ? WHERE name = 'seen'", micros(now))
        self._counted.write(self)
        began = self._monotonic()
        self.rows("COMMIT")
        self.fault = ""
        self.commits += 1
        self.commit_seconds += self._monotonic() - began
        self.time.tell()

    def rollback(self) -> None:
        """Undo the transaction, if there is one. Never raises."""
        self._counted.forget()
        if self._file.in_transaction:
            try:
                self._file.execute("ROLLBACK")
            except apsw.Error as error:
                telemetry.error("storage.failed", error=type(error).__name__, detail="ROLLBACK")

    def savepoint(self) -> None:
        """Begin a part of the transaction that can be undone."""
        self.rows("SAVEPOINT write")

    def release(self) -> None:
        self.rows("RELEASE write")

    def undo(self) -> None:
        self.rows("ROLLBACK TO write")
        self.rows("RELEASE write")

    def tidy(self) -> None:
        """Empty a WAL that has become long, and give back pages that nothing needs."""
        if self._pages < _CHECKPOINT_PAGES or self._is_suspect:
            return
        kind = "PASSIVE" if self._pages < _LONGEST_WAL else "TRUNCATE"
        try:
            self._file.set_busy_timeout(0)  # Writers would wait for whoever reads.
            try:
                _, pages, written = self.rows(f"PRAGMA wal_checkpoint({kind})")[0]
            finally:
                self._file.set_busy_timeout(files.BUSY_MS)
            self.checkpoints += 1
            if pages == written:
                self._pages = 0
            if self._value("PRAGMA freelist_count") > 2 * _SPARE_PAGES:
                self.rows(f"PRAGMA incremental_vacuum({_SPARE_PAGES})")
        except (Broken, StorageUnavailable) as error:
            name = type(error.__cause__ or error).__name__
            telemetry.error("storage.failed", error=name, detail=f"checkpoint: {error}")

    def close(self) -> None:
        """Leave a database without a WAL, if that is possible."""
        try:
            self._file.close()
        except apsw.Error as error:
            telemetry.error("storage.failed", error=type(error).__name__, detail="close")

    # ── Parts of the above ──

    def _appended(self, _: apsw.Connection, __: str, pages: int) -> int:
        self._pages = pages
        return apsw.SQLITE_OK

    def _recover(self) -> None:
        try:
            self.make_safe()
        except Broken as error:
            if not isinstance(error.__cause__, (apsw.FullError, apsw.BusyError)):
                self.dead = f"the store can't be made safe after a failure: {error}"
                telemetry.error("storage.dead", detail=self.dead)
                self.died(self.dead)
            raise
        self._is_suspect = False

    def _value(self, statement: str) -> Any:
        return self.rows(statement)[0][0]
