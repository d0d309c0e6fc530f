"""
SQLite: one connection writes and checkpoints, in WAL mode; a commit returns when it is synced.

A failed sync leaves nobody knowing what is on the disk (Rebello et al., ATC 2020), so after a
failure, and at every start, a truncating checkpoint and a check come before the next commit: what
a power failure leaves has to be what was answered. If they fail, the store is dead.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from queue import Empty, LifoQueue
from typing import Any, NamedTuple, TypeVar

import apsw

from shared import telemetry
from shared.adapters.sql import dialects
from shared.adapters.sql.database import (
    Catalogue,
    CountedIn,
    ReadTransaction,
    Row,
    Write,
    micros,
    moment,
    new_id,
)
from shared.adapters.sql.folder import (
    BACKUPS,
    DATABASE,
    FILE_MODE,
    Folder,
    StoreRefused,
    check_free,
    refuse_link,
    sync,
)
from shared.adapters.sql.group_writer import Broken, GroupWriter
from shared.adapters.sql.migrations import LATEST, Migration, migrations, refusal
from shared.adapters.sql.tally import CountedRows
from shared.clock import Clock
from shared.engine.ports import Threads
from shared.errors import StorageUnavailable, Unstorable
from shared.metrics import Counts

T = TypeVar("T")
LOW_WATER = 256 * 1024 * 1024  # free bytes: below, the database does not grow
_APPLICATION = 0x50475244  # "PGRD", in the file's header
_CHECKPOINT_PAGES = 1000  # of the WAL: 4 MB
_LONGEST_WAL = 16_000  # pages: from then on a checkpoint empties the file, if nobody reads it
_SPARE_PAGES = 2_000  # that are kept for what comes
_BUSY_MS = 5_000
_READERS = 8  # that are kept open
_SEEN_EVERY = timedelta(minutes=1)
_FAR, _FAR_LASTS = timedelta(days=30), 86400.0  # a leap of the time, and seconds until it is seen
_FREE_EVERY = 1.0  # seconds between looks at the free space

#: Faults of a row or a statement, which SQLite undoes by itself; any other is the connection's.
_REFUSALS = (
    apsw.ConstraintError,
    apsw.MismatchError,
    apsw.RangeError,
    apsw.BindingsError,
    apsw.SQLError,
)


def connect(database: Path, vfs: str | None = None) -> apsw.Connection:
    """Connect to the file of a database, which *vfs* opens. Raises apsw.Error."""
    return apsw.Connection(str(database), apsw.SQLITE_OPEN_READWRITE, vfs)


Connect = Callable[[Path], apsw.Connection]


def _ignore(_: object) -> None:
    pass


class Sizes(NamedTuple):
    """Bytes of the database: all of it, what of that is free, and its WAL."""

    database: int
    free: int
    wal: int


class SqliteConnection:
    """
    `GroupConnection` on the file of *folder*; *clock* tells what time is seen.

    Raises:
        StoreRefused: the file can't be used.
    """

    dialect = dialects.SQLITE
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
        self._clock = clock
        self._monotonic = monotonic
        self._connect = connect
        self._pages = 0  # of the WAL
        self._is_suspect = False
        self._seen: tuple[datetime, float] | None = None  # the time, when; `begin_run` knows first
        self._far_since: float | None = None  # the clock is far ahead of that
        self._began: tuple[datetime, float] | None = None  # the time seen before this start, then
        self._told_at = -1.0
        self._counted = CountedRows(instance or new_id())
        self.dead = ""  # why, once it is
        self.fault = ""  # why the last transaction failed, if it did
        self.died: Callable[[str], object] = _ignore
        self.told: Callable[[datetime, float], object] = lambda _, __: None
        self.commits, self.commit_seconds, self.checkpoints = 0, 0.0, 0
        with _refused(folder), ExitStack() as undone:
            self._file = _open(folder.database, connect)
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
        if found != _APPLICATION:
            if found or self.rows("SELECT name FROM sqlite_schema LIMIT 1"):
                raise StoreRefused(
                    f"'{self._folder.database}' is a database of another program. Name another "
                    "folder."
                )
            # Before the first table, so that what is deleted can be given back.
            self.run("PRAGMA auto_vacuum = INCREMENTAL")
            self.run(f"PRAGMA application_id = {_APPLICATION}")
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
            with closing(_open(self._folder.database, self._connect)) as fresh:
                return [text for (text,) in fresh.execute("PRAGMA quick_check(3)") if text != "ok"]
        except apsw.Error as error:
            raise Broken(_said(error)) from error

    def migrate(self) -> None:
        """
        Bring the schema up to date, after a copy of the file; keep one that is newer.

        Raises:
            StoreRefused: it is of a program that this one is too old for.
        """
        with _refused(self._folder):
            schema = _schema(self.rows, self._folder.database)
            todo = [each for each in migrations("sqlite") if each.number > schema]
            if todo and schema:
                copy = self._folder.backup_path(f"schema-{schema}")
                _copy(self._folder.database, copy, self._connect)
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

    def begin_run(self) -> tuple[int, datetime]:
        """Count a start; return its number, and the latest time that an earlier one has seen."""
        with _refused(self._folder):
            self.begin()
            self.run("UPDATE state SET value = value + 1 WHERE name = 'run'")
            run = self._value("SELECT value FROM state WHERE name = 'run'")
            seen = moment(self._value("SELECT value FROM state WHERE name = 'seen'"))
            self._seen = self._began = seen, self._monotonic()
            self.commit()
            return run, seen

    # ── GroupConnection ──

    @property
    def changes(self) -> int:
        return self._file.total_changes()

    def rows(self, statement: str, *parameters: object) -> list[Row]:
        return self._done(lambda: self._file.execute(statement, parameters).fetchall())

    def _done(self, execute: Callable[[], list[Row]]) -> list[Row]:
        try:
            return execute()
        except apsw.TooBigError as error:
            raise Unstorable from error
        except _REFUSALS as error:
            raise StorageUnavailable(_said(error)) from error
        except apsw.Error as error:
            # Nothing was written where another program has the lock.
            self._is_suspect = self._is_suspect or not isinstance(error, apsw.BusyError)
            self.fault = _said(error)
            raise Broken(_said(error)) from error

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
        if self.dead:
            raise Broken(self.dead)
        if self._is_suspect:
            self._recover()
        self.rows("BEGIN IMMEDIATE")

    def commit(self) -> None:
        self._see()
        self._counted.write(self)
        began = self._monotonic()
        self.rows("COMMIT")
        self.fault = ""
        self.commits += 1
        self.commit_seconds += self._monotonic() - began
        self._tell()

    def rollback(self) -> None:
        self._counted.forget()
        if self._file.in_transaction:
            try:
                self._file.execute("ROLLBACK")
            except apsw.Error as error:
                telemetry.error("storage.failed", error=type(error).__name__, detail="ROLLBACK")

    def savepoint(self) -> None:
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
                self._file.set_busy_timeout(_BUSY_MS)
            self.checkpoints += 1
            if pages == written:
                self._pages = 0
            if self._value("PRAGMA freelist_count") > 2 * _SPARE_PAGES:
                self.rows(f"PRAGMA incremental_vacuum({_SPARE_PAGES})")
        except (Broken, StorageUnavailable) as error:
            telemetry.error("storage.failed", error="checkpoint", detail=str(error))

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

    def _see(self) -> None:
        """
        Store the time now and then, with what is stored anyway.

        A clock that is far ahead may be wrong, and later starts would believe it: not on one day.
        """
        now, at = self._clock.now(), self._monotonic()
        if not self._seen or not self._clock.is_trusted:
            return
        seen, seen_at = self._seen
        is_first = seen == moment(0)
        if is_first or now - seen - timedelta(seconds=at - seen_at) <= _FAR:
            self._far_since = None
        elif self._far_since is None:
            self._far_since = at
        is_believed = self._far_since is None or at - self._far_since >= _FAR_LASTS
        if is_believed and now - seen >= _SEEN_EVERY:
            self._seen, self._far_since = (now, at), None
            self.run("UPDATE state SET value = ? WHERE name = 'seen'", micros(now))

    def _tell(self) -> None:
        """
        Tell the time, once a second: the clock's, unless it is before what must have come.

        A machine without a battery for its clock starts in the past.
        """
        at = self._monotonic()
        if self._began and at - self._told_at >= 1:
            self._told_at = at
            seen, began = self._began
            self.told(max(self._clock.now(), seen + timedelta(seconds=at - began)), 0.0)

    def _value(self, statement: str) -> Any:
        return self.rows(statement)[0][0]


class SqliteDatabase:
    """
    Database on SQLite, in *folder*, which is its own until `close`.

    *died* is called once the store is dead, from its thread: the server has to end. *told* gets the
    time now and then, with how many seconds it took to ask.

    Raises:
        StoreRefused: it can't be used; the message says what to do.
    """

    def __init__(  # noqa: PLR0913 - this is all, and most by its name
        self,
        folder: Folder,
        clock: Clock,
        threads: Threads,
        *,
        connect: Connect = connect,
        new_id: Callable[[], str] = new_id,
        low_water: int = LOW_WATER,
        died: Callable[[str], object] = _ignore,
        told: Callable[[datetime, float], object] = lambda _, __: None,
    ) -> None:
        self._folder = folder
        self._monotonic = threads.monotonic
        self._connect = connect
        self._low_water = low_water
        self._looked_at, self._is_low = -_FREE_EVERY, False
        self._readers: LifoQueue[_Reader] = LifoQueue()
        with ExitStack() as undone:
            undone.callback(folder.release)
            self._connection = SqliteConnection(
                folder, clock, threads.monotonic, connect=connect, instance=new_id()
            )
            self._connection.told = told
            undone.callback(self._connection.close)
            self._connection.migrate()
            self.run, self.seen = self._connection.begin_run()
            self._connection.died = died
            self._writer = GroupWriter(self._connection, threads)
            undone.pop_all()

    @property
    def has_lease(self) -> bool:
        """The lock of the folder is the lease."""
        return True

    def run_of(self, taken: int) -> int:
        """The folder is this process's until it ends: what was taken stays so."""
        return taken

    def write(
        self, write: Write[T], *, grows: bool = False, catalogue: Catalogue = Catalogue.FREE
    ) -> T:
        del catalogue  # One process has it.
        self._check_space(grows=grows)
        return self._writer.write(write)

    async def write_on_loop(  # noqa: PLR0913 - this is all, and each by its name
        self,
        write: Write[T],
        *,
        grows: bool = False,
        then: Callable[[T | None], object] = _ignore,
        births: Collection[int] = (),
        claims: Collection[int] = (),
        catalogue: Catalogue = Catalogue.FREE,
    ) -> T:
        del births, claims, catalogue  # One process has it.
        try:
            self._check_space(grows=grows)
            result = self._writer.write_on_loop(write, then)
        except StorageUnavailable:
            then(None)
            raise
        return await result

    def read(self, read: Callable[[ReadTransaction], T]) -> T:
        reader, is_whole = self._reader(), True
        try:
            with reader.transaction():
                return read(reader)
        except apsw.Error as error:
            is_whole = False  # its transaction may be open
            telemetry.error("storage.failed", error=type(error).__name__, detail=str(error))
            raise StorageUnavailable from error
        finally:
            if is_whole and self._readers.qsize() < _READERS:
                self._readers.put(reader)
            else:
                reader.close()

    @property
    def dead(self) -> str:
        """Why nothing is stored any more; empty while it is."""
        return self._connection.dead

    @property
    def fault(self) -> str:
        """Why nothing may be stored now; empty: the last transaction was."""
        return self._connection.dead or self._connection.fault

    @property
    def sizes(self) -> Sizes:
        def read(reading: ReadTransaction) -> Sizes:
            size, pages, free = (
                reading.rows(f"PRAGMA {name}")[0][0]
                for name in ("page_size", "page_count", "freelist_count")
            )
            wal = self._folder.database.with_name(f"{self._folder.database.name}-wal")
            return Sizes(size * pages, size * free, wal.stat().st_size if wal.exists() else 0)

        return self.read(read)

    @property
    def free_bytes(self) -> int:
        """What the disk of the folder has left."""
        return self._folder.free_bytes

    @property
    def checkpoints(self) -> int:
        """How often the WAL was written into the database since the start."""
        return self._connection.checkpoints

    @property
    def commit_time(self) -> tuple[int, float]:
        """How many commits there were, and how many seconds they took, their syncs included."""
        return self._connection.commits, self._connection.commit_seconds

    def close(self) -> None:
        """Store what was asked for, and let another server have the folder."""
        while not self._readers.empty():
            self._readers.get_nowait().close()
        self._writer.close()
        self._folder.release()

    def _reader(self) -> _Reader:
        try:
            return self._readers.get_nowait()
        except Empty:
            try:
                return _Reader(self._folder.database, self._connect)
            except apsw.Error as error:
                raise StorageUnavailable from error

    def _check_space(self, *, grows: bool) -> None:
        if not grows:
            return
        if self._monotonic() - self._looked_at >= _FREE_EVERY:
            self._looked_at = self._monotonic()
            was_low, self._is_low = self._is_low, self._folder.free_bytes < self._low_water
            if self._is_low and not was_low:
                telemetry.error("storage.full", folder=str(self._folder.path))
        if self._is_low:
            raise StorageUnavailable(
                "The disk is almost full: nothing new is accepted, what is stored is delivered."
            )


def back_up(path: Path, copy: Path) -> None:
    """
    Write to *copy*, where no file is, the store in the folder *path*, whose server may run.

    It is as of one moment, synced and checked.

    Raises:
        StoreRefused: there is no store, or the copy can't be written; then none is there.
    """
    database = path / DATABASE
    partial = copy.with_name(f"{copy.name}.part")
    try:
        if copy.exists():
            raise StoreRefused(f"'{copy}' exists: name another file.")
        _refuse_beside(path.resolve(), copy.parent.resolve())
        if not database.is_file():
            raise StoreRefused(f"'{path}' has no store: name the folder of a server.")
        with ExitStack() as undone:
            undone.callback(partial.unlink, missing_ok=True)
            _copy(database, partial)
            partial.rename(copy)
        sync(copy.parent)
    except (OSError, apsw.Error) as error:
        raise StoreRefused(f"The copy '{copy}' can't be written: {error}") from error


def _refuse_beside(path: Path, target: Path) -> None:
    """Raise StoreRefused if a copy in the folder *target* would be lost with the folder *path*."""
    backups = path / BACKUPS
    if target.is_relative_to(path) and not target.is_relative_to(backups):
        raise StoreRefused(
            f"'{target}' is the server's own folder, and would be lost with it: name a file on "
            f"another disk, or in '{backups}'."
        )


def restore(path: Path, copy: Path, found_good: Callable[[], object] = lambda: None) -> Path | None:
    """
    Let the store in the folder *path* be what *copy* is; return where a former one is now.

    *found_good* is called once the copy is, before anything is made.

    Raises:
        StoreRefused: another server has the folder, or the copy is no database of this program.
    """
    try:
        with ExitStack() as undone:
            source = apsw.Connection(str(copy), apsw.SQLITE_OPEN_READONLY)
            undone.callback(source.close)
            found = [source.pragma("application_id"), source.pragma("quick_check")]
            if found != [_APPLICATION, "ok"]:
                raise StoreRefused(f"'{copy}' is no copy of a store, or is damaged: {found}")
            _schema(lambda statement: source.execute(statement).fetchall(), copy)
            found_good()
            folder = Folder(path)
            undone.callback(folder.release)
            written = folder.backup_path("restored")
            source.execute("VACUUM INTO ?", (str(written),)).fetchall()
            written.chmod(FILE_MODE)
            return folder.replace_database(written)
    except apsw.Error as error:
        raise StoreRefused(f"'{copy}' can't be restored: {error}") from error


def check_store(path: Path) -> bool:
    """
    Return if this program can use the store in the folder *path*; ``False``: there is none yet.

    Raises:
        StoreRefused: another server has the folder, or it is of a newer program, or can't be read.
    """
    check_free(path)
    if not (path / DATABASE).is_file():
        return False
    with reading(path) as read:
        return read(lambda reading: _schema(reading.rows, path / DATABASE)) > 0


@contextmanager
def reading(path: Path) -> Iterator[Callable[[Callable[[ReadTransaction], T]], T]]:
    """
    Give what reads the store in the folder *path*, whose server may run.

    Raises:
        StoreRefused: there is no store, or it can't be read.
    """
    database = path / DATABASE
    if not database.is_file():
        raise StoreRefused(f"'{path}' has no store: name the folder of a server.")
    refuse_link(database)
    try:
        with closing(_Reader(database, connect)) as reader:

            def read(call: Callable[[ReadTransaction], T]) -> T:
                with reader.transaction():
                    return call(reader)

            yield read
    except apsw.Error as error:
        raise StoreRefused(f"'{database}' can't be read: {_said(error)}") from error


class _Reader:
    """A connection that reads: it never writes, nor checkpoints."""

    dialect = dialects.SQLITE

    def __init__(self, database: Path, connect: Connect) -> None:
        self._file = _open(database, connect)
        self._file.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        for pragma in ("query_only = ON", "wal_autocheckpoint = 0", "trusted_schema = OFF"):
            self._file.execute(f"PRAGMA {pragma}").fetchall()
        self.close = self._file.close

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self._file.execute("BEGIN")
        try:
            yield
        finally:
            self._file.execute("ROLLBACK")

    def rows(self, statement: str, *parameters: object) -> list[Row]:
        return self._file.execute(statement, parameters).fetchall()


def _schema(rows: Callable[[str], Sequence[Row]], database: Path) -> int:
    """
    Return the number of the last migration of a database, 0 if it is new.

    Raises:
        StoreRefused: it takes a program that knows more of them than this one.
    """
    if not rows("SELECT 1 FROM sqlite_schema WHERE name = 'migrations'"):
        return 0
    found = "SELECT number, oldest, program FROM migrations ORDER BY number DESC LIMIT 1"
    ((number, oldest, program),) = rows(found)
    if oldest > LATEST:
        raise StoreRefused(refusal(database, oldest, program))
    return int(number)


def _open(database: Path, connect: Connect) -> apsw.Connection:
    opened = connect(database)
    opened.set_busy_timeout(_BUSY_MS)
    return opened


def _copy(database: Path, path: Path, connect: Connect = connect) -> None:
    """Write a copy of the database, by a connection of its own, while others write."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE))
    with closing(_open(database, connect)) as source:
        source.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)  # a server alone does that
        source.execute("VACUUM INTO ?", (str(path),)).fetchall()
    sync(path)
    sync(path.parent)
    with closing(apsw.Connection(str(path), apsw.SQLITE_OPEN_READONLY)) as copy:
        if (found := copy.execute("PRAGMA quick_check(1)").fetchall()) != [("ok",)]:
            raise apsw.CorruptError(str(found))


@contextmanager
def _refused(folder: Folder) -> Iterator[None]:
    """Say of what fails at a start what to do."""
    try:
        yield
    except (apsw.Error, Broken, StorageUnavailable) as error:
        cause = error.__cause__ or error
        raise StoreRefused(_sentence(folder, cause, str(error))) from error


def _sentence(folder: Folder, cause: BaseException, said: str) -> str:
    where = f"'{folder.database}'"
    match cause:
        case apsw.NotADBError():
            return f"{where} is no SQLite database. Name another folder, or restore a backup."
        case apsw.BusyError() | apsw.LockedError():
            return f"{where} is locked by another program. Stop that program."
        case apsw.FullError():
            return f"The disk of {where} is full. Make room on it."
        case apsw.ReadOnlyError() | apsw.CantOpenError() | apsw.PermissionsError():
            return f"{where} can't be written. Let it belong to the server's user."
    return f"{where} can't be used: {said}. Check the disk, or restore a backup."


def _said(error: apsw.Error) -> str:
    return f"{type(error).__name__}: {error}"
