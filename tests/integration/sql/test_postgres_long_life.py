"""What keeps a database on PostgreSQL quick over months."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from threading import Event, Thread
from typing import Any

import pytest

from pushgrid.testing.memory import START, FakeClock
from shared.adapters.sql.dialects import POSTGRESQL
from shared.adapters.sql.postgres.store import PostgresStore
from shared.adapters.sql.postgres.transaction import Transaction
from shared.engine.ports import Queue
from shared.errors import StorageUnavailable
from tests.builders import NEVER, a_record
from tests.integration.sql.databases import Schema
from tests.integration.sql.test_leases import prime
from tests.postgres_server import PostgresServer

DAY = timedelta(days=1)


@pytest.fixture
def schema(postgres: PostgresServer) -> Schema:
    return Schema(postgres)


@pytest.mark.parametrize("statement", [POSTGRESQL.left, POSTGRESQL.suspects])
def test_a_look_for_what_the_dead_had_reads_nothing_that_waits(
    schema: Schema, statement: str
) -> None:
    """However much waits, or is in hand: a look is made more than once a second."""
    with schema.store() as store:

        async def put() -> None:
            texts = [f"message {number}" for number in range(3000)]
            await store.sender.put_all(Queue.RETRIES, texts, timedelta(hours=1))
            await prime(store)
            await store.sender.put_all(Queue.DELIVERIES, texts)

        asyncio.run(put())
        schema.do("ANALYZE messages")
        run = str(store.database.run)
        given = [run, "'retries'", "2", "256"] if "queue" in statement else [run, "2", "3", "1"]
        for each in given:
            statement = statement.replace("?", each, 1)
        plan = [line for (line,) in schema.do(f"EXPLAIN {statement}")]
        assert not [each for each in plan if "Seq Scan on messages" in each or "pkey" in each]


def days(schema: Schema) -> list[str]:
    tables = "SELECT inhrelid::regclass::text FROM pg_inherits"
    return sorted(name for (name,) in schema.do(f"{tables} WHERE inhparent = 'attempts'::regclass"))


def kept(store: PostgresStore, count: int) -> None:
    """Keep an attempt of each of the latest days."""
    store.attempts.write([a_record(published_at=START - number * DAY) for number in range(count)])


def test_the_oldest_days_before_today_go_where_attempts_take_too_much(schema: Schema) -> None:
    """Today's stays, and those ahead: what is attempted next would have no day."""
    with schema.opened(FakeClock()) as store:
        kept(store, 2)
        ahead = [f"attempts_{START + number * DAY:%Y%m%d}" for number in range(5)]
        store.attempts.most_bytes = 1
        assert store.attempts.delete_before((START - 7 * DAY).date(), NEVER) == 0
        assert days(schema) == ahead


def test_who_reads_attempts_keeps_a_day_that_is_dropped_only_for_a_while(
    schema: Schema, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a drop waits for a reader, all who come after wait for it: half a second, no more."""
    with schema.opened(FakeClock()) as store:
        kept(store, 2)
        before = days(schema)
        begun, go_on, limits = Event(), Event(), []

        def read(transaction: Any) -> None:
            transaction.rows("SELECT COUNT(*) FROM attempts")
            begun.set()
            go_on.wait(60)

        execute = Transaction.execute

        def noted(transaction: Transaction, statement: str, *given: Any) -> Any:
            if statement.startswith("DROP"):
                limit = "SELECT current_setting('lock_timeout')"
                limits.extend(execute(transaction, limit).fetchall())
            return execute(transaction, statement, *given)

        monkeypatch.setattr(Transaction, "execute", noted)
        reading = Thread(target=store.database.read, args=(read,))
        reading.start()
        assert begun.wait(60)
        with pytest.raises(StorageUnavailable):
            store.attempts.delete_before(START.date(), NEVER)
        assert (limits, days(schema)) == ([("500ms",)], before)
        go_on.set()
        reading.join()
        assert store.attempts.delete_before(START.date(), NEVER) > 0
        assert len(days(schema)) < len(before)
