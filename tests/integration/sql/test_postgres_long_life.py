"""What keeps a database on PostgreSQL quick over months."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from threading import Event, Thread
from typing import Any

import pytest

from pushgrid.testing.memory import START, FakeClock
from shared.adapters.sql import leases
from shared.adapters.sql.database import micros
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


def test_while_a_snapshot_is_held_claims_do_not_read_what_was_claimed_before(
    schema: Schema, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows of messages that have ended stay in the index until the snapshot is gone."""
    read: list[int] = []
    execute = Transaction.execute

    def counted(transaction: Transaction, statement: str, *given: Any) -> Any:
        if statement == "COMMIT":
            rows = (
                "SELECT pg_stat_get_xact_tuples_returned('messages_due'::regclass),"
                " pg_stat_force_next_flush()"
            )
            read.extend(count for count, _ in execute(transaction, rows).fetchall())
        return execute(transaction, statement, *given)

    async def deliver(store: PostgresStore, clock: FakeClock, count: int) -> None:
        texts = [f"message {number}" for number in range(count)]
        await store.sender.put_all(Queue.RETRIES, texts, timedelta(milliseconds=1))
        clock.advance(timedelta(seconds=1))
        while count:
            found = await store.leases.claim(Queue.RETRIES, 100)
            count -= len(found)
            await asyncio.gather(*map(store.leases.end, found))

    async def play() -> None:
        clock = FakeClock()
        with schema.store(clock=clock) as store:
            await prime(store)
            for _ in range(5):
                await deliver(store, clock, 100)
            clock.advance(leases._LATE)
            monkeypatch.setattr(Transaction, "execute", counted)
            await deliver(store, clock, 1)
            read.clear()
            await deliver(store, clock, 50)

    with schema.store():  # makes the schema
        pass
    with schema.snapshot():
        asyncio.run(asyncio.wait_for(play(), 60))
    claimed = 51
    assert claimed <= sum(read) <= 2 * claimed


def test_what_is_stored_very_late_is_found_by_a_look_at_all_that_is_due(schema: Schema) -> None:
    async def play() -> None:
        with schema.store() as one, schema.store(clock=FakeClock()) as two:
            await prime(one)
            hand = one.leases._hands[Queue.RETRIES]
            assert hand.read_from > 0
            await two.sender.put(Queue.RETRIES, "late", timedelta(seconds=1))
            await one.leases._fill(Queue.RETRIES, hand)
            assert not hand.ahead
            hand.all_at = 0.0
            await one.leases._fill(Queue.RETRIES, hand)
            assert len(hand.ahead) == 1

    asyncio.run(play())


def test_what_is_handed_back_is_due_now(schema: Schema) -> None:
    """Others would not look for what has been due for long."""

    async def play() -> None:
        with schema.store() as store:
            await prime(store)
            await store.sender.put(Queue.DELIVERIES, "one")
            before = micros(store.time.now())
            schema.do("UPDATE messages SET due = 0")
            await store.leases.hand_back()
            assert schema.do("SELECT due >= $1 FROM messages", before) == [(True,)]

    asyncio.run(play())


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
