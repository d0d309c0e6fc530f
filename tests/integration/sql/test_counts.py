"""Counts are stored with what they count: after a kill at any moment they are what is stored."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Collection, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

from pushgrid.testing.memory import START, FakeClock, HeldPusher, ScriptedPusher, answered
from shared.adapters.sql import tally
from shared.adapters.sql.attempts import SqlAttempts
from shared.adapters.sql.counts import SqlCounts
from shared.adapters.sql.database import Database, Row
from shared.adapters.sql.sqlite.connection import SqliteConnection
from shared.adapters.sql.sqlite.database import SqliteDatabase
from shared.adapters.sql.sqlite.store import SqliteStore
from shared.clock import SystemClock
from shared.delivery.messages.message import MessagePart
from shared.delivery.policy import EndState
from shared.engine.ports import CUSTOM_TOPICS, KeyedCounts, Table
from shared.engine.ports.settling import Answer, Settlement, judged_again
from shared.metrics import Metric, Series, Sum, count_of
from shared.subscriptions.subscription import DeadLetterDestination, SubscriptionKey
from tests.builders import NEVER, a_topic, an_event
from tests.integration.sql.databases import Place, in_folder, opened
from tests.integration.sql.recorded_disk import RecordedDisk, restored
from tests.integration.sql.test_app import (
    URL,
    Server,
    has_dead_letters_later,
    serving,
    until,
)
from tests.integration.sql.test_leases import running
from tests.integration.sql.test_settling import HOUR, InHand, ended, in_hand, parts
from tests.unit.arm.documents import dead_letter, subscription, topic, webhook

CRM = SubscriptionKey("orders", "crm")
MINUTE = timedelta(minutes=1)
#: Accepts, accepts some and the rest later, refuses, and refuses without dead letters.
NAMES = ("crm", "erp", "wms", "dms")
METRICS = (
    Metric.DELIVERY_SUCCESS,
    Metric.ATTEMPT_FAIL,
    Metric.DROPPED,
    Metric.DEAD_LETTERED,
)

Found = Counter[tuple[Metric, str]]  # by metric and subscription
ENDS = {
    (Metric.DELIVERY_SUCCESS, "crm"): 3,
    (Metric.DELIVERY_SUCCESS, "erp"): 3,
    (Metric.ATTEMPT_FAIL, "erp"): 1,
    (Metric.ATTEMPT_FAIL, "wms"): 3,
    (Metric.DEAD_LETTERED, "wms"): 3,
    (Metric.ATTEMPT_FAIL, "dms"): 3,
    (Metric.DROPPED, "dms"): 3,
}


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def subscribe(store: SqliteStore) -> None:
    store.documents.put(Table.TOPICS, CUSTOM_TOPICS, "orders", topic(), None)
    for name in NAMES:
        dead: dict[str, Any] = {} if name == "dms" else {"deadLetterDestination": dead_letter()}
        document = subscription(name=name, destination=webhook(URL.format(name)), **dead)
        store.documents.put(Table.EVENT_SUBSCRIPTIONS, "orders", name, document, None)


@pytest.fixture
def disk() -> Iterator[RecordedDisk]:
    disk = RecordedDisk("recorded")
    yield disk
    disk.unregister()


def counted(database: Database) -> Found:
    return Counter(
        {
            (metric, key.subscription): by
            for key, counts in SqlCounts(database).totals().items()
            for metric in METRICS
            if (by := count_of(counts, metric))
        }
    )


def recorded(database: Database) -> Found:
    """Return what attempts and dead letters show."""
    found: Found = Counter()
    for name in NAMES:
        since = SystemClock().now() - timedelta(days=1)
        for each in (
            row for day in SqlAttempts(database).read("orders", name, since) for row in day
        ):
            if each.outcome:
                metric = Metric.DELIVERY_SUCCESS if each.is_delivered else Metric.ATTEMPT_FAIL
                found[metric, name] += 1
            if each.state is EndState.DROPPED:
                found[Metric.DROPPED, name] += 1
    rows = "SELECT path, body FROM blobs"
    for path, body in database.read(lambda reading: reading.rows(rows)):
        (name,) = (each for each in NAMES if f"/{each.upper()}/" in f"/{path}")
        found[Metric.DEAD_LETTERED, name] += len(json.loads(body))
    return found


async def play(server: Server, held: HeldPusher) -> None:
    """Settle a message bit by bit: at first, each part has one of its three events under way."""
    store = server.store
    events = [an_event(id=f"e-{number}") for number in range(3)]
    await server.app.publish.accept(a_topic(), events, "publish-1")
    await until(lambda: recorded(store.database)[Metric.DELIVERY_SUCCESS, "erp"] == 2)
    held.let_go()
    await until(lambda: store.queues.unfinished()[0] == {})
    await until(lambda: not has_dead_letters_later(store))
    await server.run_timer()


def test_after_a_kill_at_any_moment_counts_are_what_is_recorded(
    tmp_path: Path, disk: RecordedDisk
) -> None:
    pusher = ScriptedPusher(FakeClock())
    pusher.script(URL.format("erp"), answered(200), answered(503), answered(200))
    for name in ("wms", "dms"):
        pusher.script(URL.format(name), answered(400))
    held = HeldPusher(pusher)
    held.hold("e-2")
    images: list[dict[str, bytes]] = []

    async def main() -> None:
        async with serving(tmp_path / "data", held, connect=disk.connect) as server:
            await asyncio.to_thread(subscribe, server.store)
            disk.before_sync = lambda _: images.append(disk.after_power_failure())
            await play(server, held)

    asyncio.run(asyncio.wait_for(main(), 120))

    found = []
    for number, files in enumerate([*images, disk.after_power_failure()]):
        with opened(restored(tmp_path / f"image{number}", files)) as database:
            found.append((counted(database), recorded(database)))
    assert [each for each in found if each[0] != each[1]] == []
    assert found[-1][0] == ENDS
    in_between = next(n for n, each in enumerate(found) if each[0][Metric.DELIVERY_SUCCESS, "erp"])
    assert asyncio.run(asyncio.wait_for(ends(tmp_path / f"image{in_between}", pusher), 120)) == ENDS


async def ends(folder: Path, pusher: ScriptedPusher) -> Found:
    """Go on after a kill; return what is counted then."""
    async with serving(folder, pusher) as server:
        await until(lambda: server.store.queues.unfinished()[0] == {})
        await until(lambda: not has_dead_letters_later(server.store))
        await server.run_timer()
        found = counted(server.store.database)
        assert found == recorded(server.store.database)
        return found


def drop(part: MessagePart) -> Settlement:
    return Settlement(part=part, ends=ended(part))


async def settle_counted(message: InHand, settlement: Settlement) -> Answer:
    """Settle a part that was attempted once, and had all of it refused."""
    message.settling.metrics.count(
        Metric.ATTEMPT_FAIL, *settlement.part.key, by=2, Error="Busy", ErrorType="ServerError"
    )
    (settled,) = await message.settling.settle([settlement], timedelta(seconds=1))
    return settled.answer


def connection_of(message: InHand) -> SqliteConnection:
    assert isinstance(message.store.database, SqliteDatabase)
    return message.store.database._connection


def known(message: InHand) -> Collection[Row]:
    """Return the rows whose counts the process knows."""
    database = message.store.database
    writer = database._connection if isinstance(database, SqliteDatabase) else database._committer
    return [row for row, own in writer._counted._own.items() if own.counts is not None]


BOTH = {(Metric.ATTEMPT_FAIL, "crm"): 2, (Metric.DROPPED, "crm"): 2}


@in_folder
@pytest.mark.parametrize("is_stored", [True, False])
async def test_a_settlement_whose_commit_fails_counts_once(
    folder: Place,
    clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
    is_stored: bool,  # noqa: FBT001
) -> None:
    """Nobody knows whether it was stored; what comes next adds to what is."""
    async with in_hand(folder, clock, "erp", "crm") as message:
        erp, crm = parts("erp", "crm")
        database = message.store.database
        connection, faults = connection_of(message), [apsw.IOError("sync")]
        commit = connection.commit

        def failing() -> None:
            if is_stored or not faults:
                commit()
            if faults:
                raise faults.pop()

        monkeypatch.setattr(connection, "commit", failing)
        answer = await settle_counted(message, drop(erp))
        assert answer is (Answer.SETTLED_ALREADY if is_stored else Answer.SETTLED)
        clock.advance(MINUTE)
        assert await settle_counted(message, drop(crm)) is Answer.SETTLED
        of_erp = {(metric, "erp"): by for (metric, _), by in BOTH.items()}
        assert counted(database) == BOTH | of_erp
        assert len(known(message)) == 3  # rows of this minute


async def test_what_is_settled_by_another_or_judged_again_is_not_counted(
    folder: Place, clock: FakeClock
) -> None:
    """Until it is settled: its attempts were made."""
    table = Table.EVENT_SUBSCRIPTIONS
    async with in_hand(folder, clock, "crm") as message:
        (crm,) = parts("crm")
        database = message.store.database
        message.store.documents.put(table, "orders", "crm", subscription(), None)
        assert await settle_counted(message, drop(crm)) is Answer.CHANGED
        assert counted(database) == {}
        (settled,) = await message.settling.settle([judged_again(drop(crm), START)], HOUR)
        assert settled.answer is Answer.SETTLED
        assert counted(database) == {(Metric.ATTEMPT_FAIL, "crm"): 2}
    async with in_hand(folder, clock, "erp") as message:
        await message.store.leases.give_back(message.lease)
        assert await settle_counted(message, drop(parts("erp")[0])) is Answer.NOT_OURS
        assert counted(message.store.database) == {(Metric.ATTEMPT_FAIL, "crm"): 2}


async def test_a_drop_that_was_delivered_late_counts_as_none(
    folder: Place, clock: FakeClock
) -> None:
    async with in_hand(folder, clock, "crm") as message:
        (crm,) = parts("crm")
        taken_back = message.settling.take_back(crm.key, crm.deliveries[:1])
        assert await settle_counted(message, drop(crm)) is Answer.SETTLED
        assert counted(message.store.database)[Metric.DROPPED, "crm"] == 1
        assert await taken_back


@in_folder
async def test_a_drop_that_is_delivered_while_it_is_stored_is_a_drop(
    folder: Place, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is counted as one: a late success is not counted as well."""
    async with in_hand(folder, clock, "crm") as message:
        (crm,) = parts("crm")
        connection, loop = connection_of(message), asyncio.get_running_loop()
        commit, late = connection.commit, asyncio.Queue[asyncio.Task[bool]]()

        async def be_late() -> None:
            taking = message.settling.take_back(crm.key, crm.deliveries[:1])
            late.put_nowait(asyncio.create_task(taking))

        def committing() -> None:
            asyncio.run_coroutine_threadsafe(be_late(), loop).result()
            commit()

        monkeypatch.setattr(connection, "commit", committing)
        (settled,) = await message.settling.settle([drop(crm)], HOUR)
        assert (settled.answer, list(settled.delivered)) == (Answer.SETTLED, [])
        assert counted(message.store.database) == {(Metric.DROPPED, "crm"): 2}
        assert not await late.get_nowait()
        monkeypatch.undo()


async def test_a_dead_letter_counts_with_its_blob_once(folder: Place, clock: FakeClock) -> None:
    reason = Series(Metric.DEAD_LETTERED, (("DeadLetterReason", "Expired"),))
    counts = KeyedCounts(CRM, {reason: Sum.of([2])})
    where = DeadLetterDestination(container="dead")
    async with running(folder, clock) as store:
        for _ in range(2):
            blob = store.dead_letters.write(where, "a.json", b"[]", None, counts)
            assert blob
            assert blob.is_counted
            clock.advance(MINUTE)
        assert counted(store.database) == {(Metric.DEAD_LETTERED, "crm"): 2}


async def test_counts_of_transactions_go_by_minute_hour_and_topic(
    folder: Place, clock: FakeClock
) -> None:
    """Whatever was rolled up meanwhile; and the next start adds to them."""
    for start in range(2):
        async with in_hand(folder, clock, "crm", "erp") as message:
            for part in parts("crm", "erp"):
                assert await settle_counted(message, drop(part)) is Answer.SETTLED
            counts, now = message.store.counts, clock.now()
            for name, by in (("crm", 2), ("", 4)):
                found = counts.minutes("orders", name, now - MINUTE, now + MINUTE)
                assert sum(count_of(of, Metric.DROPPED) for _, of in found) == by
            assert len(known(message)) == 5  # minutes and hours, and a topic's minute
            clock.advance(5 * HOUR)
            assert counts.roll_up(clock.now() - HOUR, START, NEVER) == 2
            assert counted(message.store.database)[Metric.DROPPED, "crm"] == 2 * (start + 1)


async def test_a_row_that_is_written_often_goes_on_as_another_and_nothing_is_lost(
    folder: Place, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Versions that can't be removed yet stay few; also of an hour, and after a failure."""
    monkeypatch.setattr(tally, "MOST_WRITES", 3)
    rows, crm = tally.CountedRows("one"), SubscriptionKey("orders", "crm")

    def write(database: Database) -> None:
        one = {Series(Metric.DROPPED, ()): Sum(1, 1, 1, 1)}
        rows.add({(crm, int(clock.now().timestamp()) // 60): one})
        database.write(rows.write)

    async with in_hand(folder, clock, "crm") as message:
        database = message.store.database
        for number in range(10):
            write(database)
            if number == 4:
                rows.forget()
            if number == 6:
                clock.advance(MINUTE)
        found = database.read(
            lambda reading: reading.rows("SELECT span, counts FROM counts WHERE span = 'hour'")
        )
        assert len(found) == 4
        assert counted(database)[Metric.DROPPED, "crm"] == 10
