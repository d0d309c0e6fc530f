"""A database in SQLite, in a folder that this process has."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from datetime import datetime
from queue import Empty, LifoQueue
from typing import NamedTuple, TypeVar

import apsw

from shared import telemetry
from shared.adapters.sql.database import (
    PLAIN,
    ReadTransaction,
    Write,
    WriteOptions,
    ignore,
    new_id,
)
from shared.adapters.sql.group_writer import GroupWriter
from shared.adapters.sql.sqlite.committer import SqliteCommitter
from shared.adapters.sql.sqlite.connection import SqliteConnection
from shared.adapters.sql.sqlite.files import Connect, connect
from shared.adapters.sql.sqlite.folder import Folder
from shared.adapters.sql.sqlite.reader import Reader
from shared.clock import Clock
from shared.engine.ports import Threads
from shared.engine.ports.measures import StoreMeasure
from shared.errors import StorageUnavailable

T = TypeVar("T")
LOW_WATER = 256 * 1024 * 1024  # free bytes: below, the database does not grow
_READERS = 8  # that are kept open
_FREE_EVERY = 1.0  # seconds between looks at the free space


class Sizes(NamedTuple):
    """Bytes of the database: all of it, what of that is free, and its WAL."""

    database: int
    free: int
    wal: int


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
        died: Callable[[str], object] = ignore,
        told: Callable[[datetime, float], object] = lambda _, __: None,
    ) -> None:
        self._folder = folder
        self._monotonic = threads.monotonic
        self._connect = connect
        self._low_water = low_water
        self._looked_at, self._is_low = -_FREE_EVERY, False
        self._readers: LifoQueue[Reader] = LifoQueue()
        with ExitStack() as undone:
            undone.callback(folder.release)
            self._connection = SqliteConnection(
                folder, clock, threads.monotonic, connect=connect, instance=new_id()
            )
            self._connection.time.told = told
            undone.callback(self._connection.close)
            self._connection.migrate()
            self.run = self._connection.begin_run()
            self._connection.died = died
            self._writer = GroupWriter(SqliteCommitter(self._connection), threads)
            undone.pop_all()

    @property
    def has_lease(self) -> bool:
        """The lock of the folder is the lease."""
        return True

    def run_of(self, taken: int) -> int:
        """The folder is this process's until it ends: what was taken stays so."""
        return taken

    def write(self, write: Write[T], options: WriteOptions = PLAIN) -> T:
        self._check_space(options)
        return self._writer.write(write, options)

    async def write_on_loop(
        self,
        write: Write[T],
        options: WriteOptions = PLAIN,
        then: Callable[[T | None], object] = ignore,
    ) -> T:
        try:
            self._check_space(options)
            result = self._writer.write_on_loop(write, options, then)
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
    def commit_time(self) -> tuple[int, float]:
        return self._connection.commits, self._connection.commit_seconds

    def measures(self) -> list[StoreMeasure]:
        size, free, wal = self.sizes
        return [
            StoreMeasure(
                "checkpoints_total",
                "Writes of the log into the database.",
                self._connection.checkpoints,
                only_rises=True,
            ),
            StoreMeasure("bytes", "Size of the database.", size),
            StoreMeasure("unused_bytes", "Of these, what nothing needs.", free),
            StoreMeasure("wal_bytes", "Size of the write-ahead log.", wal),
            StoreMeasure("disk_free_bytes", "Free space of the disk.", self._folder.free_bytes),
        ]

    def close(self) -> None:
        """Store what was asked for, and let another server have the folder."""
        while not self._readers.empty():
            self._readers.get_nowait().close()
        self._writer.close()
        self._folder.release()

    def _reader(self) -> Reader:
        try:
            return self._readers.get_nowait()
        except Empty:
            try:
                return Reader(self._folder.database, self._connect)
            except apsw.Error as error:
                raise StorageUnavailable from error

    def _check_space(self, options: WriteOptions) -> None:
        if not options.grows:
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
