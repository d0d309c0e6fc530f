"""Finds the database that a server is to use, and keeps its password out of sight."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, NamedTuple

from server.failure import CannotStart
from server.secret_files import IN_A_FILE, find_secret
from shared.errors import InvalidSettings
from shared.settings import STORE


class PostgresOptions(NamedTuple):
    """What the command line says of a database: libpq's *parameters*, and how to use it."""

    parameters: Mapping[str, Any]
    is_pooled: bool = False  # by a pool that gives each transaction another session
    allows_unsafe: bool = False  # though a crash would lose what was answered


def store_setting(environ: Mapping[str, str]) -> str | None:
    """Return the name of the variable that names a database, if one does."""
    names = (STORE, f"{STORE}{IN_A_FILE}")
    return next((each for each in names if environ.get(each, "").strip()), None)


def find_store(argument: str | None, environ: Mapping[str, str]) -> dict[str, Any] | None:
    """
    Return libpq's parameters of the database, by *argument* or else *environ*; ``None``: by none.

    Raises:
        CannotStart: it can't be read, or its password would be seen by others.
    """
    url = argument or find_secret(STORE, environ)
    if not url:
        return None
    if find_spec("psycopg") is None:
        raise CannotStart(
            "The package for PostgreSQL is not installed: pip install 'pushgrid[postgres]'."
        )
    from shared.adapters.sql.postgres.connecting import SECRETS, read_url

    name = "--store" if argument else store_setting(environ)
    try:
        found = read_url(url)
    except InvalidSettings as error:
        raise CannotStart(f"{name}: {error.message}") from None
    if argument and SECRETS & found.keys():
        raise CannotStart(
            "--store has a password, which every user of this machine sees in the list of "
            f"processes: set {STORE} or {STORE}{IN_A_FILE} instead, or give the password by "
            "PGPASSWORD or a password file (PGPASSFILE)."
        )
    return found
