"""Connects to PostgreSQL by libpq's ways, and says of what fails what to do; never a password."""

from __future__ import annotations

import logging
import math
import socket
from collections.abc import Callable, Mapping
from os import dup
from random import SystemRandom
from time import monotonic
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.numeric import Int8Dumper

from shared.errors import InvalidSettings

SCHEMA = "pushgrid"
OLDEST, NEWEST = 14, 18  # versions of the server
# What fails is told by errors; some of it, psycopg logs as well.
logging.getLogger("psycopg").setLevel(logging.CRITICAL)
_DEFAULTS = {
    "application_name": "pushgrid",
    "connect_timeout": 10,
    "target_session_attrs": "read-write",
    # A server that is gone is noticed, also where it says nothing.
    "keepalives_idle": 10,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
_CHANCE = SystemRandom()
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0  # seconds between tries to connect, on average


class PostgresRefused(InvalidSettings):
    """The database can't be used as it is; the message says what to do."""


def read_url(text: str) -> dict[str, Any]:
    """
    Return libpq's parameters of a URL.

    Raises:
        PostgresRefused: it is none; the message does not show it, since it may have a password.
    """
    if not text.startswith(("postgresql://", "postgres://")):
        raise PostgresRefused(
            "The store is no URL of PostgreSQL: write postgresql://USER@HOST:PORT/DATABASE, with "
            "several hosts as HOST:PORT,HOST:PORT."
        )
    try:
        return dict(conninfo_to_dict(text))
    except psycopg.Error:
        raise PostgresRefused(
            "The store's URL can't be read: write postgresql://USER@HOST:PORT/DATABASE, with "
            "libpq's parameters alone after ?, and @ : / ? in names and passwords as %40 %3A %2F "
            "%3F."
        ) from None


class Connecting:
    """
    Opens connections by the parameters of a URL, each for one thread at a time.

    After a failure none is tried for a while, by *seconds*: longer after each, and by *chance*
    (from 0 to 1) not as long as in other processes, which would all come back at the same moment.
    """

    def __init__(
        self,
        parameters: Mapping[str, Any],
        *,
        prepares: bool = True,
        seconds: Callable[[], float] = monotonic,
        chance: Callable[[], float] = _CHANCE.random,
    ) -> None:
        self._parameters = {**_DEFAULTS, **parameters}
        self._prepares = prepares
        self._seconds = seconds
        self._chance = chance
        self._pause, self._again_at = 0.0, -math.inf

    @property
    def place(self) -> str:
        """Where the database is, for people."""
        known = self._parameters
        hosts = str(known.get("host") or known.get("hostaddr") or "this machine")
        return f"'{known.get('dbname') or known.get('user') or ''}' on {hosts}"

    def open(self) -> psycopg.Connection[Any]:
        """Connect. Raises psycopg.Error."""
        if self._seconds() < self._again_at:
            raise psycopg.OperationalError("it was not reached just now, and is tried again soon")
        try:
            connection = psycopg.connect(
                autocommit=True,
                prepare_threshold=5 if self._prepares else None,
                cursor_factory=psycopg.RawCursor,
                **self._parameters,
            )
        except psycopg.Error:
            self._pause = min(2 * self._pause or _FIRST_PAUSE, _LONGEST_PAUSE)
            self._again_at = self._seconds() + self._pause * (0.5 + self._chance())
            raise
        self._pause = 0.0
        connection.adapters.register_dumper(int, Int8Dumper)
        return connection

    def check(self, *, allows_async: bool = False) -> None:
        """Raise PostgresRefused if the database can't be used."""
        try:
            with self.open() as connection:
                check(connection, allows_async=allows_async)
        except psycopg.Error as error:
            raise self.refusal(error) from None

    def refusal(self, error: psycopg.Error) -> PostgresRefused:
        """Say why the database can't be used, and what to do."""
        return PostgresRefused(f"The database {self.place} can't be used: {self._said(error)}")

    def _said(self, error: psycopg.Error) -> str:
        text = str(error)
        for signs, said in _REMEDIES:
            if error.sqlstate in signs or any(each in text for each in signs):
                return said
        first = " ".join(text.split())
        for secret in (self._parameters.get("password"),):
            if secret:
                first = first.replace(str(secret), "…")
        return f"{first} Correct the URL, or start the database."


#: By SQLSTATE, or by what libpq says before there is one. The first that fits counts.
_REMEDIES: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("28P01", "password authentication failed", "no password supplied"),
        (
            "role or password is wrong, or the password is missing. Set it by PUSHGRID_STORE_FILE, "
            "PGPASSWORD or a password file (PGPASSFILE)."
        ),
    ),
    (
        ("no pg_hba.conf entry",),
        (
            "its pg_hba.conf admits no such connection. Admit role, database and address there, "
            "or add sslmode=verify-full to the URL if it demands TLS."
        ),
    ),
    (
        ("does not support SSL", "certificate verify failed", "root certificate file"),
        (
            "TLS is demanded (sslmode), and the server has none, or none that is trusted. Turn it "
            "on (ssl = on), or name its authority with sslrootcert."
        ),
    ),
    (("28000", 'role "'), "there is no such role, or it may not log in: CREATE ROLE … LOGIN."),
    (("3D000", 'database "'), "there is no such database: CREATE DATABASE … OWNER …."),
    (("42501",), "the role may not make its schema: GRANT CREATE ON DATABASE … TO …."),
    (
        ("could not translate host name", "not known", "failed to resolve"),
        "its host has no address. Correct the name in the URL.",
    ),
    (("read-only", "25006"), "each of its servers is read-only. Name the primary as well."),
    (
        ("Connection refused", "No such file", "timeout expired", "timed out"),
        "nobody answers there. Start it, or correct host and port in the URL.",
    ),
    (("53300", "too many clients"), "it has no free connection. Raise max_connections."),
)


def cut(connection: psycopg.Connection[Any]) -> None:
    """End a connection from another thread, which hangs; nothing is cancelled."""
    try:
        with socket.socket(fileno=dup(connection.fileno())) as end:
            end.shutdown(socket.SHUT_RDWR)
    except (OSError, psycopg.Error):  # It has ended.
        return


def check(connection: psycopg.Connection[Any], *, allows_async: bool = False) -> None:
    """
    Check version and settings of the server.

    Raises:
        PostgresRefused: it can't be used; the message says what to do.
    """
    version = connection.info.server_version // 10_000
    if not OLDEST <= version <= NEWEST:
        raise PostgresRefused(
            f"The server is PostgreSQL {version}: use one from {OLDEST} to {NEWEST}."
        )
    ((mode,),) = connection.execute("SHOW synchronous_commit").fetchall()
    if mode == "off" and not allows_async:
        raise PostgresRefused(
            "The database does not wait for the disk (synchronous_commit is off): its crash would "
            "lose what was answered. Turn it on by ALTER ROLE … SET synchronous_commit = on, or "
            "start with --unsafe-store."
        )
