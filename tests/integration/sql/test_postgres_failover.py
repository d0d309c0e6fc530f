"""
A standby is promoted after its primary was killed, or a copy restored while servers run.

Each process begins anew, and goes on.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from contextlib import closing, suppress

from shared.adapters.sql.postgres.connecting import Connecting, read_url
from shared.adapters.sql.postgres.database import PostgresDatabase
from shared.adapters.sql.postgres.store import PostgresStore
from shared.adapters.threads import SystemThreads
from shared.engine.ports import Queue, Table
from shared.engine.ports.leases import Lease
from shared.engine.ports.settling import Answer, Settlement
from shared.errors import StorageUnavailable
from testbed.postgres import DATABASE, ROLE, PostgresServer, running_postgres
from tests.integration.sql.databases import Schema, id_of
from tests.integration.sql.test_leases import MOST, NEW
from tests.integration.sql.test_postgres_leases import HOUR, in_hand, settle
from tests.integration.sql.test_settling import parts


def test_what_a_process_had_in_hand_at_a_failover_is_claimed_anew() -> None:
    """Of several hosts it finds the one that can be written to."""

    async def play(store: PostgresStore, primary: PostgresServer, standby: PostgresServer) -> None:
        lease = await in_hand(store)
        former = id_of(store)
        wanted = primary.do("SELECT pg_current_wal_lsn()")[0][0]
        while standby.do(f"SELECT pg_last_wal_replay_lsn() < '{wanted}'") == [(True,)]:
            time.sleep(0.05)  # noqa: ASYNC251 - nothing else is under way
        primary.stop(signal.SIGKILL)
        try:
            await store.sender.put(NEW, "while nobody is there")
        except StorageUnavailable:
            standby.promote()
        (crm,) = parts("crm")
        answers: list[Answer] = []
        while not answers:
            with suppress(StorageUnavailable):  # It was away just now, and is tried again soon.
                answers = await settle(store, lease, Settlement(part=crm))
        assert answers == [Answer.NOT_OURS]
        assert id_of(store) != former
        await store.leases.end(lease)
        await store.sender.put(NEW, "after it")
        dead = f"UPDATE pushgrid.processes SET dead = TRUE WHERE id = {former}"  # noqa: S608
        standby.do(dead, DATABASE)
        found: list[Lease] = []
        while len(found) < 2:
            found += await store.leases.claim(NEW, MOST)
        assert [each.body for each in found] == [lease.body, b"after it"]
        assert await settle(store, found[0], Settlement(part=crm)) == [Answer.SETTLED]

    with running_postgres() as primary, running_postgres(follows=primary) as standby:
        hosts = f"host={primary.folder},{standby.folder}&port={primary.port},{standby.port}"
        url = f"postgresql://{ROLE}@/{DATABASE}?{hosts}"
        threads = SystemThreads()
        database = PostgresDatabase(Connecting(read_url(url)), threads, allows_unsafe=True)
        with closing(PostgresStore(database, threads=threads)) as store:
            asyncio.run(asyncio.wait_for(play(store, primary, standby), 120))


def test_a_connection_whose_server_has_become_a_standby_is_a_dead_one() -> None:
    """As behind a pool, which may lead elsewhere: the write is done on a new one."""
    with running_postgres() as primary, running_postgres(follows=primary) as standby:
        threads = SystemThreads()
        database = PostgresDatabase(
            Connecting(read_url(primary.url())), threads, allows_unsafe=True
        )
        with closing(PostgresStore(database, threads=threads)) as store:
            leads_there = read_url(standby.url()) | {"target_session_attrs": "any"}
            store.database._committer.close()
            store.database._committer.connection = Connecting(leads_there).open()
            store.documents.put(Table.TOPICS, "topic", "orders", {}, None)
            assert store.documents.get(Table.TOPICS, "topic", "orders")


def test_a_process_that_runs_while_a_copy_is_restored_begins_anew() -> None:
    """It has settled since what is in its hand in the copy: nobody would have it else."""

    async def play(store: PostgresStore, server: PostgresServer) -> None:
        lease = await in_hand(store)
        former = id_of(store)
        server.stop()
        server.keep_copy()
        server.start()
        (crm,) = parts("crm")
        assert await settle(store, lease, Settlement(part=crm)) == [Answer.SETTLED]
        await asyncio.to_thread(store.database.processes.renew)
        server.stop()
        server.restore_copy()
        server.start()
        await store.sender.put(NEW, "after it")
        assert id_of(store) != former
        dead = f"UPDATE pushgrid.processes SET dead = TRUE WHERE id = {former}"  # noqa: S608
        server.do(dead, DATABASE)
        found: list[Lease] = []
        while len(found) < 2:
            found += await store.leases.claim(NEW, MOST)
        assert {each.body for each in found} == {lease.body, b"after it"}

    with running_postgres() as server:
        threads = SystemThreads()
        database = PostgresDatabase(Connecting(read_url(server.url())), threads, allows_unsafe=True)
        with closing(PostgresStore(database, threads=threads)) as store:
            asyncio.run(asyncio.wait_for(play(store, server), 120))


def test_a_version_of_the_catalogue_does_not_come_back(
    schema: Schema, store: Callable[..., PostgresStore]
) -> None:
    """Who has read what was lost would take another change for it."""
    one = store()

    def put(name: str) -> int:
        one.documents.put(Table.TOPICS, "topic", name, {}, None)
        return one.documents.read_version()

    kept, lost = put("orders"), put("lost")
    schema.do("DELETE FROM documents WHERE name = 'lost'")
    schema.do("UPDATE state SET value = $1 WHERE name = 'catalogue'", kept)
    assert one.documents.read_version() == kept
    assert put("bills") not in (kept, lost)


async def test_a_receipt_is_void_once_its_process_has_begun_anew(
    schema: Schema, store: Callable[..., PostgresStore]
) -> None:
    """After a restore another message may have that number, or another receiver that version."""
    one = store()
    put = await one.sender.put(Queue.RETRIES, "put", HOUR)
    await one.sender.put(Queue.DEADLETTERS, "received")
    (received,) = await asyncio.to_thread(one.queues.receive, Queue.DEADLETTERS, HOUR)
    schema.judge(one)
    await asyncio.to_thread(one.queues.delete, Queue.DEADLETTERS, received)
    await asyncio.to_thread(one.queues.hide, Queue.DEADLETTERS, received, HOUR)
    assert not await one.sender.take_back(Queue.RETRIES, put)
    assert not await one.sender.replace(Queue.RETRIES, put, "other", HOUR)
    found = schema.do("SELECT receipt, body FROM messages ORDER BY id")
    assert found == [(0, b"put"), (1, b"received")]
    again = await one.sender.put(Queue.RETRIES, "again", HOUR)
    renewed = await one.sender.replace(Queue.RETRIES, again, "replaced", HOUR)
    assert renewed
    assert await one.sender.take_back(Queue.RETRIES, renewed)
