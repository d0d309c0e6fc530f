"""Finds where a server's data is: in a folder, or in a database of PostgreSQL's."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from cli.failure import CommandFailed
from server.failure import CannotStart
from server.home import FolderHomeFactory, HomeFactory
from server.secret_files import IN_A_FILE
from server.store_url import PostgresOptions, find_store
from shared.adapters.sql.sqlite import reader
from shared.settings import STORE, Settings


class InFolder(NamedTuple):
    """What makes a home in a folder, and what `serve_command` calls *check_store*."""

    make: FolderHomeFactory
    check: Callable[[Path, Settings | None], str | None] = lambda _, __: None


Checks = dict[str, Callable[[Settings | None], object]]


def choose_home(
    data: Path | None,
    store: str | None,
    in_folder: InFolder,
    *,
    is_pooled: bool,
    allows_unsafe: bool,
) -> tuple[HomeFactory, Checks]:
    """
    Return what makes the home that was chosen, and what checks its store.

    Raises:
        CommandFailed: none was, or two were, or the URL can't be used.
    """
    chosen = _choose(data, store)
    if isinstance(chosen, Path):
        return partial(in_folder.make, chosen), {"data": partial(in_folder.check, chosen)}
    from server.postgres_home import PostgresHome, check_store

    options = PostgresOptions(chosen, is_pooled=is_pooled, allows_unsafe=allows_unsafe)
    return partial(PostgresHome, options), {"store": lambda _: check_store(options)}


def reading(data: Path | None, store: str | None) -> AbstractContextManager[Callable[..., Any]]:
    """
    Give what reads a store, whose server may run.

    Raises:
        CommandFailed: as `choose_home`.
        InvalidSettings: there is no store, or it can't be read.
    """
    chosen = _choose(data, store)
    if isinstance(chosen, Path):
        return reader.reading(chosen)
    from server.postgres_home import reading_of

    return reading_of(chosen)


def _choose(data: Path | None, store: str | None) -> Path | dict[str, Any]:
    """Return the folder, or libpq's parameters of the database."""
    if data and not store:
        return data
    try:
        parameters = None if data else find_store(store, os.environ)
    except CannotStart as error:
        raise CommandFailed(str(error)) from None
    if not parameters:
        raise CommandFailed(
            "name exactly one of --data FOLDER and --store URL "
            f"(or {STORE}, {STORE}{IN_A_FILE}): it is where everything is kept"
        )
    return parameters
