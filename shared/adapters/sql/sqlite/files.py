"""Opens the file of a database, tells its schema, copies it, and says what is wrong with it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import apsw

from shared.adapters.sql.database import Row, StoreRefused
from shared.adapters.sql.migrations import last_migration
from shared.adapters.sql.sqlite.folder import FILE_MODE, Folder, sync
from shared.errors import StorageUnavailable

APPLICATION = 0x50475244  # "PGRD", in the file's header
BUSY_MS = 5_000
_WAY_BACK = (
    ", or, by 'pushgrid restore', take a copy of before from the folder 'backups' beside it, which "
    "lacks what came after it"
)


class Broken(Exception):
    """The connection has failed: what it has written since the last commit may not be stored."""


def connect(database: Path, vfs: str | None = None) -> apsw.Connection:
    """Connect to the file of a database, which *vfs* opens. Raises apsw.Error."""
    return apsw.Connection(str(database), apsw.SQLITE_OPEN_READWRITE, vfs)


Connect = Callable[[Path], apsw.Connection]


def schema_of(rows: Callable[[str], Sequence[Row]], database: Path) -> int:
    """
    Return the number of the last migration of a database, 0 if it is new.

    Raises:
        StoreRefused: it takes a program that knows more of them than this one.
    """
    if not rows("SELECT 1 FROM sqlite_schema WHERE name = 'migrations'"):
        return 0
    return last_migration(rows, f"'{database}'", _WAY_BACK)


def open_file(database: Path, connect: Connect) -> apsw.Connection:
    opened = connect(database)
    opened.set_busy_timeout(BUSY_MS)
    return opened


def copy_file(database: Path, path: Path, connect: Connect = connect) -> None:
    """Write a copy of the database, by a connection of its own, while others write."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE))
    with closing(open_file(database, connect)) as source:
        source.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)  # a server alone does that
        source.execute("VACUUM INTO ?", (str(path),)).fetchall()
    sync(path)
    sync(path.parent)
    with closing(apsw.Connection(str(path), apsw.SQLITE_OPEN_READONLY)) as copy:
        if (found := copy.execute("PRAGMA quick_check(1)").fetchall()) != [("ok",)]:
            raise apsw.CorruptError(str(found))


@contextmanager
def refused(folder: Folder) -> Iterator[None]:
    """Say of what fails at a start what to do."""
    try:
        yield
    except (apsw.Error, Broken, StorageUnavailable) as error:
        raise refusal_of(error, folder.database) from error


def refusal_of(error: Exception, database: Path) -> StoreRefused:
    """Say of what has failed at a start what to do."""
    return StoreRefused(_sentence(f"'{database}'", error.__cause__ or error, str(error)))


def _sentence(where: str, cause: BaseException, why: str) -> str:
    match cause:
        case apsw.NotADBError():
            return f"{where} is no SQLite database. Name another folder, or restore a backup."
        case apsw.BusyError() | apsw.LockedError():
            return f"{where} is locked by another program. Stop that program."
        case apsw.FullError():
            return f"The disk of {where} is full. Make room on it."
        case apsw.ReadOnlyError() | apsw.CantOpenError() | apsw.PermissionsError():
            return f"{where} can't be written. Let it belong to the server's user."
        case apsw.Error():
            why = said(cause)
    return f"{where} can't be used: {why}. Check the disk, or restore a backup."


def said(error: apsw.Error) -> str:
    return f"{type(error).__name__}: {error}"
