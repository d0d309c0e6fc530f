"""Reads a store, whose server may run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar

import apsw

from shared.adapters.sql.database import ReadTransaction, Row, StoreRefused
from shared.adapters.sql.dialects import SQLITE
from shared.adapters.sql.sqlite.files import Connect, connect, open_file, said, schema_of
from shared.adapters.sql.sqlite.folder import DATABASE, check_free, refuse_link

T = TypeVar("T")


class Reader:
    """A connection that reads: it never writes, nor checkpoints."""

    dialect = SQLITE

    def __init__(self, database: Path, connect: Connect) -> None:
        self._file = open_file(database, connect)
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
        return read(lambda reading: schema_of(reading.rows, path / DATABASE)) > 0


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
        with closing(Reader(database, connect)) as reader:

            def read(call: Callable[[ReadTransaction], T]) -> T:
                with reader.transaction():
                    return call(reader)

            yield read
    except apsw.Error as error:
        raise StoreRefused(f"'{database}' can't be read: {said(error)}") from error
