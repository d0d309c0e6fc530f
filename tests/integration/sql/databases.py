"""Databases for the tests of the SQL store."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from shared.adapters.sql.database import WriteTransaction
from shared.adapters.sql.folder import Folder
from shared.adapters.sql.sqlite import SqliteDatabase
from shared.adapters.threads import SystemThreads
from shared.clock import SystemClock


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


def restored(folder: Path, images: Mapping[str, bytes]) -> Path:
    """Write the files of a database into a new folder."""
    folder.mkdir(mode=0o700)
    for name, image in images.items():
        (folder / name).write_bytes(image)
    return folder


def add(writing: WriteTransaction, name: str, size: int = 1) -> None:
    """Store a row that is found by `names`."""
    statement = "INSERT INTO payloads (name, expires, body) VALUES (?, 0, ?)"
    writing.run(statement, name, bytes(size))


def names(database: SqliteDatabase) -> set[str]:
    return {
        name for (name,) in database.read(lambda reading: reading.rows("SELECT name FROM payloads"))
    }
