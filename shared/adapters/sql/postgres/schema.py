"""
What PostgreSQL's schema has beside the tables of all databases, and how it comes up to date.

Autovacuum looks early at tables whose rows come and go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
from psycopg.errors import InsufficientPrivilege, LockNotAvailable

from shared import telemetry
from shared.adapters.sql.database import Catalogue, ReadTransaction
from shared.adapters.sql.migrations import last_migration, migrations
from shared.adapters.sql.postgres.transaction import MARK_ALL_DEAD, NOT_ALIVE, TIMELINE, Transaction
from shared.engine.ports import Threads

_LOCKED_MS = 500  # that servers wait behind a migration which waits itself
_PAUSE, _WAITED_FOR = 3.0, 60.0  # seconds between tries, and of all
_VACUUMED = (
    "autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,"
    " autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 1000,"
    " autovacuum_vacuum_cost_delay = 0"
)
#: A schema's tables after each step of `migrations`.
STATEMENTS: Mapping[int, Sequence[str]] = {
    1: (
        # A row a start: number: rises with each new connection that writes, since of the former
        # one a commit may be unknown, and since the database may have been restored; renewals:
        # changes while it lives; start: which of all starts; timeline: of the server's history, as
        # it began.
        # judged: when it was marked dead, in microseconds since 1970.
        """
        CREATE TABLE processes (
          id BIGINT PRIMARY KEY, number BIGINT NOT NULL, renewals BIGINT NOT NULL,
          start BIGINT NOT NULL, timeline TEXT NOT NULL, dead BOOLEAN NOT NULL DEFAULT FALSE,
          judged BIGINT
        )
        """,
        # Called in a statement of its own, after the process is locked: its snapshot is later.
        # Fewer renewals, as a restore leaves them, are seen by who takes the next number.
        f"""
        CREATE FUNCTION check_alive(wanted BIGINT, wanted_number BIGINT) RETURNS VOID
        LANGUAGE plpgsql AS $$ BEGIN
          IF NOT EXISTS (
            SELECT FROM processes WHERE id = wanted AND number = wanted_number AND NOT dead
            AND timeline = {TIMELINE}
          ) THEN
            RAISE EXCEPTION 'process % is not alive any more, or has another number', wanted
            USING ERRCODE = '{NOT_ALIVE}';
          END IF;
        END $$
        """,
        # The days that attempts have a partition for; in microseconds since 1970.
        "CREATE TABLE attempt_days (day BIGINT PRIMARY KEY)",
        "ALTER TABLE messages ALTER COLUMN body SET STORAGE EXTERNAL",
        "ALTER TABLE payloads ALTER COLUMN body SET STORAGE EXTERNAL",
        *(
            f"ALTER TABLE {table} SET ({_VACUUMED})"
            for table in ("messages", "parts", "message_payloads", "parked", "documents", "state")
        ),
        "ALTER TABLE processes SET (fillfactor = 50, autovacuum_vacuum_threshold = 50)",
    ),
}


#: Whether a role may make the schema, or all that it needs in it.
_MAY = """
    SELECT COALESCE(
      (SELECT has_schema_privilege(oid, 'USAGE') AND has_schema_privilege(oid, 'CREATE')
       FROM pg_namespace WHERE nspname = ?),
      has_database_privilege(current_database(), 'CREATE')
    ) AND NOT EXISTS (
      SELECT 1 FROM pg_tables WHERE schemaname = ? AND NOT pg_has_role(tableowner, 'USAGE')
    )
"""


def schema_of(transaction: ReadTransaction, place: str) -> int:
    """
    Return the number of the last migration of the database at *place*, 0 if it is new.

    Raises:
        StoreRefused: it takes a program that knows more of them than this one.
    """
    # By a table of the server's: else a schema is not seen that was made while a lock was awaited.
    if transaction.rows("SELECT to_regclass('migrations') FROM pg_namespace LIMIT 1") == [(None,)]:
        return 0
    return last_migration(transaction.rows, f"The database {place}")


def check_schema(connection: psycopg.Connection[Any], schema: str, place: str) -> None:
    """
    Return if a server could bring a schema up to date; nothing is locked.

    Raises:
        StoreRefused: it is of a program that this one is too old for.
        psycopg.Error: the role may not make it, or another role owns it.
    """
    transaction = Transaction(connection, schema)
    transaction.begin_reading()
    schema_of(transaction, place)
    if transaction.rows(_MAY, schema, schema) != [(True,)]:
        raise InsufficientPrivilege
    transaction.execute("COMMIT")


def migrate(connection: psycopg.Connection[Any], schema: str, place: str, threads: Threads) -> None:
    """
    Bring a schema of the database at *place* up to date; keep one that is newer.

    While somebody holds its tables, servers that run are kept waiting for moments only.

    Raises:
        StoreRefused: it is of a program that this one is too old for.
        psycopg.Error: it can't be done, or somebody holds the tables for long.
    """
    give_up_at = threads.monotonic() + _WAITED_FOR
    while True:
        try:
            _migrate(connection, schema, place)
        except LockNotAvailable:
            connection.execute("ROLLBACK")
            if threads.monotonic() >= give_up_at:
                raise
            telemetry.warning("store.migration_waits", schema=schema)
            threads.sleep(_PAUSE)
        else:
            return


def _migrate(connection: psycopg.Connection[Any], schema: str, place: str) -> None:
    transaction = Transaction(connection, schema)
    transaction.begin_without()
    number, steps = schema_of(transaction, place), migrations("postgresql")
    done = [each for each in steps if each.number <= number]
    todo = steps[len(done) :]
    if not todo:
        transaction.execute("COMMIT")
        return
    transaction.execute(f"SET LOCAL lock_timeout = {_LOCKED_MS}")
    if done:
        transaction.end_silent()  # Else a server that stands still keeps its tables for good.
        if todo[-1].oldest > done[-1].oldest:
            _end_processes(transaction)
    transaction.lock_catalogue(Catalogue.EXCLUSIVE)
    if schema_of(transaction, place) != number:  # Another server was first.
        transaction.execute("ROLLBACK")
        _migrate(connection, schema, place)
        return
    if not transaction.rows("SELECT 1 FROM pg_namespace WHERE nspname = ?", schema):
        transaction.execute(f'CREATE SCHEMA "{schema}"')
    for each in todo:
        for statement in (*each.statements, *STATEMENTS.get(each.number, ())):
            transaction.execute(statement)
        transaction.run(
            "INSERT INTO migrations (number, oldest, program) VALUES (?, ?, ?)",
            *(each.number, each.oldest, each.program),
        )
    transaction.execute("COMMIT")


def _end_processes(transaction: Transaction) -> None:
    """
    Let all that run begin anew, of which those that are too old are refused.

    Each transaction of theirs has read the table, and each start has written to it before it looks
    for the schema: so this waits for what is under way, before the catalogue is held, as they do.
    """
    transaction.execute("LOCK TABLE processes")
    transaction.send(MARK_ALL_DEAD)
