"""
What PostgreSQL's schema has beside the tables of all databases, and how it comes up to date.

Autovacuum looks early at tables whose rows come and go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import psycopg

from shared import VERSION
from shared.adapters.sql.database import Catalogue, StoreRefused
from shared.adapters.sql.migrations import LATEST, migrations
from shared.adapters.sql.postgres.transaction import LOST, TIMELINE, Transaction

_MIGRATION_LOCK_MS = 60_000
_VACUUMED = (
    "autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,"
    " autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 1000,"
    " autovacuum_vacuum_cost_delay = 0"
)
#: A schema's tables after each step of `migrations`.
STATEMENTS: Mapping[int, Sequence[str]] = {
    1: (
        # A row a start: number: rises when a commit's outcome was unknown; renewals: changes while
        # it lives; start: which of all starts; timeline: of the server's history, as it began.
        # judged: when it was marked dead, in microseconds since 1970.
        """
        CREATE TABLE processes (
          id BIGINT PRIMARY KEY, number BIGINT NOT NULL, renewals BIGINT NOT NULL,
          start BIGINT NOT NULL, timeline TEXT NOT NULL, dead BOOLEAN NOT NULL DEFAULT FALSE,
          judged BIGINT
        )
        """,
        # Called in a statement of its own, after the process is locked: its snapshot is later.
        f"""
        CREATE FUNCTION hold(wanted BIGINT, wanted_number BIGINT) RETURNS VOID LANGUAGE plpgsql AS
        $$ BEGIN
          IF NOT EXISTS (
            SELECT FROM processes WHERE id = wanted AND number = wanted_number AND NOT dead
            AND timeline = {TIMELINE}
          ) THEN
            RAISE EXCEPTION 'process % is not alive any more, or has another number', wanted
            USING ERRCODE = '{LOST}';
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


def migrate(connection: psycopg.Connection[Any], schema: str, place: str) -> None:
    """
    Bring a schema of the database at *place* up to date; keep one that is newer.

    Raises:
        StoreRefused: it is of a program that this one is too old for.
    """
    transaction = Transaction(connection, schema)
    transaction.begin_without()
    transaction.execute(f"SET LOCAL lock_timeout = {_MIGRATION_LOCK_MS}")
    transaction.lock_catalogue(Catalogue.EXCLUSIVE)
    if not transaction.rows("SELECT 1 FROM pg_namespace WHERE nspname = ?", schema):
        transaction.execute(f'CREATE SCHEMA "{schema}"')
    number, oldest, program = 0, 0, ""
    if transaction.rows("SELECT to_regclass('migrations')") != [(None,)]:
        latest = "SELECT number, oldest, program FROM migrations ORDER BY number DESC LIMIT 1"
        ((number, oldest, program),) = transaction.rows(latest)
    if oldest > LATEST:
        raise StoreRefused(
            f"The database {place} was last used by a newer Pushgrid, and its schema can't be used "
            f"by this one ({VERSION}): it takes Pushgrid {program} or newer (schema {oldest}). "
            "Install that."
        )
    for each in migrations("postgresql"):
        if each.number > number:
            for statement in (*each.statements, *STATEMENTS.get(each.number, ())):
                transaction.execute(statement)
            transaction.run(
                "INSERT INTO migrations (number, oldest, program) VALUES (?, ?, ?)",
                *(each.number, each.oldest, each.program),
            )
    transaction.execute("COMMIT")
