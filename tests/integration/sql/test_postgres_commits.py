"""
Processes on one PostgreSQL: commits of which nobody knows whether they are stored.

Each test is of a rule of the protocol (docs/stores.md), and red without it.
"""

from __future__ import annotations

import asyncio
import time as system_time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from threading import Event, Thread
from typing import Any

import pytest

from pushgrid.testing.memory import Counted
from shared.adapters.sql import hand as hand_module
from shared.adapters.sql import leases as leases_module
from shared.adapters.sql.database import Write
from shared.adapters.sql.dialects import NUMBER_BITS
from shared.adapters.sql.hand import receipt_of
from shared.adapters.sql.messages import parts_of
from shared.adapters.sql.postgres import committer as committer_module
from shared.adapters.sql.postgres.connecting import cut
from shared.adapters.sql.postgres.database import PostgresDatabase
from shared.adapters.sql.postgres.store import PostgresStore
from shared.adapters.sql.postgres.transaction import Transaction
from shared.clock import SystemClock
from shared.delivery.messages.message import MessagePart
from shared.engine.operations.status import take_snapshot
from shared.engine.ports.settling import Answer, FollowUp, Settlement
from shared.errors import StorageUnavailable
from shared.metrics import Metric, count_of, counts_of_text
from testbed.postgres import PostgresServer, running_postgres
from tests.integration.sql.databases import Cut, Schema, id_of
from tests.integration.sql.test_leases import MOST, NEW, RETRIES, claimed, prime, running, texts
from tests.integration.sql.test_postgres_leases import in_hand, settle
from tests.integration.sql.test_settling import parts

HOUR, NO_TIME = timedelta(hours=1), timedelta()


@pytest.mark.parametrize("is_stored", [True, False])
@pytest.mark.parametrize("times", [1, 3])
async def test_a_commit_of_unknown_outcome_is_repeated_before_it_is_answered(
    schema: Schema,
    store: Callable[..., PostgresStore],
    monkeypatch: pytest.MonkeyPatch,
    is_stored: bool,  # noqa: FBT001
    times: int,
) -> None:
    """Once it is there, in this process's hand, under its next number; what was in hand as well."""
    one = store()
    held = await in_hand(one)
    cut = Cut(monkeypatch, is_stored=is_stored, times=times)
    await one.sender.put(NEW, "born")
    assert not cut.left
    ((number,),) = schema.do("SELECT number FROM processes")
    assert number > 1
    assert schema.holders() == [(id_of(one), number)] * 2
    (born,) = await one.leases.claim(NEW, MOST)
    assert texts([born]) == ["born"]
    (crm,) = parts("crm")
    assert await settle(one, held, Settlement(part=crm)) == [Answer.SETTLED]
    await one.leases.end(born)
    assert schema.do("SELECT 1 FROM messages") == []


async def test_what_was_not_in_hand_at_its_birth_is_not_repeated(
    schema: Schema, store: Callable[..., PostgresStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another may have claimed and ended it: who put it is told that it may be stored."""
    one = store()
    await prime(one)
    Cut(monkeypatch, is_stored=False)
    with pytest.raises(StorageUnavailable):
        await one.sender.put(RETRIES, "later", HOUR)
    assert schema.do("SELECT 1 FROM messages") == []
    await one.sender.put(NEW, "next")
    assert len(schema.holders()) == 1


@pytest.mark.parametrize(("times", "is_stored"), [(1, True), (1, False), (2, True)])
@pytest.mark.parametrize("deaths", range(4))
async def test_what_was_claimed_by_a_commit_of_unknown_outcome_is_handed_over(
    schema: Schema,
    monkeypatch: pytest.MonkeyPatch,
    deaths: int,
    times: int,
    is_stored: bool,  # noqa: FBT001
) -> None:
    """Be it a suspect or not, and the next number taken at once or not; nobody has died of it."""
    monkeypatch.setattr(committer_module, "_REPEATED_FOR", -1.0)
    async with running(schema, None, dies=True) as store:
        await store.sender.put(NEW, "one")
    for _ in range(deaths):
        async with running(schema, None, dies=True) as store:
            assert await claimed(store) == ["one"]
    async with running(schema, None) as store:
        assert isinstance(store, PostgresStore)
        ours = f"SELECT 1 FROM messages WHERE run >> {NUMBER_BITS} = {id_of(store)}"  # noqa: S608
        cut = Cut(monkeypatch, is_stored=is_stored, times=times, where=ours)
        with pytest.raises(StorageUnavailable):
            await store.leases.claim(NEW, MOST)
        assert not cut.left
        (lease,) = await asyncio.wait_for(store.leases.claim(NEW, MOST), 20)
        assert texts([lease]) == ["one"]
        assert receipt_of(lease).deaths == deaths


async def test_what_is_stored_in_part_in_hand_by_a_commit_of_unknown_outcome_is_handed_over(
    store: Callable[..., PostgresStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who put it is told that it may be stored; no process has died."""
    monkeypatch.setattr(hand_module, "ROOM", 2)
    one = store()
    await prime(one)
    Cut(monkeypatch, is_stored=True)
    faults = await one.sender.put_all(NEW, ["a", "b", "c"])
    assert all(isinstance(each, StorageUnavailable) for each in faults)
    left = {"a", "b", "c"}
    while left:
        for lease in await asyncio.wait_for(one.leases.claim(NEW, MOST), 20):
            assert receipt_of(lease).deaths == 0
            left.remove(lease.body.decode())
            await one.leases.end(lease)


@pytest.mark.parametrize("is_stored", [True, False])
async def test_a_process_that_was_judged_meanwhile_does_not_repeat(
    schema: Schema,
    store: Callable[..., PostgresStore],
    monkeypatch: pytest.MonkeyPatch,
    is_stored: bool,  # noqa: FBT001
) -> None:
    one = store()
    await prime(one)
    cut = Cut(monkeypatch, is_stored=is_stored)
    cut.then = lambda: schema.judge(one)
    with pytest.raises(StorageUnavailable):
        await one.sender.put(NEW, "born")
    assert len(schema.do("SELECT 1 FROM messages")) == int(is_stored)
    cut.then = lambda: None
    await one.sender.put(NEW, "next")
    wanted = ["born", "next"] if is_stored else ["next"]
    found = list[str]()
    while len(found) < len(wanted):
        found += await claimed(one)
    assert found == wanted
    assert set(schema.holders()) == {(id_of(one), 1)}


async def test_who_was_judged_during_a_commit_of_unknown_outcome_begins_anew(
    schema: Schema, store: Callable[..., PostgresStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a lease it claims nothing, and proxies send nothing to who is not ready."""
    one = store()
    await prime(one)
    former = id_of(one)
    cut = Cut(monkeypatch, is_stored=False)
    cut.then = lambda: schema.judge(one)
    with pytest.raises(StorageUnavailable):
        await one.sender.put(NEW, "born")
    with suppress(StorageUnavailable):
        await asyncio.to_thread(one.database.processes.renew)
    assert id_of(one) != former
    assert one.database.has_lease


@pytest.mark.parametrize(
    ("is_stored", "answer"), [(True, Answer.SETTLED_ALREADY), (False, Answer.SETTLED)]
)
async def test_a_settlement_of_unknown_outcome_is_sent_again_under_the_next_number(
    schema: Schema,
    store: Callable[..., PostgresStore],
    monkeypatch: pytest.MonkeyPatch,
    is_stored: bool,  # noqa: FBT001
    answer: Answer,
) -> None:
    one = store()
    lease = await in_hand(one, "crm", "erp")
    crm, erp = parts("crm", "erp")
    settling = one.settling(lease, Counted())
    with monkeypatch.context() as patch:
        Cut(patch, is_stored=is_stored)
        found = await settling.settle([Settlement(part=crm)], HOUR)
    assert [each.answer for each in found] == [answer]
    assert await settle(one, lease, Settlement(part=erp)) == [Answer.SETTLED]
    assert schema.do("SELECT 1 FROM messages") == []


def test_the_next_number_waits_for_what_is_under_way_under_the_former(
    schema: Schema, store: Callable[..., PostgresStore]
) -> None:
    """A commit that was given up may be executed still: it comes before, or fails."""
    one = store()
    begun, go_on = Event(), Event()

    def slow(transaction: Transaction) -> None:
        transaction.rows("SELECT 1")  # What was sent before has its effect then.
        begun.set()
        go_on.wait(60)

    process = one.database._committer.own.process
    late = Thread(target=one.database.connections.apart, args=(slow, process))
    late.start()
    assert begun.wait(60)
    one.database._committer._needs_number = True
    renumbering = Thread(target=one.database.write, args=(lambda _: None,))
    renumbering.start()
    waits = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    while renumbering.is_alive() and not schema.do(waits):
        system_time.sleep(0.01)
    assert schema.do("SELECT number FROM processes") == [(1,)]
    go_on.set()
    late.join()
    renumbering.join()
    assert schema.do("SELECT number FROM processes") == [(2,)]


@pytest.mark.parametrize("is_stored", [True, False])
@pytest.mark.parametrize("events", [1, 2])  # of the two that come again: a part of them, and all
async def test_a_late_success_that_a_commit_of_unknown_outcome_takes_back_is_one(
    schema: Schema,
    store: Callable[..., PostgresStore],
    monkeypatch: pytest.MonkeyPatch,
    events: int,
    is_stored: bool,  # noqa: FBT001
) -> None:
    """It does not come again: nobody else would count it as delivered."""
    one = store()
    lease = await in_hand(one)
    settling = one.settling(lease, Counted())
    (crm,) = parts("crm")
    retry = FollowUp(replace(crm, due=one.time.now() + HOUR))
    await settling.settle([Settlement(part=crm, follow_ups=[retry])], NO_TIME)
    cut = Cut(monkeypatch, is_stored=is_stored)
    assert await settling.take_back(crm.key, crm.deliveries[:events])
    assert not cut.left
    left = [parts_of(body) for (body,) in schema.do("SELECT body FROM messages")]
    wanted = [crm.deliveries[events:]] if events < len(crm.deliveries) else []
    assert [each.deliveries for (each,) in left] == wanted


async def test_a_late_success_that_has_come_again_and_ended_before_a_failure_is_none(
    schema: Schema, store: Callable[..., PostgresStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """That end was counted."""
    one = store()
    lease = await in_hand(one)
    settling = one.settling(lease, Counted())
    (crm,) = parts("crm")
    retry = FollowUp(replace(crm, due=one.time.now() + HOUR))
    await settling.settle([Settlement(part=crm, follow_ups=[retry])], NO_TIME)
    schema.do("DELETE FROM messages")  # as another that has claimed it
    cut = Cut(monkeypatch, is_stored=True)
    assert not await settling.take_back(crm.key, crm.deliveries)
    assert not cut.left


@pytest.mark.parametrize("is_stored", [True, False])
async def test_a_settlement_of_unknown_outcome_counts_once(
    schema: Schema,
    store: Callable[..., PostgresStore],
    monkeypatch: pytest.MonkeyPatch,
    is_stored: bool,  # noqa: FBT001
) -> None:
    """What comes next adds to what is stored."""
    one = store()
    lease = await in_hand(one, "crm", "erp", "wms")
    settling = one.settling(lease, Counted())

    async def settle_counted(part: MessagePart) -> None:
        settling.metrics.count(Metric.ATTEMPT_FAIL, *part.key, by=2)
        await settling.settle([Settlement(part=part)], HOUR)

    first, second, third = parts("crm", "erp", "wms")
    await settle_counted(first)
    with monkeypatch.context() as patch:
        Cut(patch, is_stored=is_stored)
        await settle_counted(second)
    await settle_counted(third)
    found = schema.do("SELECT counts FROM counts WHERE span = 'minute' AND subscription = ''")
    assert sum(count_of(counts_of_text(each), Metric.ATTEMPT_FAIL) for (each,) in found) == 6


async def test_a_commit_that_may_not_be_replicated_is_repeated(
    schema: Schema, store: Callable[..., PostgresStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody has cancelled the wait for the standby: the server says so in a warning."""
    one = store()
    await prime(one)
    note = committer_module.PostgresCommitter._note_commit
    warned: list[int] = []

    def warn(writer: Any, *given: Any) -> None:
        if not warned:
            warned.append(1)
            said = "DO $$ BEGIN RAISE WARNING 'canceling wait for synchronous replication due"
            writer.connection.execute(f"{said} to user request' USING ERRCODE='01000'; END $$")
        note(writer, *given)

    monkeypatch.setattr(committer_module.PostgresCommitter, "_note_commit", warn)
    await one.sender.put(NEW, "born")
    assert schema.holders() == [(id_of(one), 2)]


async def test_who_does_not_know_what_is_in_hand_takes_no_other_number(
    schema: Schema, store: Callable[..., PostgresStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its event loop is busy, and goes on with what it has afterwards: others would have it too."""
    monkeypatch.setattr(leases_module, "_LOOP_SECONDS", 0.1)

    one, two = store(), store()
    await prime(one)
    await one.sender.put_all(NEW, ["a", "b"])
    before = schema.holders()
    connection = one.database._committer.connection
    assert connection
    connection.close()
    with pytest.raises(StorageUnavailable):
        one.database.write(lambda _: None)  # the loop waits for it
    assert schema.holders() == before
    two.leases.look_for_the_dead()
    await two.leases._fill(NEW, two.leases._hands[NEW])
    assert two.leases._numbers() == []
    await one.database.write_on_loop(lambda _: None)
    assert schema.holders() == [(id_of(one), 2)] * 2
    assert texts(await one.leases.claim(NEW, MOST)) == ["a", "b"]


@pytest.mark.parametrize("is_stored", [True, False])
async def test_what_is_replaced_by_the_same_in_a_commit_of_unknown_outcome_is_replaced_once(
    schema: Schema,
    store: Callable[..., PostgresStore],
    monkeypatch: pytest.MonkeyPatch,
    is_stored: bool,  # noqa: FBT001
) -> None:
    """The text does not tell whether it was; its receipt does, by which it goes on."""
    one = store()
    receipt = await one.sender.put(RETRIES, "same", HOUR)
    cut = Cut(monkeypatch, is_stored=is_stored)
    replaced = await one.sender.replace(RETRIES, receipt, "same", 2 * HOUR)
    assert not cut.left
    assert replaced
    ((version,),) = schema.do("SELECT receipt FROM messages")
    assert replaced.version.split(".")[0] == str(version)
    assert await one.sender.take_back(RETRIES, replaced)


@pytest.mark.parametrize("is_stored", [True, False])
async def test_what_is_handed_back_in_a_commit_of_unknown_outcome_is_handed_back(
    schema: Schema,
    store: Callable[..., PostgresStore],
    monkeypatch: pytest.MonkeyPatch,
    is_stored: bool,  # noqa: FBT001
) -> None:
    """Else others had it only once this process has ended, or were told of a death."""
    one = store()
    await prime(one)
    await one.sender.put_all(NEW, ["a", "b"])
    cut = Cut(monkeypatch, is_stored=is_stored)
    await one.leases.hand_back()
    assert not cut.left
    assert schema.holders() == []
    assert schema.do("SELECT deaths FROM messages") == [(0,)] * 2


def test_a_server_stays_unready_while_its_commits_wait_for_a_standby(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whether one has been given up, or one that writes nothing would succeed; it says for what."""
    monkeypatch.setattr(committer_module, "_REPEATED_FOR", -1.0)
    monkeypatch.setattr(committer_module, "_TRIES", 1)

    def wait_for(server: PostgresServer, names: str) -> None:
        server.do(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'")
        server.do("SELECT pg_reload_conf()")

    with running_postgres() as server, Schema(server).store() as store:
        database = store.database
        server.do("CREATE TABLE probes (number INT)")

        def waits(call: Callable[[], object], others: int) -> Thread | None:
            """Call, and return once its commit waits beside *others*; ``None``: it did not."""
            thread = Thread(target=call)
            thread.start()
            waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
            while thread.is_alive():
                if server.do(waiting) == [(others + 1,)]:
                    return thread
                system_time.sleep(0.02)
            return None

        def ask(write: Write[object]) -> Callable[[], object]:
            return lambda: failed.append(_failure(database, write))

        failed = list[object]()
        with server.connected() as other, other.transaction():
            other.execute(f"LOCK TABLE {database._schema}.state".encode())
            ask(lambda writing: writing.run("UPDATE state SET value = value"))()
        assert "SyncRep" in database.fault
        failed.clear()
        wait_for(server, "away")
        while not (probe := waits(lambda: server.do("INSERT INTO probes VALUES (1)"), 0)):
            pass  # The server has not read its settings yet.
        reading = waits(ask(lambda writing: writing.rows("SELECT 1")), 1)
        assert reading
        assert "SyncRep" in database.fault
        connection = database._committer.connection
        assert connection
        cut(connection)
        reading.join()
        assert isinstance(failed[0], StorageUnavailable)
        assert "SyncRep" in store.fault
        assert take_snapshot(store, SystemClock())  # Reads go on: the health goes by the fault.
        wait_for(server, "")
        probe.join()
        while _failure(database, lambda writing: writing.rows("SELECT 1")):
            assert database.fault
        assert database.fault == ""


def _failure(database: PostgresDatabase, write: Write[object]) -> Exception | None:
    try:
        database.write(write)
    except StorageUnavailable as error:
        return error
    return None
