"""`pushgrid backup` and `restore`: copies of a server's folder."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path

import click

from cli.failure import REFUSED, CommandFailed
from cli.options import with_options
from cli.serving.places import reading
from cli.terminal import say
from server.data_folder import check_folder, take_folder
from server.failure import CannotStart
from server.store_url import store_setting
from shared.adapters.sql.database import StoreRefused
from shared.adapters.sql.dead_letters import blobs_after
from shared.adapters.sql.sqlite import copies
from shared.errors import InvalidSettings

#: Ends the name of a file with what is stored beside a blob: {"written": TIME, "metadata": {}}.
METADATA = ".metadata"
#: Ends the name of a file that is not whole: its export was killed.
PARTIAL = ".part"
_AT_ONCE = 100  # blobs that are read together
_FILE = click.Path(dir_okay=False, path_type=Path)
_names_folder = with_options(
    click.option(
        "--data",
        type=click.Path(file_okay=False, path_type=Path),
        metavar="FOLDER",
        help="The folder of 'pushgrid serve'.",
    ),
    click.option("--store", hidden=True),  # refused, with what copies a database
)
_IN_POSTGRESQL = (
    "PostgreSQL copies a database itself: pg_dump one moment, pg_basebackup with archived WAL any "
    "moment. Start servers on a restored copy with --hold; 'Copies of a database' in "
    "docs/postgresql.md says how"
)


def _folder(data: Path | None, store: str | None) -> Path:
    """Return the folder that is to be copied. Raises CommandFailed: it is none."""
    if store or (not data and store_setting(os.environ)):
        raise CommandFailed(_IN_POSTGRESQL)
    if not data:
        raise CommandFailed("name --data FOLDER: it is where everything is kept")
    return data


def export_blobs(data: Path | None, store: str | None, folder: Path) -> int:
    """
    Write a server's dead letters to *folder*, readable by this user; return how many.

    What is stored beside a blob is in a file beside its own. A file that is there stays as it is.

    Raises:
        CommandFailed: there is no store, or *folder* can't be written to.
    """
    count, last = 0, ("", "")
    try:
        with reading(data, store) as read:
            _make(folder)
            while found := read(lambda reading: blobs_after(reading, *last, _AT_ONCE)):  # noqa: B023 - called at once
                for each in found:
                    path = folder / each.container / each.path
                    known = {"written": each.written.isoformat(), "metadata": each.metadata}
                    _write(path.with_name(path.name + METADATA), json.dumps(known).encode())
                    _write(path, each.body)
                last, count = found[-1][:2], count + len(found)
    except InvalidSettings as error:
        raise CommandFailed(error.message, REFUSED) from None
    return count


def _make(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def _write(path: Path, body: bytes) -> None:
    _make(path.parent)
    if path.exists():  # a blob never changes
        return
    part = path.with_name(path.name + PARTIAL)
    part.unlink(missing_ok=True)
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(body)
    part.rename(path)


@click.command("backup")
@click.argument("file", type=_FILE)
@_names_folder
def backup(file: Path, data: Path | None, store: str | None) -> None:
    """
    Write a copy of a server's data to FILE.

    The server may run: the copy is of one moment, synced and checked. It holds all keys and
    secrets, so it is readable by this user alone. A database is copied by PostgreSQL's programs.
    """
    data = _folder(data, store)
    try:
        copies.back_up(data, file)
    except StoreRefused as error:
        raise CommandFailed(error.message, REFUSED) from None
    say(f"{file}: {file.stat().st_size} bytes. It holds keys: keep it as secret as they are.")


@click.command("restore")
@click.argument("file", type=_FILE)
@_names_folder
def restore(file: Path, data: Path | None, store: str | None) -> None:
    """
    Let a server's folder have the data of a copy.

    No server may run on it. What the folder had is kept in its folder "backups". The server then
    has forgotten what came after the copy, such as deliveries and new keys: start it with --hold.
    A database is restored by PostgreSQL's programs.
    """
    data = _folder(data, store)
    try:
        check_folder(data)
        former = copies.restore(data, file, partial(take_folder, data))
    except (CannotStart, StoreRefused) as error:
        said = error.message if isinstance(error, StoreRefused) else str(error)
        raise CommandFailed(said, REFUSED) from None
    say(f"{data} has the data of {file}{f'; what it had is in {former}' if former else ''}.")
    say(f"Next: pushgrid serve --data {data} --hold")
