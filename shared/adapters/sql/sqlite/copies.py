"""Copies a store, and restores a copy."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import apsw

from shared.adapters.sql.database import StoreRefused
from shared.adapters.sql.sqlite.files import APPLICATION, copy_file, schema_of
from shared.adapters.sql.sqlite.folder import (
    BACKUPS,
    DATABASE,
    FILE_MODE,
    Folder,
    sync,
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
            copy_file(database, partial)
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
            if found != [APPLICATION, "ok"]:
                raise StoreRefused(f"'{copy}' is no copy of a store, or is damaged: {found}")
            schema_of(lambda statement: source.execute(statement).fetchall(), copy)
            found_good()
            folder = Folder(path)
            undone.callback(folder.release)
            written = folder.backup_path("restored")
            source.execute("VACUUM INTO ?", (str(written),)).fetchall()
            written.chmod(FILE_MODE)
            return folder.replace_database(written)
    except apsw.Error as error:
        raise StoreRefused(f"'{copy}' can't be restored: {error}") from error
