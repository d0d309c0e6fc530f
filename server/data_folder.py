"""Takes the folder with a server's data: its own, and readable by nobody else."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from server.failure import CannotStart

MARK = "pushgrid.txt"  # says whose folder it is
KEY = "admin-key"
_TEXT = "The data of 'pushgrid serve'. Do not copy single files: docs/self-hosting.md.\n"
_LEFT_ALONE = {MARK, "lost+found"}  # the second: the folder is a file system's root
_PARTIAL = f".{MARK}-"  # a first start was killed
_PRIVATE = 0o700
_SHOWN = 3


def check_folder(folder: Path) -> None:
    """
    Return if *folder* is a server's, or can become one; nothing is changed.

    Raises:
        CannotStart: it is not a folder, belongs to somebody else, or can't be used.
    """
    try:
        found = folder.stat()
    except FileNotFoundError:
        _check_parent(folder)
        return
    except OSError as error:
        raise _unusable(folder, error) from None
    if not stat.S_ISDIR(found.st_mode):
        raise CannotStart(f"--data {folder} is not a folder: name one, or one that can be made.")
    if found.st_uid != os.geteuid():
        raise CannotStart(
            f"--data {folder} belongs to another user (id {found.st_uid}): run the server as that "
            "user, or name a folder in it that the server can make."
        )
    try:
        names = sorted(each.name for each in folder.iterdir())
    except OSError as error:
        raise _unusable(folder, error) from None
    _refuse_links(folder)
    others = [each for each in names if each not in _LEFT_ALONE and not each.startswith(_PARTIAL)]
    if others and MARK not in names:
        shown = ", ".join(others[:_SHOWN]) + (", …" if len(others) > _SHOWN else "")
        raise CannotStart(
            f"--data {folder} has files that are not Pushgrid's ({shown}): name an empty folder, "
            "or one that can be made."
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        raise CannotStart(f"--data {folder} can't be written to: make it writable for this user.")


def _refuse_links(folder: Path) -> None:
    """What the server deletes, locks and syncs has to be in its folder."""
    if links := sorted(each.name for each in folder.iterdir() if each.is_symlink()):
        raise CannotStart(
            f"--data {folder} has symbolic links ({', '.join(links)}): put the files themselves "
            "there, or name the folder that has them."
        )


def lost(folder: Path) -> str:
    """Say of a *folder* that a server has had, and has no database, what to do."""
    return (
        f"'{folder}' is a server's, but has no database: a server begins there with nothing. If "
        f"there was one, bring back a copy: pushgrid restore FILE --data {folder}"
    )


def take_folder(folder: Path) -> bool:
    """
    Make *folder* the server's, which `check_folder` has found usable: 0700, with its mark.

    Return whether it was nobody's before.

    Raises:
        CannotStart: the system refuses.
    """
    try:
        folder.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
        if stat.S_IMODE(folder.stat().st_mode) != _PRIVATE:
            folder.chmod(_PRIVATE)
        return _write_new(folder / MARK, _TEXT)
    except OSError as error:
        raise _unusable(folder, error) from None


def admin_key(folder: Path) -> str:
    """
    Return the admin key of *folder*; it is made if there is none.

    Raises:
        CannotStart: the file can't be read, or has no key.
    """
    path = folder / KEY
    try:
        _write_new(path, f"{secrets.token_urlsafe(32)}\n")
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            path.chmod(0o600)
        return read_admin_key(folder)
    except OSError as error:
        raise CannotStart(f"{path} can't be used ({error.strerror}): correct that.") from None


def drop_admin_key(folder: Path, valid: Collection[str | None]) -> None:
    """Delete the admin key of *folder*, which an operator's has replaced, if it is not *valid*."""
    with suppress(OSError, CannotStart):  # whoever can't read it does not print it either
        if read_admin_key(folder) not in valid:
            (folder / KEY).unlink()


def read_admin_key(folder: Path) -> str:
    """
    Return the admin key of *folder*.

    Raises:
        OSError: there is none that this user may read.
        CannotStart: the file has no key.
    """
    path = folder / KEY
    text = path.read_text("utf-8", "replace").strip()
    if not (text and text.isascii() and text.isprintable()):
        raise CannotStart(f"{path} has no key: delete it, and the server makes a new one.")
    return text


def _write_new(path: Path, text: str) -> bool:
    """Write a file that only this user may read, durably; ``False``: it exists."""
    partial = path.with_name(f".{path.name}-{os.getpid()}")
    if path.exists():
        return False
    with suppress(FileNotFoundError):
        partial.unlink()
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    try:
        with suppress(FileExistsError):  # another server was first
            os.link(partial, path)
    finally:
        partial.unlink()
    sync_folder(path.parent)
    return True


def sync_folder(folder: Path) -> None:
    """Make durable which files *folder* has."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def existing(folder: Path) -> Path:
    """Return *folder*, or the nearest folder above that exists."""
    return next(each for each in (folder, *folder.parents) if each.exists())


def _check_parent(folder: Path) -> None:
    above = existing(folder)
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise CannotStart(
            f"--data {folder} can't be made, because {above} is not a folder that this user may "
            "write to: name another one, or make it for this user."
        )


def _unusable(folder: Path, error: OSError) -> CannotStart:
    return CannotStart(f"--data {folder} can't be used ({error.strerror}): name another folder.")
