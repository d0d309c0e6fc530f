"""What keeps a database on PostgreSQL quick over months."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from datetime import timedelta
from threading import Event, Thread
from typing import Any

import pytest

from pushgrid.testing.memory import START, FakeClock
from shared.adapters.sql import hand as hand_module
from shared.adapters.sql import leases
from shared.adapters.sql.claiming import _DUE, _NEXT
from shared.adapters.sql.database import micros, moment
from shared.adapters.sql.dialects import POSTGRESQL
from shared.adapters.sql.hand import BATCH
from shared.adapters.sql.messages import NEVER as NEVER_DUE
from shared.adapters.sql.postgres.store import PostgresStore
from shared.adapters.sql.postgres.transaction import Transaction
from shared.adapters.sql.queues import RECEIVE_AT_MOST
from shared.clock import Deadline
from shared.engine.ports import Queue
from shared.engine.ports.settling import FollowUp, Settlement
from shared.errors import StorageUnavailable
from testbed.postgres import PostgresServer, programs, running_postgres
from tests.builders import NEVER, a_record
from tests.integration.sql.databases import Schema, id_of
from tests.integration.sql.test_leases import prime, texts
from tests.integration.sql.test_postgres_leases import in_hand, settle
from tests.integration.sql.test_settling import parts

DAY = timedelta(days=1)


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


def rows_read(monkeypatch: pytest.MonkeyPatch, names: str) -> list[int]:
    """Return how many rows of some tables and indexes each transaction reads, as it goes on."""
    counts = (
        "SELECT COALESCE(SUM(pg_stat_get_xact_tuples_returned(oid)), 0)::int FROM pg_class"
        " WHERE relnamespace = current_schema()::regnamespace AND relname ~ ?"
    )
    read, before, execute = list[int](), [0], Transaction.execute

    def counted(transaction: Transaction, statement: str, *given: Any) -> Any:
        if statement == "COMMIT":
            read.append(execute(transaction, counts, [names]).fetchall()[0][0] - before[0])
        done = execute(transaction, statement, *given)
        if "set_config('search_path'" in statement:
            before[0] = execute(transaction, counts, [names]).fetchall()[0][0]
        return done

    monkeypatch.setattr(Transaction, "execute", counted)
    return read


@pytest.mark.parametrize("version", [14, 15, 16, 17, 18])
def test_before_there_are_statistics_nothing_is_read_but_what_is_claimed(
    monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """By plans that were made of empty tables, and by those of a database from a dump."""
    if not (programs(version) / "postgres").exists():
        pytest.skip(f"PostgreSQL {version} is not installed")

    async def use(store: PostgresStore) -> int:
        """Do what is done again and again; return what was claimed."""
        claimed = 0
        for queue in (Queue.DELIVERIES, Queue.RETRIES):
            hand = store.leases._hands[queue]
            hand.all_at = 0.0
            await store.leases._fill(queue, hand)
            claimed += len(hand.ahead)
            hand.forget()
        store.leases._suspects.look_anew()
        await store.leases._suspects.claim(1)
        receipt = await store.sender.put(Queue.RETRIES, "later", timedelta(hours=1))
        assert await store.sender.take_back(Queue.RETRIES, receipt)
        taken = await asyncio.to_thread(store.queues.receive, Queue.DEADLETTERS, DAY)
        for each in taken:
            await asyncio.to_thread(store.queues.delete, Queue.DEADLETTERS, each)
        return claimed + len(taken)

    async def play(schema: Schema, read: list[int]) -> None:
        with schema.store() as new, schema.store() as busy:
            await prime(new)
            for _ in range(12):
                assert await use(new) == 0
            other, now = busy.database.run, micros(new.time.now())
            schema.do(
                "INSERT INTO messages (id, queue, due, stored, run, receipt, receives, deaths,"
                " body) SELECT number, (ARRAY['deliveries', 'retries', 'deadletters'])[1 + number"
                " % 3], $1 + number % 2 * 3600000000, $1,"
                " CASE number % 10 WHEN 9 THEN $2::bigint ELSE 0 END, 0, 0, 0, 'body'"
                " FROM generate_series(1, 10000) AS number",
                *(now, other),
            )
            with schema.store() as restored:
                await prime(restored)
                for store in (new, restored):
                    read.clear()
                    claimed = await use(store)
                    assert claimed == 2 * BATCH + RECEIVE_AT_MOST
                    assert sum(read) <= 6 * claimed

    with running_postgres(version) as server:
        schema = Schema(server)
        with schema.store():  # makes the schema
            pass
        read = rows_read(monkeypatch, "^messages(_.*)?$")
        asyncio.run(asyncio.wait_for(play(schema, read), 120))


@pytest.mark.parametrize("statement", [_DUE, _NEXT])
def test_what_is_read_in_order_is_not_read_as_a_whole_to_be_sorted(
    schema: Schema, statement: str
) -> None:
    """It may seem cheaper by a bitmap: where few rows are expected, and an index has dead ones."""
    with schema.store() as store:
        texts = [f"message {number}" for number in range(500)]
        asyncio.run(store.sender.put_all(Queue.RETRIES, texts, timedelta(hours=1)))
        schema.do("ANALYZE messages")

        def plan(transaction: Transaction) -> str:
            for other in ("seqscan", "indexscan", "indexonlyscan"):  # as if they cost more
                transaction.execute(f"SET LOCAL enable_{other} = off")
            given = iter(["'retries'", "0", str(NEVER_DUE), "256"])
            explained = re.sub(r"\?", lambda _: next(given), f"EXPLAIN {statement}")
            return "\n".join(line for (line,) in transaction.rows(explained))

        found = store.database.connections.apart(plan)
        assert "Index" in found
        assert "Sort" not in found


def test_hours_are_rolled_up_without_a_look_at_the_minutes(
    schema: Schema, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are sixty times as many; and a look at all of them keeps every write waiting."""
    with schema.store():  # makes the schema
        pass
    schema.do(
        "INSERT INTO counts (span, topic, subscription, start, instance, counts)"
        " SELECT CASE number % 60 WHEN 0 THEN 'hour' ELSE 'minute' END, 'orders', 'crm',"
        " number * 60000000::bigint, 'one', '[]' FROM generate_series(1, 60000) AS number"
    )
    schema.do("ANALYZE counts")
    read = rows_read(monkeypatch, "^counts(_.*)?$")
    with schema.store() as store:
        later = moment(0) + timedelta(days=365)
        never = Deadline(timedelta(minutes=1), lambda: 0.0)
        rolled_up = store.counts.roll_up(later, moment(0), never)
    assert rolled_up == 1000
    assert sum(read) <= 6 * rolled_up


def test_while_a_snapshot_is_held_claims_do_not_read_what_was_claimed_before(
    schema: Schema, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows of messages that have ended stay in the index until the snapshot is gone."""
    read = rows_read(monkeypatch, "^messages_due$")

    async def play() -> int:
        """Let a message be due each 100 ms, and a look come each 700 ms; return how many came."""
        clock, count = FakeClock(), 0
        with schema.store(clock=clock) as store:
            await prime(store)
            hand = store.leases._hands[Queue.RETRIES]
            for number in range(250):
                await store.sender.put(Queue.RETRIES, f"message {number}", timedelta(seconds=5))
                clock.advance(timedelta(milliseconds=100))
                if number < 49:
                    continue  # nothing is due yet
                if number == 100:
                    read.clear()
                    count = 0
                if number % 7 == 0:
                    await store.leases._fill(Queue.RETRIES, hand)
                found = await store.leases.claim(Queue.RETRIES, 100)
                await asyncio.gather(*map(store.leases.end, found))
                count += len(found)
        return count

    with schema.store():  # makes the schema
        pass
    with postgres.snapshot():
        claimed = asyncio.run(asyncio.wait_for(play(), 120))
    assert claimed == 150
    assert claimed / 2 <= sum(read) <= 2 * claimed


def test_what_is_stored_behind_all_looks_others_find_when_its_process_is_dead(
    schema: Schema,
) -> None:
    """Or by a look at all that is due, which is rare: it reads what was claimed long ago."""

    async def play() -> None:
        with schema.store() as one, schema.store(clock=FakeClock()) as two:
            await prime(one)
            hand = one.leases._hands[Queue.RETRIES]

            async def found() -> int:
                await one.leases._fill(Queue.RETRIES, hand)
                return len(hand.ahead)

            await two.sender.put(Queue.RETRIES, "late")
            assert await found() == 0
            hand.all_at = 0.0
            assert await found() == 1
            await two.sender.put(Queue.RETRIES, "late")
            assert await found() == 1
            schema.do("UPDATE processes SET dead = TRUE WHERE id = $1", id_of(two))
            await asyncio.to_thread(one.database.processes.observe)
            claimed = [await one.leases.claim(Queue.RETRIES, 1) for _ in range(2)]
            assert [texts(each) for each in claimed] == [["late"]] * 2

    asyncio.run(asyncio.wait_for(play(), 60))


@pytest.mark.parametrize("is_handed_back", [False, True], ids=["stored", "handed back"])
def test_what_a_process_does_not_take_in_hand_others_find_after_two_seconds(
    schema: Schema,
    monkeypatch: pytest.MonkeyPatch,
    is_handed_back: bool,  # noqa: FBT001
) -> None:
    """Though they have looked beyond the time at which it was stored, and not look there again."""
    monkeypatch.setattr(hand_module, "ROOM", 2)

    async def play() -> None:
        clock = FakeClock()
        with schema.store(clock=clock) as one, schema.store(clock=clock) as two:
            await prime(one)
            await prime(two)
            hand = two.leases._hands[Queue.DELIVERIES]
            await two.leases._fill(Queue.DELIVERIES, hand)
            assert hand.floor > micros(clock.now())
            await one.sender.put_all(Queue.DELIVERIES, ["a", "b", "c"][: 2 + (not is_handed_back)])
            if is_handed_back:
                await one.leases.claim(Queue.DELIVERIES, 1)
                await one.leases.hand_back()
            await two.leases._fill(Queue.DELIVERIES, hand)
            assert not hand.ahead
            clock.advance(leases.FOR_OTHERS)
            found = await two.leases.claim(Queue.DELIVERIES, 100)
            assert texts(found) == ["b" if is_handed_back else "c"]

    asyncio.run(asyncio.wait_for(play(), 60))


@pytest.mark.parametrize("is_replaced", [False, True], ids=["stored", "replaced"])
def test_what_follows_a_message_at_once_others_find_after_two_seconds(
    schema: Schema,
    is_replaced: bool,  # noqa: FBT001
) -> None:
    """A process that ends settles so what it has not pushed, and takes nothing in hand any more."""

    async def play() -> None:
        clock = FakeClock()
        with schema.store(clock=clock) as one, schema.store(clock=clock) as two:
            await prime(one)
            await prime(two)
            lease = await in_hand(one)
            await one.leases.hand_back()
            hand = two.leases._hands[Queue.RETRIES]
            await two.leases._fill(Queue.RETRIES, hand)
            assert hand.floor > micros(clock.now())
            if is_replaced:
                receipt = await one.sender.put(Queue.RETRIES, "two events", timedelta(hours=1))
                await one.sender.replace(Queue.RETRIES, receipt, "one event", timedelta())
            else:
                (crm,) = parts("crm")
                follows = FollowUp(replace(crm, due=clock.now()))
                await settle(one, lease, Settlement(part=crm, follow_ups=[follows]))
            clock.advance(leases.FOR_OTHERS)
            await two.leases._fill(Queue.RETRIES, hand)
            assert len(hand.ahead) == 1

    asyncio.run(asyncio.wait_for(play(), 60))


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
