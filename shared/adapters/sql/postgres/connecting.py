"""Connects to PostgreSQL by libpq's ways, and says of what fails what to do; never a password."""

from __future__ import annotations

import logging
import math
import re
import socket
from collections.abc import Callable, Mapping
from os import dup
from random import SystemRandom
from time import monotonic
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import Conninfo
from psycopg.types.numeric import Int8Dumper

from shared.adapters.sql.database import StoreRefused
from shared.adapters.sql.postgres.schema import check_schema

SCHEMA = "pushgrid"
OLDEST, NEWEST = 14, 18  # versions of the server
# What fails is told by errors; some of it, psycopg logs as well.
logging.getLogger("psycopg").setLevel(logging.CRITICAL)
_DEFAULTS = {
    "application_name": "pushgrid",
    "client_encoding": "UTF8",  # a database in SQL_ASCII would answer bytes
    "connect_timeout": 10,
    "target_session_attrs": "read-write",
    # A server that is gone is noticed, also where it says nothing.
    "keepalives_idle": 10,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
_OF_HOSTS = ("host", "hostaddr", "port")  # a value, or one for each
_CHANCE = SystemRandom()
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0  # seconds between tries to connect, on average
#: The parameters that libpq itself would not show.
SECRETS = {each.keyword.decode() for each in Conninfo.get_defaults() if each.dispchar == b"*"}
#: Of a URL, user and password may have an @, / or : only as %40, %2F or %3A: else a part of the
#: password would be taken for the host or the database, and shown.
_AUTHORITY = re.compile(r"postgres(ql)?://([^@/]*@)?[^@/]*(/[^@/]*)?")


def read_url(text: str) -> dict[str, Any]:
    """
    Return libpq's parameters of a URL.

    Raises:
        StoreRefused: it is none; the message does not show it, since it may have a password.
    """
    if not text.startswith(("postgresql://", "postgres://")):
        raise StoreRefused(
            "The store is no URL of PostgreSQL: write postgresql://USER@HOST:PORT/DATABASE, with "
            "several hosts as HOST:PORT,HOST:PORT."
        )
    try:
        found = dict(conninfo_to_dict(text))
        if _AUTHORITY.fullmatch(text.partition("?")[0]):
            return found
    except psycopg.Error:
        pass  # its text may have the password
    raise StoreRefused(
        "The store's URL can't be read: write postgresql://USER@HOST:PORT/DATABASE, with libpq's "
        "parameters alone after ?, and @ : / ? in names and passwords as %40 %3A %2F %3F."
    )


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
        connect: Callable[..., psycopg.Connection[Any]] = psycopg.connect,
    ) -> None:
        self._parameters = {**_DEFAULTS, **parameters}
        self._hosts: Mapping[str, str] = {}  # of several, from the one on that has answered last
        self._prepares = prepares
        self._seconds = seconds
        self._chance = chance
        self._connect = connect
        self._pause, self._again_at, self._why = 0.0, -math.inf, ""

    @property
    def place(self) -> str:
        """Where the database is, for people."""
        known = self._parameters
        hosts = str(known.get("host") or known.get("hostaddr") or "this machine")
        return f"'{known.get('dbname') or known.get('user') or ''}' on {hosts}"

    def open(self) -> psycopg.Connection[Any]:
        """Connect. Raises psycopg.Error."""
        if self._seconds() < self._again_at:
            raise psycopg.OperationalError(f"not tried again yet: {self._why}")
        try:
            connection = self._connect(
                autocommit=True,
                prepare_threshold=5 if self._prepares else None,
                cursor_factory=psycopg.RawCursor,
                **{**self._parameters, **self._hosts},
            )
        except psycopg.Error as error:
            self._why = str(error)
            self._pause = min(2 * self._pause or _FIRST_PAUSE, _LONGEST_PAUSE)
            self._again_at = self._seconds() + self._pause * (0.5 + self._chance())
            raise
        self._pause = 0.0
        self._hosts = _as_from(self._parameters, connection)
        connection.adapters.register_dumper(int, Int8Dumper)
        return connection

    def check(self, *, allows_unsafe: bool = False) -> str | None:
        """Return what is doubtful. Raises StoreRefused: a server could not use the database."""
        try:
            with self.open() as connection:
                doubtful = check(connection, allows_unsafe=allows_unsafe)
                check_schema(connection, SCHEMA, self.place)
                return doubtful
        except psycopg.Error as error:
            raise self.refusal(error) from None

    def refusal(self, error: psycopg.Error) -> StoreRefused:
        """Say why the database can't be used, and what to do."""
        return StoreRefused(f"The database {self.place} can't be used: {self.said(error)}")

    def said(self, error: psycopg.Error) -> str:
        """Return the remedy if it is known, else libpq's text without secrets."""
        if remedy := _remedy(error):
            return remedy
        text = " ".join(str(error).split())
        for each in SECRETS & self._parameters.keys():
            text = text.replace(str(self._parameters[each]), "…")
        text = f"{text.rstrip('.')}."
        return text if error.sqlstate else f"{text} Correct the URL, or start the database."

    @staticmethod
    def detail(error: psycopg.Error) -> str:
        """Return for the log what to do, if that is known, and what has failed: it may be long."""
        return f"{_remedy(error)} {error}".strip()


_POOLED = (
    "it is reached through a pooler, such as PgBouncer, where prepared statements are those of "
    "others. Start with --pooled."
)
#: By SQLSTATE or by what libpq says before there is one; the first that fits counts.
_REMEDIES: tuple[tuple[str, str], ...] = (
    ("42P05$|26000$|didn't produce records", _POOLED),
    (
        "28P01|password authentication failed|no password supplied",
        (
            "role or password is wrong, or the password is missing. Set it by PUSHGRID_STORE_FILE, "
            "PGPASSWORD or a password file (PGPASSFILE)."
        ),
    ),
    (
        "no pg_hba.conf entry|pg_hba.conf rejects",
        (
            "its pg_hba.conf admits no such connection. Admit role, database and address there, "
            "or add sslmode=verify-full to the URL if it demands TLS."
        ),
    ),
    (
        "does not support SSL|certificate verify failed|root certificate file|not match host name",
        (
            "TLS is demanded (sslmode), and the server has none, or none that is trusted. Turn it "
            "on (ssl = on), name its authority with sslrootcert, or name the host as in its "
            "certificate."
        ),
    ),
    (
        "53300$|too many (clients|connections)|remaining connection slots",
        (
            "it has no free connection. Raise max_connections, or the CONNECTION LIMIT of role or "
            "database: each server takes 4."
        ),
    ),
    (
        'role ".*" does not exist|not permitted to log in',
        "there is no such role, or it may not log in: CREATE ROLE … LOGIN.",
    ),
    (
        "CONNECT privilege",
        "the role may not connect to it: GRANT CONNECT ON DATABASE … TO ….",
    ),
    (
        '3D000|database ".*" (does not exist|is not currently accepting)',
        "there is no such database, or it admits nobody: CREATE DATABASE … OWNER ….",
    ),
    (
        "42501$|3F000",
        (
            "the role may not make its schema, or another role owns it: GRANT CREATE ON DATABASE "
            f"… TO …, or ALTER SCHEMA {SCHEMA} OWNER TO … with its tables."
        ),
    ),
    ("42P01|42883", "no server has made its tables yet. Start one, or name its database."),
    (
        "could not translate host name|not known|failed to resolve",
        "its host has no address. Correct the name in the URL.",
    ),
    (
        "read-only|25006|during recovery",
        (
            "of its servers, those that answer are read-only. Start the primary, name it as well, "
            "or promote a standby."
        ),
    ),
    (
        "57P0[123]|starting up|shutting down|recovery mode|not (yet )?accepting connections",
        "it is starting or stopping. Try again once it answers.",
    ),
    (
        "55P03$|consuming input failed",
        (
            "it gave no answer, or somebody holds its tables, such as a dump or an open "
            "transaction: pg_stat_activity shows who. If its wait_event is SyncRep, commits wait "
            "for a synchronous standby: start it, or take it out of synchronous_standby_names."
        ),
    ),
    (
        "Connection refused|No such file|timeout expired|timed out",
        "nobody answers there. Start it, or correct host and port in the URL.",
    ),
)


def _remedy(error: psycopg.Error) -> str:
    text = f"{' '.join(str(error).split())} {error.sqlstate}"
    return next((remedy for sign, remedy in _REMEDIES if re.search(sign, text)), "")


def _as_from(
    parameters: Mapping[str, Any], connection: psycopg.Connection[Any]
) -> Mapping[str, str]:
    """
    Return the hosts of a URL with several, in turn from that of *connection* on.

    So only the first connection waits for a host that does not answer, such as a former primary's.
    """
    found = {each: str(parameters[each]).split(",") for each in _OF_HOSTS if each in parameters}
    for _ in range(max(map(len, found.values()), default=1) - 1):
        first = {each: values[0] for each, values in found.items()}
        here = connection.info.host, str(connection.info.port)
        if (first.get("host") or first.get("hostaddr"), first.get("port", here[1])) == here:
            break
        found = {each: [*values[1:], values[0]] for each, values in found.items()}
    return {each: ",".join(values) for each, values in found.items()}


def is_pooled(error: psycopg.Error) -> bool:
    """Tell whether a statement was not the one that had been prepared."""
    return _remedy(error) == _POOLED


def cut(connection: psycopg.Connection[Any]) -> None:
    """End a connection from another thread, which hangs; nothing is cancelled."""
    try:
        with socket.socket(fileno=dup(connection.fileno())) as end:
            end.shutdown(socket.SHUT_RDWR)
    except (OSError, psycopg.Error):  # It has ended.
        return


_SET_MODE = "Turn it on by ALTER ROLE … SET synchronous_commit = on"
ASK_SETTINGS = (  # of the server and the session
    "SELECT current_setting('synchronous_commit'), current_setting('fsync'),"
    " current_setting('synchronous_standby_names'),"
    " EXISTS (SELECT 1 FROM pg_stat_replication),"  # Most roles do not see who they are.
    " pg_backend_pid()"
)
_UNSAFE = (  # where the first two are off
    (
        "The database does not wait for the disk (synchronous_commit is off): its crash would lose "
        f"what was answered. {_SET_MODE}"
    ),
    (
        "The database does not sync its disk (fsync is off): a crash of its machine would lose "
        "what was answered, or all. Turn it on by ALTER SYSTEM SET fsync = on"
    ),
)


def check(connection: psycopg.Connection[Any], *, allows_unsafe: bool = False) -> str | None:
    """
    Check version and settings of the server, and the way to it; return what is doubtful.

    Raises:
        StoreRefused: it can't be used; the message says what to do.
    """
    version = connection.info.server_version // 10_000
    if not OLDEST <= version <= NEWEST:
        raise StoreRefused(
            f"The server is PostgreSQL {version}: use one from {OLDEST} to {NEWEST}."
        )
    ((*found, standbys, has_standby, session),) = connection.execute(ASK_SETTINGS).fetchall()
    # A pooler has sessions of its own, of which it tells other numbers.
    if connection.prepare_threshold is not None and session != connection.info.backend_pid:
        raise StoreRefused(f"The database can't be used: {_POOLED}")
    said = [text for value, text in zip(found, _UNSAFE, strict=True) if value == "off"]
    if said and not allows_unsafe:
        raise StoreRefused(f"{said[0]}, or start with --unsafe-store.")
    doubtful = [f"{each}; --unsafe-store allows it." for each in said]
    mode = found[0]
    if standbys and mode in ("local", "remote_write"):
        doubtful.append(
            f"Commits do not wait for the standby's disk (synchronous_commit is {mode}): what was "
            f"answered may be lost with the primary. {_SET_MODE}."
        )
    if standbys and not has_standby and mode not in ("off", "local"):
        doubtful.append(
            "No standby is connected, and each commit waits for one: publishers get 503. Start a "
            f"standby of synchronous_standby_names ('{standbys}'), or take it out there."
        )
    return " ".join(doubtful) or None
