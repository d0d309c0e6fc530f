"""The folder of a store: one server has it, and nobody else reads it."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from shared.adapters.sql.database import StoreRefused

DATABASE = "pushgrid.db"
BACKUPS = "backups"
_NEXT = "next.db"  # in the folder of a former database: what replaces it
_LOCK = "lock"
_FOLDER_MODE, FILE_MODE = 0o700, 0o600


def sync(path: Path) -> None:
    """Make safe what a file has, or which files a folder has."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        # macOS: a plain sync leaves data in the drive's cache.
        fcntl.fcntl(descriptor, getattr(fcntl, "F_FULLFSYNC", fcntl.F_GETFD))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def check_free(path: Path) -> None:
    """Return if no server has the folder *path*; nothing is made. Raises StoreRefused."""
    try:
        descriptor = os.open(path / _LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # nobody ever had it, or this user can't: others say that
        return
    _lock(descriptor, path, fcntl.LOCK_SH)
    os.close(descriptor)


def _lock(descriptor: int, path: Path, kind: int) -> None:
    """Lock the folder *path* by the file of *descriptor*, which is closed if that is refused."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
        os.close(descriptor)
        raise StoreRefused(
            f"Another server (process {holder or 'unknown'}) has the folder '{path}'. "
            "Stop it, or name another folder: a folder has one server."
        ) from error


def waiting(path: Path) -> Sequence[Path]:
    """Return what the next `Folder` makes the database of the folder *path*: a killed restore's."""
    return list(path.glob(f"{BACKUPS}/*/{_NEXT}"))


def refuse_link(path: Path) -> None:
    """Raise StoreRefused if a file of the store stands elsewhere: others have to be beside it."""
    if path.is_symlink():
        raise StoreRefused(
            f"'{path}' is a symbolic link. Name the folder that has the database itself."
        )


class Folder:
    """
    A folder that this process has for itself until `release`; it is made if it is missing.

    Raises:
        StoreRefused: another server has it, its database is a link, or it can't be used.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.database = path / DATABASE
        for each in (self.database, path / _LOCK):
            refuse_link(each)
        try:
            path.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
            self._be_private()
            self._lock = self._locked()
        except OSError as error:
            raise StoreRefused(
                f"The folder '{path}' can't be used: {error.strerror}. Name a folder that belongs "
                "to the server's user, and is writable."
            ) from error
        try:
            self._go_on_replacing()
            self._make_private(self.database)
        except OSError as error:
            self.release()
            raise StoreRefused(
                f"'{self.database}' can't be used: {error.strerror}. Let it belong to the "
                "server's user."
            ) from error

    def release(self) -> None:
        """Let another server have the folder."""
        os.close(self._lock)

    @property
    def free_bytes(self) -> int:
        """What the file system has left for this user."""
        return shutil.disk_usage(self.path).free

    def backup_path(self, name: str) -> Path:
        """Return where a copy of the database may be written: no file is there."""
        folder = self.path / BACKUPS
        folder.mkdir(mode=_FOLDER_MODE, exist_ok=True)
        numbers = range(len(list(folder.iterdir())) + 1)
        paths = (folder / f"{name}{f'-{number}' if number else ''}.db" for number in numbers)
        return next(path for path in paths if not path.exists())

    def replace_database(self, written: Path) -> Path | None:
        """
        Let the file *written* be the database; return the folder of the former one, with its WAL.

        ``None``: there was none.

        A kill or power failure midway loses nothing: the next `Folder` goes on.
        """
        backups = self.backup_path("replaced").parent
        numbers = range(len(list(backups.iterdir())) + 1)
        former = next(
            path for path in (backups / f"replaced-{each}" for each in numbers) if not path.exists()
        )
        former.mkdir(mode=_FOLDER_MODE)
        sync(written)
        written.rename(former / _NEXT)
        self._go_on_replacing()
        if any(each.stat().st_size for each in former.iterdir()):
            return former
        shutil.rmtree(former)  # only the file that `Folder` has made
        return None

    def _go_on_replacing(self) -> None:
        """Move the database beside the one that waits to replace it, if one does, and that here."""
        for found in waiting(self.path):
            former = found.parent
            folders = former, former.parent, self.path
            for each in folders:
                sync(each)
            for path in sorted(self.path.glob(f"{DATABASE}*")):
                path.rename(former / path.name)
            for each in folders:
                sync(each)
            found.rename(self.database)
            sync(self.path)

    def _be_private(self) -> None:
        found = self.path.stat()
        if found.st_uid != os.geteuid():
            raise StoreRefused(
                f"The folder '{self.path}' belongs to another user. Name one that belongs to the "
                "server's user, or run the server as that user."
            )
        if found.st_mode & 0o077:
            self.path.chmod(_FOLDER_MODE)

    def _locked(self) -> int:
        """Return the descriptor of the lock, which ends with the process."""
        descriptor = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        _lock(descriptor, self.path, fcntl.LOCK_EX)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        return descriptor

    @staticmethod
    def _make_private(path: Path) -> None:
        """Make the file before SQLite does: those beside it get its permissions."""
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE))
        if path.stat().st_mode & 0o077:
            path.chmod(FILE_MODE)
