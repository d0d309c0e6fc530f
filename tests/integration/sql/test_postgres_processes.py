"""
Processes on one PostgreSQL: which of them lives, is dead, begins anew or is elected.

Each test is of a rule of the protocol (docs/stores.md), and red without it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from datetime import timedelta
from functools import partial
from threading import Event, Semaphore, Thread
from typing import Any

import psycopg
import pytest

from shared.adapters.sql import leases as leases_module
from shared.adapters.sql.database import WriteTransaction
from shared.adapters.sql.postgres.connecting import Connecting
from shared.adapters.sql.postgres.store import PostgresStore
from shared.engine.ports.settling import Answer, Settlement
from shared.errors import StorageUnavailable
from tests.functional.deployment import Logged
from tests.integration.sql.databases import Schema, Time, id_of
from tests.integration.sql.test_leases import MOST, NEW, RETRIES, prime, texts
from tests.integration.sql.test_postgres_leases import in_hand, settle
from tests.integration.sql.test_settling import parts

HOUR = timedelta(hours=1)


def test_a_renewal_that_fails_is_logged_with_the_class_of_its_error(
    schema: Schema, store: Callable[..., PostgresStore], logged: Logged
) -> None:
    one, ended = store(), Future[None]()
    schema.do("DROP TABLE processes")

    def renew() -> None:
        one.database._ending.set_result(None)
        one.database.processes.renew()

    one.database._keep(0.0, renew, ended)
    one.database._ending = Future()
    assert ended.done()
    assert [line["error"] for line in logged("storage.failed")] == 2 * ["UndefinedTable"]


# ── Judging ──


async def test_who_was_judged_dead_stores_nothing_under_its_old_name(
    schema: Schema, store: Callable[..., PostgresStore]
) -> None:
    """It begins anew: with another id, and with nothing in hand."""
    one = store()
    await in_hand(one)
    await one.sender.put(NEW, "ready")
    former = id_of(one)
    schema.judge(one)
    schema.do("DELETE FROM messages")
    await one.sender.put(NEW, "anew")
    assert id_of(one) != former
    assert schema.holders() == [(id_of(one), 1)]
    assert texts(await one.leases.claim(NEW, MOST)) == ["anew"]


def test_nobody_is_judged_while_a_transaction_holds_it(
    schema: Schema, store: Callable[..., PostgresStore]
) -> None:
    one, two = store(), store()
    begun, go_on = Event(), Event()

    def slow(writing: WriteTransaction) -> None:
        writing.rows("SELECT 1")  # What was sent before has its effect then.
        begun.set()
        go_on.wait(60)

    writing = Thread(target=partial(one.database.write, slow))
    writing.start()
    assert begun.wait(60)
    seen, _ = two.database.processes._seen[id_of(one)]
    with pytest.raises(StorageUnavailable):
        two.database.processes._judge(id_of(one), seen)
    go_on.set()
    writing.join()
    assert schema.do("SELECT 1 FROM processes WHERE dead") == []
    two.database.processes._judge(id_of(one), seen)
    assert schema.do("SELECT id FROM processes WHERE dead") == [(id_of(one),)]


def test_a_process_is_dead_after_45_seconds_of_reads_that_found_its_row_unchanged(
    schema: Schema, store: Callable[..., PostgresStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the clock of who looks. An outage of reads counts for nothing; so does a renewal."""
    time = Time()
    one, two = store(), store(boottime=time)

    def dead(after: int = 0) -> bool:
        """Look each second."""
        for _ in range(after):
            time.seconds += 1
            two.database.processes.observe()
        return bool(schema.do("SELECT 1 FROM processes WHERE dead AND id = $1", id_of(one)))

    assert not dead(after=44)
    one.database.processes.renew()
    assert not dead(after=10)
    with monkeypatch.context() as outage:
        fails = StorageUnavailable("away")
        outage.setattr(two.database.connections, "read", lambda _: (_ for _ in ()).throw(fails))
        with pytest.raises(StorageUnavailable):
            two.database.processes.observe()
    assert not dead(after=45)
    assert dead(after=1)
    assert two.database.processes.takeovers == 1


def test_a_server_tells_takeovers_leases_dead_rows_and_commits(
    schema: Schema, store: Callable[..., PostgresStore]
) -> None:
    """As for SQLite: by what metrics and status show."""
    time = Time()
    _, two = store(), store(boottime=time)

    def shown() -> dict[str, float]:
        schema.do("SELECT pg_stat_force_next_flush()")
        return {each.name: each.value for each in two.measures()}

    before = shown()
    assert (before["processes"], before["takeovers_total"]) == (2, 0)
    for _ in range(45):
        time.seconds += 1
        two.database.processes.observe()
    assert shown()["lease_age_seconds"] >= 45
    two.database.processes.renew()
    two.database.processes.observe()
    two.database.write(lambda writing: writing.run("UPDATE state SET value = value"))
    after = shown()
    assert (after["processes"], after["takeovers_total"]) == (1, 1)
    assert after["lease_age_seconds"] < 45
    assert after["commits_total"] > before["commits_total"]
    assert after["commit_seconds_total"] > before["commit_seconds_total"]
    assert after["bytes"] > 0
    schema.do("UPDATE state SET value = value")
    schema.do("SELECT pg_stat_force_next_flush()")
    assert shown()["dead_rows"] > after["dead_rows"]


def test_who_was_stopped_or_suspended_judges_nobody_by_what_it_has_not_seen(
    schema: Schema, store: Callable[..., PostgresStore]
) -> None:
    """All servers may have been, and the database with them."""
    time = Time()
    _, two = store(), store(boottime=time)
    time.seconds += 3600
    two.database.processes.observe()
    assert schema.do("SELECT 1 FROM processes WHERE dead") == []


def test_a_process_that_has_died_during_an_outage_is_found(
    schema: Schema, store: Callable[..., PostgresStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So suspects among what it had in hand are looked for."""
    one, two = store(), store()
    with monkeypatch.context() as outage:
        fails = StorageUnavailable("away")
        outage.setattr(two.database.connections, "read", lambda _: (_ for _ in ()).throw(fails))
        with pytest.raises(StorageUnavailable):
            two.database.processes.observe()
    schema.judge(one)
    found: list[bool] = []
    two.database.processes.found_dead = lambda: found.append(True)
    two.database.processes.observe()
    two.database.processes.observe()
    assert found == [True]


def test_marking_is_conditional_on_what_was_seen(
    schema: Schema, store: Callable[..., PostgresStore]
) -> None:
    one, two = store(), store()
    seen, _ = two.database.processes._seen[id_of(one)]
    one.database.processes.renew()
    two.database.processes._judge(id_of(one), seen)
    assert schema.do("SELECT 1 FROM processes WHERE dead") == []


def test_a_start_that_a_failover_has_lost_leaves_its_id_to_nobody(
    schema: Schema, store: Callable[..., PostgresStore]
) -> None:
    """Else a late worker had the name of who begins next."""
    one = store()
    schema.do("DELETE FROM processes")  # as on a standby that lacks the last seconds
    schema.do("UPDATE state SET value = value - 1 WHERE name = 'run'")
    assert id_of(store()) != id_of(one)


# ── A server of another history ──


async def test_after_a_failover_a_process_begins_anew(
    schema: Schema, store: Callable[..., PostgresStore]
) -> None:
    """A settlement may have been rolled back: what it had in hand is claimed anew."""
    one = store()
    lease = await in_hand(one)
    former = id_of(one)
    schema.do("UPDATE processes SET timeline = '000000FF'")
    (crm,) = parts("crm")
    assert await settle(one, lease, Settlement(part=crm)) == [Answer.NOT_OURS]
    assert id_of(one) != former
    judge_all = "UPDATE processes SET dead = TRUE WHERE id = $1"
    schema.do(judge_all, former)
    (again,) = await one.leases.claim(NEW, MOST)
    assert again.body == lease.body
    await one.leases.end(lease)  # the late one's end is not the other's
    assert await settle(one, again, Settlement(part=crm)) == [Answer.SETTLED]


@pytest.mark.parametrize(
    "restored",
    [
        "DELETE FROM processes",
        "UPDATE processes SET number = 1",
        "UPDATE processes SET renewals = 0",
    ],
)
async def test_after_a_restore_to_an_earlier_point_a_process_begins_anew(
    schema: Schema, store: Callable[..., PostgresStore], restored: str
) -> None:
    """Its row is gone, or has a number of before: what it has in hand may be there once more."""
    one = store()
    lease = await in_hand(one)
    one.database._committer._needs_number = True
    await one.sender.put(NEW, "under its second number")
    await asyncio.to_thread(one.database.processes.renew)
    former = id_of(one)
    schema.do(restored)
    with suppress(StorageUnavailable):
        await asyncio.to_thread(one.database.processes.renew)
    assert id_of(one) != former
    (crm,) = parts("crm")
    assert await settle(one, lease, Settlement(part=crm)) == [Answer.NOT_OURS]


async def test_who_begins_anew_has_no_lease_before_its_hand_is_empty(
    schema: Schema, store: Callable[..., PostgresStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While its event loop is busy it stays lost; others have what it had by then."""
    monkeypatch.setattr(leases_module, "_LOOP_SECONDS", 0.1)

    one = store()
    await prime(one)
    await one.sender.put_all(NEW, ["a", "b", "c"])
    schema.judge(one)
    with suppress(StorageUnavailable):
        one.database.processes.renew()  # the loop waits for it
    assert not one.database.has_lease
    with suppress(StorageUnavailable):
        await asyncio.to_thread(one.database.processes.renew)
    assert one.database.has_lease
    assert one.leases._numbers() == []


def test_a_process_that_begins_anew_is_nobody_s_takeover(
    schema: Schema, store: Callable[..., PostgresStore]
) -> None:
    """It ends under its former id, so that no other finds it dead; none of them has died."""
    time = Time()
    both = [store(boottime=time), store(boottime=time)]
    schema.do("UPDATE processes SET timeline = '000000FF'")
    for _ in range(50):
        time.seconds += 1
        for each in both:
            with suppress(StorageUnavailable):
                each.database.processes.renew()
            each.database.processes.observe()
    assert [each.database.processes.takeovers for each in both] == [0, 0]
    alive = schema.do("SELECT id FROM processes WHERE NOT dead")
    assert sorted(alive) == sorted((id_of(each),) for each in both)


# ── Time ──


async def test_due_times_are_the_databases(
    schema: Schema, store: Callable[..., PostgresStore]
) -> None:
    """Whatever the machine's clock says: that of `told` is an hour off."""
    time = Time()
    one = store(boottime=time)
    now = one.database.time.now()
    one.database.time.tell(int((now + HOUR).timestamp() * 1e6))
    await one.sender.put(RETRIES, "later", HOUR)
    ((due,),) = schema.do("SELECT due FROM messages")
    assert abs(due / 1e6 - (now + 2 * HOUR).timestamp()) < 60
    await asyncio.to_thread(one.database.processes.renew)
    assert abs((one.database.time.now() - now).total_seconds()) < 600


# ── Election ──


def test_of_all_that_live_the_oldest_is_elected(
    schema: Schema, store: Callable[..., PostgresStore]
) -> None:
    time = Time()
    one, two = store(boottime=time), store()
    for each in (one, two):
        each.database.processes.observe()
    assert (one.database.processes.is_elected, two.database.processes.is_elected) == (True, False)
    assert (one.database.is_new, two.database.is_new) == (True, False)
    time.seconds += 31
    assert not one.database.processes.is_elected
    schema.judge(one)
    two.database.processes.observe()
    assert two.database.processes.is_elected


# ── Connections ──


def test_a_renewal_waits_for_no_write_that_takes_long(store: Callable[..., PostgresStore]) -> None:
    one = store()
    begun, go_on = Event(), Event()

    def slow(_: object) -> None:
        begun.set()
        go_on.wait(60)

    writing = Thread(target=partial(one.database.write, slow))
    writing.start()
    assert begun.wait(60)
    before = one.database._committer.own.renewals
    one.database.processes.renew()
    assert writing.is_alive()
    go_on.set()
    writing.join()
    assert one.database._committer.own.renewals == before + 1


def test_a_process_has_four_connections_at_most(
    store: Callable[..., PostgresStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, opened = store(), []
    open_ = Connecting.open

    def counted(connecting: Connecting) -> psycopg.Connection[Any]:
        opened.append(open_(connecting))
        return opened[-1]

    monkeypatch.setattr(Connecting, "open", counted)
    go_on, begun = Event(), Semaphore(0)

    def slow(_: object) -> None:
        begun.release()
        go_on.wait(60)

    database = one.database
    calls: list[Callable[..., object]] = [database.write, *[database.read] * 4]
    calls += [database.connections.apart] * 3
    threads = [Thread(target=partial(call, slow)) for call in calls]
    for each in threads:
        each.start()
    for _ in range(4):
        assert begun.acquire(timeout=60)
    assert len([each for each in opened if not each.closed]) <= 4
    go_on.set()
    for each in threads:
        each.join()
    assert len([each for each in opened if not each.closed]) <= 4
