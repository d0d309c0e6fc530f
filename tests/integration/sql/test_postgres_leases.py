"""
Processes on one PostgreSQL: who has a message, until when, and what a late one may do.

Each test is of a rule of the protocol (docs/stores.md), and red without it.
"""

from __future__ import annotations

import asyncio
import itertools
import time as system_time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from threading import Event, Thread
from typing import Any

import pytest

from pushgrid.testing.memory import START, Counted, FakeClock
from shared.adapters.sql import hand as hand_module
from shared.adapters.sql.database import micros
from shared.adapters.sql.messages import NewMessage
from shared.adapters.sql.postgres import processes as processes_module
from shared.adapters.sql.postgres import store as store_module
from shared.adapters.sql.postgres.store import PostgresStore
from shared.adapters.sql.postgres.transaction import Transaction
from shared.adapters.sql.queues import RECEIVE_AT_MOST
from shared.engine.ports import Queue
from shared.engine.ports.leases import Lease
from shared.engine.ports.settling import Answer, Settlement
from tests.builders import a_record
from tests.integration.sql.databases import Schema, Time, id_of
from tests.integration.sql.test_leases import MOST, NEW, RETRIES, prime, texts
from tests.integration.sql.test_settling import parts, text_of

HOUR, NO_TIME = timedelta(hours=1), timedelta()


async def in_hand(store: PostgresStore, *names: str) -> Lease:
    await prime(store)
    await store.sender.put(NEW, text_of(parts(*(names or ("crm",)))))
    (lease,) = await store.leases.claim(NEW, MOST)
    return lease


async def settle(store: PostgresStore, lease: Lease, *settlements: Settlement) -> list[Answer]:
    settling = store.settling(lease, Counted())
    return [each.answer for each in await settling.settle(settlements, NO_TIME)]


# ── Who has a message ──


async def test_what_a_living_process_has_in_hand_is_nobody_elses_until_it_is_marked_dead(
    schema: Schema, store: Callable[..., PostgresStore]
) -> None:
    """Not even while its row is not there: it may be registering."""
    one, two = store(), store()
    lease = await in_hand(one)
    for statement in (
        "SELECT 1",
        f"DELETE FROM processes WHERE id = {id_of(one)}",  # noqa: S608
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


async def test_what_other_processes_alone_may_push_is_not_in_hand_when_it_is_stored(
    schema: Schema, store: Callable[..., PostgresStore]
) -> None:
    """They have the whole of a limit; its other messages are."""
    one, two = store(), store()
    await prime(one)
    one.sender.has_share = lambda key: key.subscription != "crm"
    stored = [text_of(parts(*names)) for names in (["crm"], ["erp"], ["erp", "crm"])]
    await one.sender.put_all(NEW, stored)
    assert schema.holders() == [(id_of(one), 1)]
    assert texts(await two.leases.claim(NEW, MOST)) == [stored[0], stored[2]]
    assert texts(await one.leases.claim(NEW, MOST)) == [stored[1]]


async def test_what_another_has_stored_is_claimed_before_it_is_due(
    schema: Schema, store: Callable[..., PostgresStore]
) -> None:
    """By looks that overlap; so it is handed over by a timer of this process."""
    assert hand_module.AHEAD.total_seconds() > store_module.LOOK_EVERY
    one, two = store(), store()
    await prime(two)
    claim = asyncio.create_task(two.leases.claim(RETRIES, MOST))
    await one.sender.put(RETRIES, "later", timedelta(seconds=2))
    while not schema.holders():
        assert not claim.done()
        await asyncio.sleep(0.01)
    ((due,),) = schema.do("SELECT due FROM messages")
    assert texts(await claim) == ["later"]
    assert micros(two.time.now()) >= due


def look_empty(schema: Schema) -> None:
    """Let the statistics say that no message is there, as they do after a quiet hour."""
    schema.do(
        "INSERT INTO messages SELECT -number, 'retries', 0, 0, 0, 0, 0, 0, NULL, NULL, ''"
        " FROM generate_series(1, 3000) AS found (number)"
    )
    schema.do("DELETE FROM messages")
    schema.do("ANALYZE messages")


async def test_claims_pass_over_nothing_whatever_the_statistics_say(
    schema: Schema, store: Callable[..., PostgresStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan that ran the selection once a row would lock more rows each time, and skip others."""
    sizes: list[int] = []
    rows = Transaction.rows

    def counted(transaction: Transaction, statement: str, *given: object) -> list[Any]:
        found = rows(transaction, statement, *given)
        if statement.startswith("UPDATE messages"):
            sizes.append(len(found))
        return found

    monkeypatch.setattr(Transaction, "rows", counted)
    clock = FakeClock()
    one = store(clock=clock)
    await prime(one)
    look_empty(schema)
    delays = [timedelta(seconds=3, milliseconds=7 * n % 1000) for n in range(1000)]
    await asyncio.gather(*(one.sender.put(RETRIES, f"in {each}", each) for each in delays))
    clock.advance(timedelta(seconds=4))
    hand = one.leases._hands[RETRIES]
    while hand.is_behind(clock.now()):
        await one.leases._fill(RETRIES, hand)
    assert (len(hand.ahead), max(sizes)) == (len(delays), hand_module.BATCH)


async def test_a_timer_receives_no_more_than_it_asks_for(
    schema: Schema, store: Callable[..., PostgresStore]
) -> None:
    """The others would be hidden as well, and nobody would have them."""
    one = store()
    look_empty(schema)
    names = [f"{number}" for number in range(100)]
    await one.sender.put_all(Queue.DEADLETTERS, names)
    got = []
    while found := await asyncio.to_thread(one.queues.receive, Queue.DEADLETTERS, HOUR):
        assert len(found) <= RECEIVE_AT_MOST
        got += [each.text for each in found]
    assert sorted(got) == sorted(names)


async def test_looks_for_what_others_have_stored_leave_the_loop_to_others_while_there_is_no_room(
    store: Callable[..., PostgresStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hand_module, "ROOM", 2)
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


async def test_what_is_stored_during_a_look_for_what_others_have_stored_is_in_hand(
    store: Callable[..., PostgresStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else each look leaves messages in the table, which are looked for again."""
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


async def test_a_late_worker_settles_nothing(
    schema: Schema, store: Callable[..., PostgresStore]
) -> None:
    """It is told so; what another has in hand by now stays as it is."""
    one, two = store(), store()
    lease = await in_hand(one)
    schema.judge(one)
    (taken,) = await two.leases.claim(NEW, MOST)
    (crm,) = parts("crm")
    assert await settle(one, lease, Settlement(part=crm)) == [Answer.NOT_OURS]
    assert await settle(two, taken, Settlement(part=crm)) == [Answer.SETTLED]


async def test_a_late_worker_settles_nothing_that_its_own_process_has_claimed_anew(
    schema: Schema, store: Callable[..., PostgresStore]
) -> None:
    """Others may have had it meanwhile; who has it now settles it."""
    one = store()
    lease = await in_hand(one)
    schema.judge(one)
    await asyncio.to_thread(one.database.write, lambda _: None)  # It begins anew.
    (again,) = await one.leases.claim(NEW, MOST)
    (crm,) = parts("crm")
    assert await settle(one, lease, Settlement(part=crm)) == [Answer.NOT_OURS]
    assert await settle(one, again, Settlement(part=crm)) == [Answer.SETTLED]


async def test_two_that_settle_parts_of_a_message_at_once_end_it(
    schema: Schema, store: Callable[..., PostgresStore]
) -> None:
    """The second one waits for the message: else each sees the other's part open."""

    def until_it_waits() -> None:
        while not schema.do("SELECT 1 FROM pg_locks WHERE NOT granted"):
            system_time.sleep(0.01)

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


# ── A process's own time ──


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


async def test_without_its_lease_a_process_hands_over_nothing(
    store: Callable[..., PostgresStore],
) -> None:
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


def test_time_goes_on_while_the_machine_is_suspended() -> None:
    assert (
        getattr(system_time, "CLOCK_BOOTTIME", system_time.CLOCK_MONOTONIC)
        == processes_module._CLOCK
    )


# ── An end in order ──


async def test_what_is_handed_back_another_has_soon(store: Callable[..., PostgresStore]) -> None:
    """What is being delivered stays; of the rest nothing has died."""
    one, two = store(), store()
    await in_hand(one)
    await one.sender.put_all(NEW, ["a", "b"])
    await one.leases.hand_back()
    taken = await two.leases.claim(NEW, MOST)
    assert texts(taken) == ["a", "b"]
    assert {each.receipt.deaths for each in taken} == {0}  # type: ignore[attr-defined]


# ── Days ──


async def test_an_attempt_without_a_day_is_dropped_and_not_its_settlement(
    schema: Schema, store: Callable[..., PostgresStore]
) -> None:
    one = store()
    lease = await in_hand(one)
    (crm,) = parts("crm")
    old = a_record(published_at=START - timedelta(days=4000))
    new = a_record(published_at=one.time.now())
    assert await settle(one, lease, Settlement(part=crm, attempts=[old, new])) == [Answer.SETTLED]
    assert schema.do("SELECT COUNT(*) FROM attempts") == [(1,)]
