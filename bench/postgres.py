"""Runs a PostgreSQL as it would be in production, and tells what its tables go through."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from shared.adapters.sql.postgres.connecting import SCHEMA
from testbed.postgres import DATABASE, PostgresServer, running_postgres

SHARED_BUFFERS = 128  # MB, PostgreSQL's own
_SETTINGS = ("fsync=on", "autovacuum=on", f"shared_buffers={SHARED_BUFFERS}MB")


@contextmanager
def running_database() -> Iterator[PostgresServer]:
    """Run one on a new temporary folder: it waits for its disk, and vacuums."""
    with running_postgres() as database:
        database.stop()
        database.start(*_SETTINGS)
        yield database


def count_claims(database: PostgresServer) -> None:
    """
    Count from now on the messages that are taken in hand after their birth, and the rows read.

    Read: all entries, dead or not, of the indexes by which claims look, up to the commit; so what
    others than claims read is not counted.
    """
    indexes = ", ".join(
        f"pg_stat_get_xact_tuples_returned('{SCHEMA}.messages_{each}'::regclass)"
        for each in ("due", "run", "deaths", "parked")
    )
    counted = "current_setting('bench.counted', true)"
    for statement in (
        f"CREATE SEQUENCE {SCHEMA}.claimed",
        f"CREATE SEQUENCE {SCHEMA}.read",
        f"""
        CREATE FUNCTION {SCHEMA}.count_claim() RETURNS TRIGGER LANGUAGE plpgsql AS
        $$ BEGIN
          PERFORM nextval('{SCHEMA}.claimed');
          IF {counted} IS DISTINCT FROM txid_current()::text THEN
            PERFORM set_config('bench.counted', txid_current()::text, true);
            PERFORM setval('{SCHEMA}.read', last_value + read)
              FROM {SCHEMA}.read AS told, (SELECT SUM(each)::bigint AS read
              FROM unnest(ARRAY[{indexes}]) AS each) AS now;
            PERFORM pg_stat_force_next_flush();
          END IF;
          RETURN NULL;
        END $$
        """,
        f"GRANT ALL ON SEQUENCE {SCHEMA}.claimed, {SCHEMA}.read TO PUBLIC",
        f"""
        CREATE CONSTRAINT TRIGGER claimed AFTER UPDATE OF run ON {SCHEMA}.messages
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
        WHEN (OLD.run <> NEW.run AND NEW.run > 0) EXECUTE FUNCTION {SCHEMA}.count_claim()
        """,
    ):
        database.do(statement, DATABASE)


def claims(database: PostgresServer) -> tuple[int, int]:
    """Return how many messages were claimed so far, and how many rows claims have read."""
    told = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM"
    claimed, read = (_number(database, f"{told} {SCHEMA}.{name}") for name in ("claimed", "read"))
    return claimed, read


def dead_rows(database: PostgresServer) -> int:
    """Return how many rows of messages and what belongs to them are dead and not removed."""
    dead = (
        "SELECT CAST(SUM(n_dead_tup) AS BIGINT) FROM pg_stat_user_tables"
        f" WHERE schemaname = '{SCHEMA}' AND relname IN ('messages', 'parts', 'message_payloads')"
    )
    return _number(database, dead)


def _number(database: PostgresServer, query: str) -> int:
    ((found,),) = database.do(query, DATABASE)
    return int(str(found))
