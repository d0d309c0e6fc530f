"""
Processes on one PostgreSQL: what waits for whose lock, and for whose not.

Each test is of a rule of the protocol (docs/stores.md), and red without it.
"""

from __future__ import annotations

import asyncio
import json
import time as system_time
from collections.abc import Callable
from functools import partial
from threading import Event, Thread
from typing import Any

import pytest

from shared.adapters.sql import messages
from shared.adapters.sql.database import Catalogue, WriteOptions
from shared.adapters.sql.postgres import transaction as transactions
from shared.adapters.sql.postgres.database import PostgresDatabase
from shared.adapters.sql.postgres.store import PostgresStore
from shared.adapters.sql.postgres.transaction import Transaction
from shared.arm.subscription_codec import to_subscription_in_force
from shared.delivery.policy import EndReason, EndState
from shared.engine.ports import Table
from shared.engine.ports.settling import Answer, Ended, Settlement
from shared.errors import StorageUnavailable
from tests.integration.sql.databases import Schema, id_of
from tests.integration.sql.test_leases import MOST, NEW, RETRIES, prime
from tests.integration.sql.test_postgres_leases import in_hand, settle
from tests.integration.sql.test_settling import parts
from tests.unit.arm.documents import subscription


async def test_an_end_by_terms_waits_for_who_changes_them(
    store: Callable[..., PostgresStore],
) -> None:
    """The update is answered before the end is stored, so the end is judged anew."""
    one, two = store(), store()
    documents = one.documents
    stored = await asyncio.to_thread(
        documents.put,
        *(Table.EVENT_SUBSCRIPTIONS, "orders", "crm", subscription(name="crm"), None),
    )
    lease = await in_hand(one)
    (crm,) = parts("crm")
    end = Ended(
        crm.key, crm.deliveries[0], EndReason("MaxDeliveryAttemptsExceeded"), EndState.DROPPED
    )
    judged = Settlement(
        part=crm,
        ends=[end],
        subscription=to_subscription_in_force(stored.document),
    )
    begun, go_on = Event(), Event()

    def change(writing: Any) -> None:
        changed = subscription(name="crm", retryPolicy={"maxDeliveryAttempts": 3})
        writing.run("UPDATE documents SET document = ?", json.dumps(changed))
        begun.set()
        go_on.wait(2)

    exclusive = WriteOptions(catalogue=Catalogue.EXCLUSIVE)
    changing = Thread(target=partial(two.database.write, change, exclusive))
    changing.start()
    await asyncio.to_thread(begun.wait, 60)
    settling = asyncio.create_task(settle(one, lease, judged))
    await asyncio.sleep(0.2)
    go_on.set()
    assert await settling == [Answer.CHANGED]
    changing.join()


def test_two_that_park_for_the_same_pauses_do_not_wait_for_each_other(
    schema: Schema, store: Callable[..., PostgresStore]
) -> None:
    """In another order: the second one waits before its first, until the other has both."""
    one, two = store(), store()
    parked = {"crm": Event(), "erp": Event()}
    faults: list[StorageUnavailable] = []

    def park(database: PostgresDatabase, *names: str, go_on: Callable[[], object]) -> None:
        def call(transaction: Transaction) -> None:
            for name in names:
                messages._parked(transaction, id(name), "orders", name, "pause")
                parked[name].set()
                go_on()

        try:
            database.connections.apart(call)
        except StorageUnavailable as fault:
            faults.append(fault)

    def until_the_second_waits() -> None:
        waits = "SELECT 1 FROM pg_locks WHERE NOT granted"
        while not (parked["erp"].is_set() or schema.do(waits)):
            system_time.sleep(0.01)

    given = {"go_on": until_the_second_waits}
    first = Thread(target=park, args=(one.database, "crm", "erp"), kwargs=given)
    first.start()
    assert parked["crm"].wait(60)
    park(two.database, "erp", "crm", go_on=lambda: None)
    first.join()
    assert faults == []
    assert schema.do("SELECT COUNT(*) FROM parked") == [(2,)]


async def test_what_frees_a_pause_waits_for_nobody_who_parks_for_it(
    schema: Schema, store: Callable[..., PostgresStore]
) -> None:
    """It leaves the row to a later claim."""
    one, two = store(), store()
    await prime(two)
    parked, go_on = Event(), Event()

    def park(transaction: Transaction) -> None:
        messages._parked(transaction, 1, "orders", "crm", "pause")
        parked.set()
        go_on.wait(60)

    schema.do("INSERT INTO parked VALUES (1, 'orders', 'crm', 'pause')")
    parking = Thread(target=partial(one.database.connections.apart, park))
    parking.start()
    assert await asyncio.to_thread(parked.wait, 60)
    two.leases.may_be_unparked()
    await asyncio.sleep(0)
    await two.leases._fill(RETRIES, two.leases._hands[RETRIES])
    assert parking.is_alive()
    assert schema.do("SELECT id FROM parked") == [(1,)]
    go_on.set()
    parking.join()
    await two.leases._fill(RETRIES, two.leases._hands[RETRIES])
    assert schema.do("SELECT id FROM parked") == []


def test_a_process_that_stops_inside_a_transaction_keeps_no_locks(
    store: Callable[..., PostgresStore],
) -> None:
    """Who claims passes over what is locked: the server ends such a transaction after 5 s."""
    one = store()
    shown = "SELECT current_setting('idle_in_transaction_session_timeout')"
    for call in (one.database.write, one.database.read, one.database.connections.apart):
        assert call(lambda transaction: transaction.rows(shown)) == [("5s",)]


_HELD = (
    "SELECT state FROM pg_stat_activity JOIN pg_locks USING (pid)"
    " WHERE locktype = 'advisory' AND objsubid = 1 AND wait_event = $1"
)


def _states(schema: Schema, waits: str) -> list[Any]:
    """Return the states of sessions that hold a process and are silent, once there are such."""
    while not (found := schema.do(_HELD, waits)):
        system_time.sleep(0.01)
    return found


@pytest.mark.parametrize("waits", ["ClientRead", "ClientWrite"])
async def test_who_stops_in_a_group_is_ended_by_who_finds_it_dead(
    schema: Schema,
    store: Callable[..., PostgresStore],
    monkeypatch: pytest.MonkeyPatch,
    waits: str,
) -> None:
    """Else nobody had what it has in hand: the server is not idle in a pipeline, as in a group."""
    silent = transactions.END_SILENT
    monkeypatch.setattr(transactions, "END_SILENT", silent.replace("5000", "0"))
    one, two = store(), store()
    lease = await in_hand(one)
    begun, go_on = Event(), Event()

    def stop(transaction: Any) -> None:
        transaction.run("UPDATE state SET value = value")
        if waits == "ClientWrite":
            answers = transaction._connection.pgconn
            large = b"SELECT repeat('x', 1000) FROM generate_series(1, 50000)"
            answers.send_query_params(large, None)
            answers.send_flush_request()
            answers.flush()
        begun.set()
        go_on.wait(60)

    stopped = asyncio.create_task(one.database.write_on_loop(stop))
    try:
        assert await asyncio.to_thread(begun.wait, 60)
        assert await asyncio.to_thread(_states, schema, waits) == [("active",)]
        processes = two.database.processes
        await asyncio.to_thread(processes.observe)
        seen, _ = processes._seen[id_of(one)]
        await asyncio.to_thread(processes._judge, id_of(one), seen)
        (found,) = await two.leases.claim(NEW, MOST)
        assert found.body == lease.body
    finally:
        go_on.set()
        await asyncio.wait([stopped])
    assert isinstance(stopped.exception(), StorageUnavailable)
