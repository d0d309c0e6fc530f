"""Finds where a server's data is: in a folder, or in a database of PostgreSQL's."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import click

from cli.failure import CommandFailed
from server.failure import CannotStart
from server.home import FolderHomeFactory, HomeFactory
from server.store_url import PostgresOptions, find_store
from shared.adapters.sql.sqlite import reader
from shared.settings import Settings

#: Where the data is, of a command beside the server.
data_option = click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="The folder of 'pushgrid serve'.",
)
store_option = click.option(
    "--store",
    metavar="URL",
    help="The database of 'pushgrid serve', without a password.",
)


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
    chosen = _choose(data, store, is_pooled=is_pooled, allows_unsafe=allows_unsafe)
    if isinstance(chosen, Path):
        return partial(in_folder.make, chosen), {"data": partial(in_folder.check, chosen)}
    from server.postgres_home import PostgresHome, check_store

    return partial(PostgresHome, chosen), {"store": lambda _: check_store(chosen)}


def reading(data: Path | None, store: str | None) -> AbstractContextManager[Callable[..., Any]]:
    """
    Give what reads a store, whose server may run.

    Raises:
        CommandFailed: as `choose_home`.
        InvalidSettings: there is no store, or it can't be read.
    """
    chosen = _choose(data, store, is_pooled=True, allows_unsafe=True)
    if isinstance(chosen, Path):
        return reader.reading(chosen)
    from server.postgres_home import reading_of

    return reading_of(chosen)


def _choose(
    data: Path | None, store: str | None, *, is_pooled: bool, allows_unsafe: bool
) -> Path | PostgresOptions:
    if data and not store:
        return data
    try:
        parameters = None if data else find_store(store, os.environ)
    except CannotStart as error:
        raise CommandFailed(str(error)) from None
    if not parameters:
        raise CommandFailed("name either --data FOLDER or --store URL: it has all data")
    return PostgresOptions(parameters, is_pooled=is_pooled, allows_unsafe=allows_unsafe)
