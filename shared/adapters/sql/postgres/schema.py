"""
What PostgreSQL's schema has beside the tables of all databases.

Autovacuum looks early at tables whose rows come and go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
        """
        CREATE FUNCTION hold(wanted BIGINT, wanted_number BIGINT) RETURNS VOID LANGUAGE plpgsql AS
        $$ BEGIN
          IF NOT EXISTS (
            SELECT FROM processes WHERE id = wanted AND number = wanted_number AND NOT dead
            AND timeline = substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)
          ) THEN
            RAISE EXCEPTION 'process % is not alive any more, or has another number', wanted
            USING ERRCODE = 'PG001';
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
