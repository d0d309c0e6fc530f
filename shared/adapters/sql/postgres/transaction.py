"""Transactions on a connection to PostgreSQL; in a pipeline, nobody waits who wants no result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import psycopg

from shared.adapters.sql.database import Catalogue, CountedIn, Row
from shared.adapters.sql.dialects import NUMBER_BITS, POSTGRESQL
from shared.metrics import Counts

LOCKED_MS = 3_000  # that a lock is waited for
IDLE_MS = 5_000  # of a transaction without a statement; in a pipeline: `END_SILENT`
_READ_MS = 4_000
_CATALOGUE = 0x50475244  # "PGRD": the first key of locks that are no process's
_BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
#: A plan that is made while a table is empty is kept as it grows. So reading all of it costs twice
#: as much as by an index, and what is read in order is not sorted: a bitmap would read all for it.
_PLANNING = "set_config('seq_page_cost', '8', true), set_config('enable_bitmapscan', 'off', true)"
_LOCAL = (
    f"SELECT set_config('search_path', $1, true), set_config('lock_timeout', '{LOCKED_MS}', true),"
    f" set_config('idle_in_transaction_session_timeout', '{IDLE_MS}', true),"
    f" {_PLANNING}"
)
_BEGIN_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_LOCAL_READ = f"{_LOCAL}, set_config('statement_timeout', '{_READ_MS}', true)"
#: Ends the sessions of this database that hold a process, or any of them, and whose client neither
#: says nor reads anything.
END_SILENT = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity JOIN pg_locks USING (pid)"
    " WHERE locktype = 'advisory' AND objsubid = 1"
    " AND (CAST(classid AS BIGINT) << 32 | CAST(objid AS BIGINT)) = ANY({})"
    " AND datname = current_database() AND wait_event IN ('ClientRead', 'ClientWrite')"
    " AND pg_has_role(usesysid, 'USAGE')"
    f" AND state_change < clock_timestamp() - INTERVAL '{IDLE_MS} ms'"
)
TIMELINE = "substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)"
NOT_ALIVE = "PG001"  # what `check_alive` raises, if a process is not alive any more
NOW_MICROS = "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)"  # the time now

RENEW = "UPDATE processes SET renewals = renewals + 1 WHERE id = ?"
_DEAD = f"UPDATE processes SET dead = TRUE, judged = {NOW_MICROS}"
MARK_DEAD, MARK_ALL_DEAD = f"{_DEAD} WHERE id = ?", f"{_DEAD} WHERE NOT dead"


class Process(NamedTuple):
    """A process as the others know it, under an id drawn at random."""

    id: int
    number: int  # only rises
    start: int  # which of all starts

    @property
    def run(self) -> int:
        """What stands with messages that it has in hand."""
        return self.id << NUMBER_BITS | self.number


class Transaction:
    """
    WriteTransaction on *connection*, which may be in a pipeline.

    *is_repeat*: what is stored may be stored already.
    """

    dialect = POSTGRESQL

    def __init__(
        self, connection: psycopg.Connection[Any], schema: str, *, is_repeat: bool = False
    ) -> None:
        self._connection = connection
        self._schema = schema
        self.is_repeat = is_repeat
        self.changes = 0  # statements that may have changed something
        self.counted: list[Mapping[CountedIn, Counts]] = []  # written before its commit

    def rows(self, statement: str, *parameters: object) -> list[Row]:
        self.changes += not statement.startswith("SELECT")
        return self.execute(statement, parameters).fetchall()

    def run(self, statement: str, *parameters: object) -> int:
        self.changes += 1
        cursor = self.execute(statement, parameters)
        try:
            cursor.fetchone()  # In a pipeline, this waits for the result.
        except psycopg.ProgrammingError as error:
            if error.sqlstate:
                raise
        return cursor.rowcount

    def send(self, statement: str, *parameters: object) -> None:
        self.changes += 1
        self.execute(statement, parameters)

    def run_all(self, statement: str, parameters: Iterable[Row]) -> None:
        for each in parameters:
            self.send(statement, *each)

    def count(self, counts: Mapping[CountedIn, Counts]) -> None:
        self.counted.append(counts)

    def execute(self, statement: str, parameters: Sequence[object] = ()) -> psycopg.Cursor[Any]:
        return self._connection.execute(numbered(statement), parameters or None)

    # ── Beginnings ──

    def begin(self, process: Process, catalogue: Catalogue = Catalogue.NONE) -> None:
        """
        Begin, and hold *process*: if it is not alive any more, this raises `NOT_ALIVE`.

        The lock has a statement of its own: a snapshot from before it would show a number that has
        changed by then.
        """
        self.execute(_BEGIN)
        hold = f"{_LOCAL}, pg_advisory_xact_lock_shared($2)"
        self.execute(hold, [self._schema, process.id])
        self.execute("SELECT check_alive($1, $2)", [process.id, process.number])
        if catalogue is not Catalogue.NONE:
            self.lock_catalogue(catalogue)

    def begin_without(self) -> None:
        """Begin, without a process."""
        self.execute(_BEGIN)
        self.execute(_LOCAL, [self._schema])

    def begin_reading(self) -> None:
        """Begin, to read what is there at one moment."""
        self.execute(_BEGIN_READ)
        self.execute(_LOCAL_READ, [self._schema])

    def exclude(self, process: int) -> None:
        """
        Wait until no transaction holds a process; first of all, since it waits for others.

        Sessions that hold it and have been silent are ended: in a pipeline the server is never
        idle, and waits for what is to come, or to be read, without a limit.
        """
        self.execute(END_SILENT.format("ARRAY[$1::bigint]"), [process])
        self.execute("SELECT pg_advisory_xact_lock($1)", [process])

    def end_silent(self) -> None:
        """End the sessions that hold a process, and have been silent."""
        self.execute(END_SILENT.format("ARRAY(SELECT id FROM processes)"))

    def lock_catalogue(self, catalogue: Catalogue) -> None:
        """Hold the catalogue of this schema until the end."""
        shared = "_shared" if catalogue is Catalogue.SHARED else ""
        lock = f"SELECT pg_advisory_xact_lock{shared}($1::int, hashtext($2))"
        self.execute(lock, [_CATALOGUE, self._schema])

    @property
    def timeline(self) -> str:
        """Which history of the server this is: another one after a failover or a restore."""
        return str(self.rows(f"SELECT {TIMELINE}")[0][0])


@cache
def numbered(statement: str) -> bytes:
    """Return a statement with ``$1`` and so on in place of ``?``."""
    first, *others = statement.split("?")
    text = first + "".join(f"${number}{each}" for number, each in enumerate(others, 1))
    return text.encode()
