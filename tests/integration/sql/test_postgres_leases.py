"""
Processes on one PostgreSQL: who has a message, and what a late or doubtful transaction may do.

Each test is of a rule of the protocol (docs/stores.md), and red without it.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import time as system_time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from threading import Event, Semaphore, Thread
from typing import Any

import psycopg
import pytest

from pushgrid.testing.memory import START, Counted
from shared.adapters.sql import hand as hand_module
from shared.adapters.sql import messages
from shared.adapters.sql.database import Catalogue, WriteOptions, WriteTransaction, micros
from shared.adapters.sql.hand import receipt_of
from shared.adapters.sql.messages import NewMessage, parts_of
from shared.adapters.sql.postgres import committer as committer_module
from shared.adapters.sql.postgres import processes as processes_module
from shared.adapters.sql.postgres import store as store_module
from shared.adapters.sql.postgres.connecting import Connecting
from shared.adapters.sql.postgres.database import PostgresDatabase
from shared.adapters.sql.postgres.store import PostgresStore
from shared.adapters.sql.postgres.transaction import Transaction
from shared.arm.subscription_codec import to_subscription_in_force
from shared.delivery.messages.message import MessagePart
from shared.delivery.policy import EndReason, EndState
from shared.engine.ports import Queue, Table
from shared.engine.ports.leases import Lease
from shared.engine.ports.settling import Answer, Ended, FollowUp, Settlement
from shared.errors import StorageUnavailable
from shared.metrics import Metric, count_of, counts_of_text
from tests.builders import a_record
from tests.integration.sql.databases import Schema
from tests.integration.sql.test_leases import MOST, NEW, RETRIES, claimed, prime, running, texts
from tests.integration.sql.test_settling import parts, text_of
from tests.postgres_server import PostgresServer
from tests.unit.arm.documents import subscription

HOUR, NO_TIME = timedelta(hours=1), timedelta()


class Time:
    """The seconds of a machine's clock that goes on while it is suspended."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def schema(postgres: PostgresServer) -> Schema:
    return Schema(postgres)


@pytest.fixture
def store(schema: Schema) -> Iterator[Callable[..., PostgresStore]]:
    """Start processes on one schema."""
    with ExitStack() as stack:

        def start(**options: Any) -> PostgresStore:
            return stack.enter_context(schema.store(**options))

        yield start


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(coroutine, 120))


def id_of(store: PostgresStore) -> int:
    return store.database._committer.own.process.id


def judge(schema: Schema, store: PostgresStore) -> None:
    """Mark a process as dead, as another would."""
    schema.do("UPDATE processes SET dead = TRUE WHERE id = $1", id_of(store))


def runs(schema: Schema) -> list[tuple[int, int]]:
    """Return the ids and numbers that stand with messages in hand."""
    rows = "SELECT run >> 20, run & 1048575 FROM messages WHERE run > 0 ORDER BY id"
    return schema.do(rows)


async def in_hand(store: PostgresStore, *names: str) -> Lease:
    await prime(store)
    await store.sender.put(NEW, text_of(parts(*(names or ("crm",)))))
    (lease,) = await store.leases.claim(NEW, MOST)
    return lease


async def settle(store: PostgresStore, lease: Lease, *settlements: Settlement) -> list[Answer]:
    settling = store.settling(lease, Counted())
    return [each.answer for each in await settling.settle(settlements, NO_TIME)]


class Cut:
    """
    Cuts the connection at the next commit: *before* it is sent, or when it is stored.

    At the next with rows of *where*, if that is given.
    """

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, *, is_stored: bool, times: int = 1, where: str = ""
    ) -> None:
        self.left = times
        self.then: Callable[[], object] = lambda: None
        execute = Transaction.execute

        def cut(transaction: Transaction, statement: str, *given: Any) -> Any:
            if statement != "COMMIT" or not self.left or not has_rows(transaction):
                return execute(transaction, statement, *given)
            connection = transaction._connection
            self.left -= 1
            if is_stored:
                execute(transaction, statement, *given)
                if connection._pipeline:
                    connection._pipeline.sync()
            connection.close()
            self.then()
            raise psycopg.OperationalError("server closed the connection unexpectedly")

        def has_rows(transaction: Transaction) -> bool:
            return not where or bool(execute(transaction, where).fetchall())

        monkeypatch.setattr(Transaction, "execute", cut)


# ── Who has a message (rules 1, 14, 15) ──


def test_what_a_living_process_has_in_hand_is_nobody_elses_until_it_is_marked_dead(
    schema: Schema, store: Callable[..., PostgresStore]
) -> None:
    """Not even while its row is not there: it may be registering."""

    async def play() -> None:
        one, two = store(), store()
        lease = await in_hand(one)
        for statement in (
            "SELECT 1",
            "DELETE FROM processes WHERE id = (SELECT run >> 20 FROM messages WHERE run > 0)",
        ):
            rows = schema.do("SELECT * FROM processes WHERE id = $1", id_of(one))
            schema.do(statement)
            two.leases.look_for_the_dead()
            await asyncio.sleep(0)
            await two.sender.put(NEW, "own")
            (own,) = await two.leases.claim(NEW, MOST)
            assert texts([own]) == ["own"]
            await two.leases.end(own)
        schema.do(
            "INSERT INTO processes (id, number, renewals, start, timeline, dead)"
            " VALUES ($1, $2, $3, $4, $5, TRUE)",
            *rows[0][:5],
        )
        (taken,) = await two.leases.claim(NEW, MOST)
        assert taken.body == lease.body
        assert taken.receipt.deaths == 1  # type: ignore[attr-defined]

    run(play())


def test_what_other_processes_alone_may_push_is_not_in_hand_when_it_is_stored(
    schema: Schema, store: Callable[..., PostgresStore]
) -> None:
    """They have the whole of a limit; its other messages are."""

    async def play() -> None:
        one, two = store(), store()
        await prime(one)
        one.sender.has_share = lambda key: key.subscription != "crm"
        stored = [text_of(parts(*names)) for names in (["crm"], ["erp"], ["erp", "crm"])]
        await one.sender.put_all(NEW, stored)
        assert runs(schema) == [(id_of(one), 1)]
        assert texts(await two.leases.claim(NEW, MOST)) == [stored[0], stored[2]]
        assert texts(await one.leases.claim(NEW, MOST)) == [stored[1]]

    run(play())


def test_what_another_has_stored_is_claimed_before_it_is_due(
    schema: Schema, store: Callable[..., PostgresStore]
) -> None:
    """By looks that overlap; so it is handed over by a timer of this process."""
    assert hand_module.AHEAD.total_seconds() > store_module.LOOK_EVERY

    async def play() -> None:
        one, two = store(), store()
        await prime(two)
        claim = asyncio.create_task(two.leases.claim(RETRIES, MOST))
        await one.sender.put(RETRIES, "later", timedelta(seconds=2))
        while not runs(schema):
            assert not claim.done()
            await asyncio.sleep(0.01)
        ((due,),) = schema.do("SELECT due FROM messages")
        assert texts(await claim) == ["later"]
        assert micros(two.time.now()) >= due

    run(play())


def test_looks_for_what_others_have_stored_leave_the_loop_to_others_while_there_is_no_room(
    store: Callable[..., PostgresStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hand_module, "ROOM", 2)

    async def play() -> None:
        one = store()
        await prime(one)
        await one.sender.put_all(NEW, ["a", "b", "c"])
        assert len(await one.leases.claim(NEW, MOST)) == 2
        times = itertools.count()
        now = one.leases._now

        def counted() -> datetime:
            assert next(times) < 1000
            return now()

        monkeypatch.setattr(one.leases, "_now", counted)
        one.leases._hands[NEW].look_at = 0.0
        claim = asyncio.create_task(one.leases.claim(NEW, MOST))
        await asyncio.sleep(0.1)
        assert not claim.done()
        claim.cancel()

    run(play())


def test_what_is_stored_during_a_look_for_what_others_have_stored_is_in_hand(
    store: Callable[..., PostgresStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else each look leaves messages in the table, which are looked for again."""

    async def play() -> None:
        one = store()
        await prime(one)
        goes_on = Event()
        waiting = asyncio.create_task(one.database.write_on_loop(lambda _: goes_on.wait()))
        hand = one.leases._hands[NEW]
        hand.look_at = 0.0
        claim = asyncio.create_task(one.leases.claim(NEW, MOST))
        while not hand.reserved:  # noqa: ASYNC110 - for what the look finds
            await asyncio.sleep(0.01)
        born: list[str] = []
        stored = one.leases.stored

        def told(queue: Queue, of_us: Sequence[NewMessage], *others: Any) -> None:
            born.extend(each.body.decode() for each in of_us)
            stored(queue, of_us, *others)

        monkeypatch.setattr(one.leases, "stored", told)
        put = asyncio.create_task(one.sender.put(NEW, "born"))
        await asyncio.sleep(0.01)
        goes_on.set()
        await asyncio.gather(waiting, put)
        assert texts(await claim) == born == ["born"]

    run(play())


def test_a_late_worker_settles_nothing(schema: Schema, store: Callable[..., PostgresStore]) -> None:
    """It is told so; what another has in hand by now stays as it is."""

    async def play() -> None:
        one, two = store(), store()
        lease = await in_hand(one)
        judge(schema, one)
        (taken,) = await two.leases.claim(NEW, MOST)
        (crm,) = parts("crm")
        assert await settle(one, lease, Settlement(part=crm)) == [Answer.NOT_OURS]
        assert await settle(two, taken, Settlement(part=crm)) == [Answer.SETTLED]

    run(play())


def test_two_that_settle_parts_of_a_message_at_once_end_it(
    schema: Schema, store: Callable[..., PostgresStore]
) -> None:
    """The second one waits for the message: else each sees the other's part open."""

    def until_it_waits() -> None:
        while not schema.do("SELECT 1 FROM pg_locks WHERE NOT granted"):
            system_time.sleep(0.01)

    async def play() -> None:
        one = store()
        lease = await in_hand(one, "crm", "erp")
        crm, erp = parts("crm", "erp")
        settling = one.settling(lease, Counted())
        steps = settling._steps([Settlement(part=crm)])
        begun, go_on = Event(), Event()

        def slow(transaction: Transaction) -> None:
            settling._write(transaction, steps)
            begun.set()
            go_on.wait(60)

        first = Thread(target=one.database.connections.apart, args=(slow,))
        first.start()
        assert await asyncio.to_thread(begun.wait, 60)
        second = asyncio.create_task(settle(one, lease, Settlement(part=erp)))
        await asyncio.to_thread(until_it_waits)
        go_on.set()
        await asyncio.to_thread(first.join)
        assert await second == [Answer.SETTLED]
        assert schema.do("SELECT 1 FROM messages") == []

    run(play())


# ── Judging (rules 10, 16, 17) ──


def test_who_was_judged_dead_stores_nothing_under_its_old_name(
    schema: Schema, store: Callable[..., PostgresStore]
) -> None:
    """It begins anew: with another id, and with nothing in hand."""

    async def play() -> None:
        one = store()
        await in_hand(one)
        await one.sender.put(NEW, "ready")
        former = id_of(one)
        judge(schema, one)
        schema.do("DELETE FROM messages")
        await one.sender.put(NEW, "anew")
        assert id_of(one) != former
        assert runs(schema) == [(id_of(one), 1)]
        assert texts(await one.leases.claim(NEW, MOST)) == ["anew"]

    run(play())


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
    judge(schema, one)
    found: list[bool] = []
    two.database.processes.may_be_free = lambda: found.append(True)
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


# ── A process's own time (rule 18) ──


def test_the_own_lease_counts_from_the_sending_of_a_renewal(
    store: Callable[..., PostgresStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    time = Time()
    one = store(boottime=time)
    execute = Transaction.execute

    def slow(transaction: Transaction, statement: str, *given: Any) -> Any:
        time.seconds += 20 if "renewals + 1" in statement else 0
        return execute(transaction, statement, *given)

    monkeypatch.setattr(Transaction, "execute", slow)
    one.database.processes.renew()
    time.seconds += 9
    assert one.database.has_lease
    time.seconds += 1
    assert not one.database.has_lease


def test_without_its_lease_a_process_hands_over_nothing(
    store: Callable[..., PostgresStore],
) -> None:
    async def play() -> None:
        time = Time()
        one = store(boottime=time)
        await prime(one)
        await one.sender.put(NEW, "one")
        time.seconds += 31
        claim = asyncio.create_task(one.leases.claim(NEW, MOST))
        await asyncio.sleep(0.05)
        assert not claim.done()
        await asyncio.to_thread(one.database.processes.renew)
        assert texts(await claim) == ["one"]

    run(play())


def test_time_goes_on_while_the_machine_is_suspended() -> None:
    assert (
        getattr(system_time, "CLOCK_BOOTTIME", system_time.CLOCK_MONOTONIC)
        == processes_module._CLOCK
    )


# ── Commits of unknown outcome (rules 11, 12, 13) ──


@pytest.mark.parametrize("is_stored", [True, False])
@pytest.mark.parametrize("times", [1, 3])
def test_a_commit_of_unknown_outcome_is_repeated_before_it_is_answered(
    schema: Schema,
    store: Callable[..., PostgresStore],
    monkeypatch: pytest.MonkeyPatch,
    is_stored: bool,  # noqa: FBT001
    times: int,
) -> None:
    """Once it is there, in this process's hand, under its next number; what was in hand as well."""

    async def play() -> None:
        one = store()
        held = await in_hand(one)
        cut = Cut(monkeypatch, is_stored=is_stored, times=times)
        await one.sender.put(NEW, "born")
        assert not cut.left
        ((number,),) = schema.do("SELECT number FROM processes")
        assert number > 1
        assert runs(schema) == [(id_of(one), number)] * 2
        (born,) = await one.leases.claim(NEW, MOST)
        assert texts([born]) == ["born"]
        (crm,) = parts("crm")
        assert await settle(one, held, Settlement(part=crm)) == [Answer.SETTLED]
        await one.leases.end(born)
        assert schema.do("SELECT 1 FROM messages") == []

    run(play())


def test_what_was_not_in_hand_at_its_birth_is_not_repeated(
    schema: Schema, store: Callable[..., PostgresStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another may have claimed and ended it: who put it is told that it may be stored."""

    async def play() -> None:
        one = store()
        await prime(one)
        Cut(monkeypatch, is_stored=False)
        with pytest.raises(StorageUnavailable):
            await one.sender.put(RETRIES, "later", HOUR)
        assert schema.do("SELECT 1 FROM messages") == []
        await one.sender.put(NEW, "next")
        assert len(runs(schema)) == 1

    run(play())


@pytest.mark.parametrize(("times", "is_stored"), [(1, True), (1, False), (2, True)])
@pytest.mark.parametrize("deaths", range(4))
def test_what_was_claimed_by_a_commit_of_unknown_outcome_is_handed_over(
    schema: Schema,
    monkeypatch: pytest.MonkeyPatch,
    deaths: int,
    times: int,
    is_stored: bool,  # noqa: FBT001
) -> None:
    """Be it a suspect or not, and the next number taken at once or not; nobody has died of it."""
    monkeypatch.setattr(committer_module, "_REPEATED_FOR", -1.0)

    async def play() -> None:
        async with running(schema, None, dies=True) as store:
            await store.sender.put(NEW, "one")
        for _ in range(deaths):
            async with running(schema, None, dies=True) as store:
                assert await claimed(store) == ["one"]
        async with running(schema, None) as store:
            assert isinstance(store, PostgresStore)
            ours = f"SELECT 1 FROM messages WHERE run >> 20 = {id_of(store)}"  # noqa: S608
            cut = Cut(monkeypatch, is_stored=is_stored, times=times, where=ours)
            with pytest.raises(StorageUnavailable):
                await store.leases.claim(NEW, MOST)
            assert not cut.left
            (lease,) = await asyncio.wait_for(store.leases.claim(NEW, MOST), 20)
            assert texts([lease]) == ["one"]
            assert receipt_of(lease).deaths == deaths

    run(play())


def test_what_is_stored_in_part_in_hand_by_a_commit_of_unknown_outcome_is_handed_over(
    store: Callable[..., PostgresStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who put it is told that it may be stored; no process has died."""
    monkeypatch.setattr(hand_module, "ROOM", 2)

    async def play() -> None:
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

    run(play())


@pytest.mark.parametrize("is_stored", [True, False])
def test_a_process_that_was_judged_meanwhile_does_not_repeat(
    schema: Schema,
    store: Callable[..., PostgresStore],
    monkeypatch: pytest.MonkeyPatch,
    is_stored: bool,  # noqa: FBT001
) -> None:
    async def play() -> None:
        one = store()
        await prime(one)
        cut = Cut(monkeypatch, is_stored=is_stored)
        cut.then = lambda: judge(schema, one)
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
        assert set(runs(schema)) == {(id_of(one), 1)}

    run(play())


def test_a_settlement_of_unknown_outcome_is_sent_again_under_the_next_number(
    schema: Schema, store: Callable[..., PostgresStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play(*, is_stored: bool, answer: Answer) -> None:
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

    run(play(is_stored=True, answer=Answer.SETTLED_ALREADY))
    run(play(is_stored=False, answer=Answer.SETTLED))


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
    one.database._committer._is_doubtful = True
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
def test_a_late_success_that_a_commit_of_unknown_outcome_takes_back_is_one(
    schema: Schema,
    store: Callable[..., PostgresStore],
    monkeypatch: pytest.MonkeyPatch,
    events: int,
    is_stored: bool,  # noqa: FBT001
) -> None:
    """It does not come again: nobody else would count it as delivered."""

    async def play() -> None:
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

    run(play())


def test_a_late_success_that_has_come_again_and_ended_before_a_failure_is_none(
    schema: Schema, store: Callable[..., PostgresStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """That end was counted."""

    async def play() -> None:
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

    run(play())


@pytest.mark.parametrize("is_stored", [True, False])
def test_a_settlement_of_unknown_outcome_counts_once(
    schema: Schema,
    store: Callable[..., PostgresStore],
    monkeypatch: pytest.MonkeyPatch,
    is_stored: bool,  # noqa: FBT001
) -> None:
    """What comes next adds to what is stored."""

    async def play() -> None:
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

    run(play())


def test_a_commit_that_may_not_be_replicated_is_repeated(
    schema: Schema, store: Callable[..., PostgresStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody has cancelled the wait for the standby: the server says so in a warning."""

    async def play() -> None:
        one = store()
        await prime(one)
        note = committer_module.PostgresCommitter._note_commit
        warned: list[int] = []

        def warn(writer: Any, *given: Any) -> None:
            if not warned:
                warned.append(1)
                said = "DO $$ BEGIN RAISE WARNING 'canceling wait for synchronous replication due"
                writer._connection_.execute(
                    f"{said} to user request' USING ERRCODE='01000'; END $$"
                )
            note(writer, *given)

        monkeypatch.setattr(committer_module.PostgresCommitter, "_note_commit", warn)
        await one.sender.put(NEW, "born")
        assert runs(schema) == [(id_of(one), 2)]

    run(play())


# ── A server of another history (rule 21) ──


def test_after_a_failover_a_process_begins_anew(
    schema: Schema, store: Callable[..., PostgresStore]
) -> None:
    """A settlement may have been rolled back: what it had in hand is claimed anew."""

    async def play() -> None:
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

    run(play())


@pytest.mark.parametrize(
    "restored",
    [
        "DELETE FROM processes",
        "UPDATE processes SET number = 1",
        "UPDATE processes SET renewals = 0",
    ],
)
def test_after_a_restore_to_an_earlier_point_a_process_begins_anew(
    schema: Schema, store: Callable[..., PostgresStore], restored: str
) -> None:
    """Its row is gone, or has a number of before: what it has in hand may be there once more."""

    async def play() -> None:
        one = store()
        lease = await in_hand(one)
        one.database._committer._is_doubtful = True
        await one.sender.put(NEW, "under its second number")
        await asyncio.to_thread(one.database.processes.renew)
        former = id_of(one)
        schema.do(restored)
        with suppress(StorageUnavailable):
            await asyncio.to_thread(one.database.processes.renew)
        assert id_of(one) != former
        (crm,) = parts("crm")
        assert await settle(one, lease, Settlement(part=crm)) == [Answer.NOT_OURS]

    run(play())


# ── An end in order (rule 19) ──


def test_what_is_handed_back_another_has_soon(store: Callable[..., PostgresStore]) -> None:
    """What is being delivered stays; of the rest nothing has died."""

    async def play() -> None:
        one, two = store(), store()
        await in_hand(one)
        await one.sender.put_all(NEW, ["a", "b"])
        await one.leases.hand_back()
        taken = await two.leases.claim(NEW, MOST)
        assert texts(taken) == ["a", "b"]
        assert {each.receipt.deaths for each in taken} == {0}  # type: ignore[attr-defined]

    run(play())


# ── Locks (rules 2, 20) ──


def test_an_end_by_terms_waits_for_who_changes_them(
    store: Callable[..., PostgresStore],
) -> None:
    """The update is answered before the end is stored, so the end is judged anew."""

    async def play() -> None:
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

    run(play())


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


def test_what_frees_a_pause_waits_for_nobody_who_parks_for_it(
    schema: Schema, store: Callable[..., PostgresStore]
) -> None:
    """It leaves the row to a later claim."""

    async def play() -> None:
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
        two.leases.may_be_free()
        await asyncio.sleep(0)
        await two.leases._fill(RETRIES, two.leases._hands[RETRIES])
        assert parking.is_alive()
        assert schema.do("SELECT id FROM parked") == [(1,)]
        go_on.set()
        parking.join()
        await two.leases._fill(RETRIES, two.leases._hands[RETRIES])
        assert schema.do("SELECT id FROM parked") == []

    run(play())


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


# ── Long life ──


def test_a_process_that_stops_inside_a_transaction_keeps_no_locks(
    store: Callable[..., PostgresStore],
) -> None:
    """Who claims passes over what is locked: the server ends such a transaction after 5 s."""
    one = store()
    shown = "SELECT current_setting('idle_in_transaction_session_timeout')"
    for call in (one.database.write, one.database.read, one.database.connections.apart):
        assert call(lambda transaction: transaction.rows(shown)) == [("5s",)]


# ── Time (rule 22) and days (rule 23) ──


def test_due_times_are_the_databases(schema: Schema, store: Callable[..., PostgresStore]) -> None:
    """Whatever the machine's clock says: that of `told` is an hour off."""

    async def play() -> None:
        time = Time()
        one = store(boottime=time)
        now = one.database.time.now()
        one.database.time.tell(int((now + HOUR).timestamp() * 1e6))
        await one.sender.put(RETRIES, "later", HOUR)
        ((due,),) = schema.do("SELECT due FROM messages")
        assert abs(due / 1e6 - (now + 2 * HOUR).timestamp()) < 60
        await asyncio.to_thread(one.database.processes.renew)
        assert abs((one.database.time.now() - now).total_seconds()) < 600

    run(play())


def test_an_attempt_without_a_day_is_dropped_and_not_its_settlement(
    schema: Schema, store: Callable[..., PostgresStore]
) -> None:
    async def play() -> None:
        one = store()
        lease = await in_hand(one)
        (crm,) = parts("crm")
        old = a_record(published_at=START - timedelta(days=4000))
        new = a_record(published_at=one.time.now())
        assert await settle(one, lease, Settlement(part=crm, attempts=[old, new])) == [
            Answer.SETTLED
        ]
        assert schema.do("SELECT COUNT(*) FROM attempts") == [(1,)]

    run(play())


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
    judge(schema, one)
    two.database.processes.observe()
    assert two.database.processes.is_elected
