"""What this process has in hand, and who gets it when the process is gone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, closing
from datetime import timedelta
from functools import partial
from threading import Event
from typing import Any

import apsw
import pytest

from pushgrid.testing.memory import START, FakeClock
from shared.adapters.sql import claiming, hand, leases, suspects
from shared.adapters.sql.database import moment
from shared.adapters.sql.dialects import SQLITE
from shared.adapters.sql.leases import SqlLeases
from shared.adapters.sql.postgres.store import PostgresStore
from shared.adapters.sql.sqlite.store import SqliteStore
from shared.adapters.sql.traits import SQL
from shared.adapters.threads import SystemThreads
from shared.clock import Clock, SystemClock
from shared.delivery.messages.message_writer import encode_together
from shared.engine.ports import Queue
from shared.engine.ports.leases import Lease
from shared.errors import StorageUnavailable
from shared.subscriptions.subscription import SubscriptionKey
from tests.builders import NEVER, a_delivery, a_message, a_note
from tests.integration.sql.databases import Place, Schema, in_folder

NEW, RETRIES = Queue.DELIVERIES, Queue.RETRIES
HOUR = timedelta(hours=1)
MOST = 100


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@asynccontextmanager
async def running(
    folder: Place, clock: Clock | None, *, dies: bool = False
) -> AsyncIterator[SqliteStore | PostgresStore]:
    """Run a store; one that *dies* leaves what is in hand as a kill does."""
    if isinstance(folder, Schema):
        opened: AbstractContextManager[Any] = folder.opened(clock, dies=dies)
    else:
        opened = closing(SqliteStore(folder, clock=clock or SystemClock(), threads=SystemThreads()))
    with opened as store:
        try:
            yield store
        finally:
            if not dies:
                await store.leases.close()


async def claimed(
    store: SqliteStore | PostgresStore, queue: Queue = NEW, most: int = MOST
) -> list[str]:
    return texts(await store.leases.claim(queue, most))


def texts(claimed: Sequence[Lease]) -> list[str]:
    return [each.body.decode() for each in claimed]


def poison(store: SqliteStore | PostgresStore) -> list[str]:
    """Return the texts of the messages that were recorded."""
    rows = "SELECT body FROM blobs WHERE container = 'poison'"
    found = store.database.read(lambda reading: reading.rows(rows))
    return [json.loads(body)["body"] for (body,) in found]


async def prime(store: SqliteStore | PostgresStore) -> None:
    """Let a store that has just begun know that nothing is left of earlier runs."""
    for queue in (NEW, RETRIES):
        claim = asyncio.create_task(store.leases.claim(queue, MOST))
        while store.leases._hands[queue].next_due == moment(0):  # noqa: ASYNC110 - as it begins
            await asyncio.sleep(0.001)
        await store.sender.put(queue, "first")
        for lease in await claim:
            await store.leases.end(lease)


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(coroutine, 120))


def test_what_is_put_is_in_hand_when_it_is_stored(folder: Place, clock: FakeClock) -> None:
    """One insert and one deletion: a commit each, and nothing is asked for."""

    async def deliver() -> None:
        async with running(folder, clock) as store:
            await prime(store)
            before, _ = store.database.commit_time
            await store.sender.put_all(NEW, ["one", "two"])
            got = await store.leases.claim(NEW, MOST)
            assert texts(got) == ["one", "two"]
            assert store.database.commit_time[0] == before + 1
            await asyncio.gather(*map(store.leases.end, got))
            assert store.database.commit_time[0] <= before + 3
            assert store.queues.peek(NEW) == (0, [])

    run(deliver())


def test_what_a_cancelled_caller_has_put_is_handed_over(folder: Place, clock: FakeClock) -> None:
    async def deliver() -> None:
        async with running(folder, clock) as store:
            await prime(store)
            put = asyncio.create_task(store.sender.put(NEW, "one"))
            await asyncio.sleep(0)
            put.cancel()
            assert await claimed(store) == ["one"]

    run(deliver())


@in_folder
def test_what_is_not_stored_is_not_handed_over(
    folder: Place, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hand, "ROOM", 1)

    async def deliver() -> None:
        async with running(folder, clock) as store:
            await prime(store)
            assert isinstance(store, SqliteStore)
            store.database._low_water, store.database._looked_at = 2**62, -9e9
            with pytest.raises(StorageUnavailable):
                await store.sender.put(NEW, "refused")
            await store.sender.put(RETRIES, "a retry")
            store.database._low_water, store.database._looked_at = 0, -9e9
            await store.sender.put(NEW, "one")  # there is room as before
            assert await claimed(store) == ["one"]
            assert await claimed(store, RETRIES) == ["a retry"]

    run(deliver())


@pytest.mark.parametrize("text", ["x" * 90_000, "\ud800"], ids=["too large", "a lone surrogate"])
def test_a_message_that_is_refused_fails_alone(folder: Place, clock: FakeClock, text: str) -> None:
    async def deliver() -> None:
        async with running(folder, clock) as store:
            results = await store.sender.put_all(NEW, ["one", text, "two"])
            assert [isinstance(each, StorageUnavailable) for each in results] == [
                *(False, True, False)
            ]
            assert await claimed(store) == ["one", "two"]

    run(deliver())


@in_folder
def test_what_was_stored_though_nobody_knew_is_handed_over(
    folder: Place, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sync failed after the commit: who put it was told that it may not be stored."""

    async def deliver() -> None:
        async with running(folder, clock) as store:
            await prime(store)
            assert isinstance(store, SqliteStore)
            connection, faults = store.database._connection, [apsw.IOError("sync")] * 2
            commit = connection.commit

            def failing() -> None:
                commit()
                if faults:
                    raise faults.pop()

            monkeypatch.setattr(connection, "commit", failing)
            for queue, wait in ((NEW, timedelta()), (RETRIES, HOUR)):
                with pytest.raises(StorageUnavailable):
                    await store.sender.put(queue, f"of {queue}", wait)
            assert await claimed(store) == ["of deliveries"]
            clock.advance(2 * HOUR)
            assert await claimed(store, RETRIES) == ["of retries"]

    run(deliver())


@in_folder
@pytest.mark.parametrize("deaths", [0, 2, 3])
def test_what_was_claimed_though_nobody_knew_is_handed_over(
    folder: Place, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, deaths: int
) -> None:
    """Be it a suspect or not."""

    async def deliver() -> None:
        async with running(folder, clock, dies=True) as store:
            await store.sender.put(NEW, "one")
        for _ in range(deaths):
            async with running(folder, clock, dies=True) as store:
                assert await claimed(store) == ["one"]
        async with running(folder, clock) as store:
            assert isinstance(store, SqliteStore)
            connection, faults = store.database._connection, [apsw.IOError("sync")]
            ours, commit = store.database.run, connection.commit
            mine = "SELECT 1 FROM messages WHERE run = ?"

            def failing() -> None:
                is_claim = connection.rows(mine, ours)
                commit()
                if is_claim and faults:
                    raise faults.pop()

            monkeypatch.setattr(connection, "commit", failing)
            with pytest.raises(StorageUnavailable):
                await store.leases.claim(NEW, MOST)
            (lease,) = await asyncio.wait_for(store.leases.claim(NEW, MOST), 20)
            assert texts([lease]) == ["one"]
            assert hand.receipt_of(lease).deaths == deaths

    run(deliver())


@in_folder
def test_what_a_failed_claim_took_is_handed_over_once(
    folder: Place, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claim after it looks for as many as it may take, and claims the others anew."""
    monkeypatch.setattr(hand, "BATCH", 3)

    async def deliver() -> None:
        async with running(folder, clock) as store:
            await prime(store)
            assert isinstance(store, SqliteStore)
            connection, faults = store.database._connection, [apsw.FullError("full")]
            commit = connection.commit

            def failing() -> None:
                if faults:
                    raise faults.pop()
                commit()

            monkeypatch.setattr(connection, "commit", failing)
            with pytest.raises(StorageUnavailable):
                await store.sender.put(NEW, "refused")
            await store.sender.put_all(NEW, [*"abcdef"])
            faults.append(apsw.FullError("full"))
            with pytest.raises(StorageUnavailable):
                await store.leases.claim(NEW, MOST)
            found = list[str]()
            while len(found) < 6:
                found += await claimed(store)
            assert sorted(found) == [*"abcdef"]

    run(deliver())


def test_what_there_is_no_room_for_waits_in_the_table(
    folder: Place, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes after it waits there as well: it was there before."""
    monkeypatch.setattr(hand, "ROOM", 3)

    async def deliver() -> None:
        async with running(folder, clock) as store:
            await prime(store)
            await store.sender.put_all(NEW, list("abcde"))
            first = await store.leases.claim(NEW, 2)
            assert texts(first) == ["a", "b"]
            for lease in first:
                await store.leases.end(lease)
            await store.sender.put(NEW, "f")
            (third,) = await store.leases.claim(NEW, MOST)
            await store.leases.end(third)
            left = [*await claimed(store, most=2), *await claimed(store, most=2)]
            assert [*texts([third]), *left] == ["c", "d", "e", "f"]

    run(deliver())


def test_a_claim_that_waits_for_room_goes_on_when_there_is_some(
    folder: Place, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hand, "ROOM", 2)
    monkeypatch.setattr(hand, "_LOOK_SECONDS", 3600.0)

    async def deliver() -> None:
        async with running(folder, clock) as store:
            await prime(store)
            await store.sender.put_all(NEW, ["a", "b", "c"])
            got = await store.leases.claim(NEW, MOST)
            assert texts(got) == ["a", "b"]
            waiting = asyncio.create_task(claimed(store))
            await asyncio.sleep(0)
            for lease in got:
                await store.leases.end(lease)
            async with asyncio.timeout(60):
                assert await waiting == ["c"]

    run(deliver())


def test_a_message_is_handed_over_when_it_is_due(folder: Place) -> None:
    """By a timer of this process: it was claimed a second before."""

    async def deliver() -> None:
        clock = SystemClock()
        async with running(folder, clock) as store:
            await prime(store)
            await store.sender.put(RETRIES, "much later", HOUR)
            due = clock.now() + timedelta(milliseconds=300)
            await store.sender.put(RETRIES, "later", timedelta(milliseconds=300))
            assert await claimed(store, RETRIES) == ["later"]
            assert clock.now() >= due

    run(deliver())


def test_what_is_put_while_another_is_soon_due_is_in_hand(folder: Place, clock: FakeClock) -> None:
    async def deliver() -> None:
        async with running(folder, clock) as store:
            await prime(store)
            await store.sender.put(NEW, "soon", hand.AHEAD / 4)
            await store.sender.put(NEW, "now")
            assert texts(store.leases._hands[NEW].ready) == ["now"]

    run(deliver())


def test_what_is_stored_after_a_clock_was_set_back_is_handed_over(
    folder: Place, clock: FakeClock
) -> None:
    """Claims go on from where the last one ended: its own process knows what lies before."""

    async def deliver() -> None:
        async with running(folder, clock) as store:
            await prime(store)
            clock.advance(-HOUR)
            await store.sender.put(RETRIES, "later", HOUR / 2)
            clock.advance(HOUR)
            assert await claimed(store, RETRIES) == ["later"]

    run(deliver())


@in_folder
def test_what_was_replaced_though_nobody_knew_is_told_and_handed_over(
    folder: Place, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever replaces it counts what is left out as delivered."""

    async def deliver() -> None:
        async with running(folder, clock) as store:
            await prime(store)
            assert isinstance(store, SqliteStore)
            receipt = await store.sender.put(RETRIES, "before", HOUR)
            connection, faults = store.database._connection, [apsw.IOError("sync")]
            commit = connection.commit

            def failing() -> None:
                commit()
                if faults:
                    raise faults.pop()

            monkeypatch.setattr(connection, "commit", failing)
            assert await store.sender.replace(RETRIES, receipt, "now", timedelta())
            assert not faults
            assert await claimed(store, RETRIES) == ["now"]

    run(deliver())


def test_what_is_noted_as_a_claim_reads_what_comes_later_is_claimed_next(
    folder: Place, clock: FakeClock
) -> None:
    """It is stored before the claim, which begins where the last one has ended."""

    async def deliver() -> None:
        async with running(folder, clock) as store:
            await prime(store)
            hand = store.leases._hands[RETRIES]
            await store.leases._fill(RETRIES, hand)
            begun, go_on = Event(), Event()

            def slow(_: object) -> None:
                begun.set()
                go_on.wait(60)

            before = asyncio.create_task(store.database.write_on_loop(slow))
            await asyncio.to_thread(begun.wait, 60)
            put = asyncio.create_task(store.sender.put(RETRIES, "one", timedelta(seconds=0.5)))
            await asyncio.sleep(0)
            claim = asyncio.create_task(store.leases._fill(RETRIES, hand))
            await asyncio.sleep(0)
            go_on.set()
            await asyncio.gather(before, put, claim)
            clock.advance(timedelta(seconds=0.5))
            assert hand.is_behind(clock.now())
            assert await claimed(store, RETRIES) == ["one"]

    run(deliver())


@pytest.mark.parametrize("tell", [SqlLeases.may_be_unparked, SqlLeases.look_for_the_dead])
def test_what_another_thread_tells_of_is_looked_for_though_a_claim_is_under_way(
    folder: Place,
    clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
    tell: Callable[[SqlLeases], None],
) -> None:
    """The claim has not seen it, nor has one that fails."""

    def telling(function: Callable[..., Any], store: SqliteStore | PostgresStore) -> Any:
        def call(*given: Any) -> Any:
            found = function(*given)
            tell(store.leases)
            return found

        return call

    async def deliver() -> None:
        async with running(folder, clock) as store:
            await prime(store)
            mine = store.leases._hands[RETRIES]
            clock.advance(2 * hand.AHEAD)  # beyond what the last claim has read
            with monkeypatch.context() as patched:
                patched.setattr(leases, "next_due", telling(claiming.next_due, store))
                await store.leases._fill(RETRIES, mine)
            assert mine.wants_a_claim(clock.now())
            with monkeypatch.context() as patched:
                patched.setattr(leases, "claim_left", lambda *_: 1 / 0)
                with pytest.raises(ZeroDivisionError):
                    await store.leases._fill(RETRIES, mine)
            assert mine.wants_a_claim(clock.now())
            await store.leases._fill(RETRIES, mine)
            assert not mine.wants_a_claim(clock.now())
            if tell == SqlLeases.look_for_the_dead:
                patch = telling(claiming.claim_suspects, store)
                monkeypatch.setattr(suspects, "claim_suspects", patch)
                assert await store.leases._suspects.claim(MOST) == []
                assert store.leases._suspects.may_be_left

    run(deliver())


def test_a_claim_that_waits_gets_what_becomes_due_sooner(folder: Place, clock: FakeClock) -> None:
    async def deliver() -> None:
        async with running(folder, clock) as store:
            await prime(store)
            await store.sender.put(RETRIES, "much later", HOUR)
            waiting = asyncio.create_task(claimed(store, RETRIES))
            await asyncio.sleep(0)
            await store.sender.put(RETRIES, "now")
            assert await waiting == ["now"]

    run(deliver())


@pytest.mark.parametrize("is_first", [True, False], ids=["looking for poison", "claiming"])
def test_a_claim_that_is_cancelled_has_taken_nothing(
    folder: Place,
    clock: FakeClock,
    is_first: bool,  # noqa: FBT001
) -> None:
    """The next one gets what it was claiming."""

    async def deliver() -> None:
        async with running(folder, clock) as store:
            await store.sender.put_all(NEW, ["one", "two"])
            begun, go_on = Event(), Event()

            def slow(_: object) -> None:
                begun.set()
                go_on.wait(60)

            if not is_first:
                await store.sender.put(RETRIES, "a retry")
                await store.leases.claim(RETRIES, MOST)
            under_way = asyncio.create_task(store.database.write_on_loop(slow))
            await asyncio.to_thread(begun.wait, 60)
            claim = asyncio.create_task(claimed(store))
            await asyncio.sleep(0)
            claim.cancel()
            await asyncio.wait([claim])
            assert claim.cancelled()
            go_on.set()
            await under_way
            assert await claimed(store) == ["one", "two"]

    run(deliver())


def test_both_queues_are_claimed_from_at_once(folder: Place, clock: FakeClock) -> None:
    """Also at the start, when both look for what has to run alone."""

    async def deliver() -> None:
        async with running(folder, clock) as store:
            claims = [asyncio.create_task(claimed(store, queue)) for queue in (NEW, RETRIES)]
            await asyncio.sleep(0)
            await store.sender.put(RETRIES, "a retry")
            await store.sender.put(NEW, "new")
            assert await asyncio.gather(*claims) == [["new"], ["a retry"]]

    run(deliver())


def test_a_message_in_hand_is_nobody_elses(folder: Place, clock: FakeClock) -> None:
    async def deliver() -> None:
        async with running(folder, clock) as store:
            receipt = await store.sender.put(NEW, "one")
            (lease,) = await store.leases.claim(NEW, MOST)
            assert await asyncio.to_thread(store.queues.receive, NEW, HOUR) == []
            assert not await store.sender.take_back(NEW, receipt)
            assert await store.sender.replace(NEW, receipt, "two", HOUR) is None
            backlog = await asyncio.to_thread(store.queues.peek, NEW)
            assert backlog == (1, [])
            await store.leases.end(lease)

    run(deliver())


# ── After a death ──


def test_what_a_dead_process_had_in_hand_comes_first(folder: Place, clock: FakeClock) -> None:
    """What it had ended does not come; what it had been given back neither, before its time."""

    async def deliver() -> None:
        async with running(folder, clock, dies=True) as store:
            await prime(store)
            await store.sender.put_all(NEW, ["ended", "failed", "in hand", "not claimed"])
            ended, failed, _ = await store.leases.claim(NEW, 3)
            await store.leases.end(ended)
            await store.leases.give_back(failed)
        async with running(folder, clock) as store:
            await store.sender.put(NEW, "new")
            assert await claimed(store) == ["in hand", "not claimed", "new"]

    run(deliver())


def test_a_message_that_was_there_at_three_deaths_runs_alone(
    folder: Place, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before all others; these wait until it is ended, and count no deaths meanwhile."""
    monkeypatch.setattr(suspects, "SUSPECT_SECONDS", 3600.0)

    async def deliver() -> None:
        for death in range(3):
            async with running(folder, clock, dies=True) as store:
                if death == 0:
                    await store.sender.put_all(NEW, ["bad", "bad too"])
                assert await claimed(store) == ["bad", "bad too"]
        async with running(folder, clock) as store:
            await store.sender.put(NEW, "good")
            await store.sender.put(RETRIES, "a retry")
            for alone in ("bad", "bad too"):
                (lease,) = await store.leases.claim(RETRIES, MOST)
                assert texts([lease]) == [alone]
                others = asyncio.create_task(claimed(store))
                await asyncio.sleep(0.05)
                assert not others.done()
                others.cancel()
                await store.leases.end(lease)
            assert await claimed(store) == ["good"]
            assert await claimed(store, RETRIES) == ["a retry"]

    run(deliver())


def test_after_three_more_alone_it_is_poison(folder: Place, clock: FakeClock) -> None:
    """One that waited for its turn meanwhile has as many deaths as before."""

    async def deliver() -> None:
        for death in range(3):
            async with running(folder, clock, dies=True) as store:
                if death == 0:
                    await store.sender.put_all(NEW, ["bad", "harmless"])
                assert await claimed(store) == ["bad", "harmless"]
        for _ in range(3):
            async with running(folder, clock, dies=True) as store:
                assert await claimed(store) == ["bad"]
        async with running(folder, clock) as store:
            (lease,) = await store.leases.claim(NEW, MOST)
            assert texts([lease]) == ["harmless"]
            await store.leases.end(lease)
            assert poison(store) == ["bad"]
            assert store.queues.peek(NEW) == (0, [])

    run(deliver())


def test_slow_messages_that_survive_hold_up_nobody(
    folder: Place, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice as many run each time; they have no deaths, so later ones make them no poison."""
    monkeypatch.setattr(suspects, "SUSPECT_SECONDS", 0.0)
    slow = list("abcdefg")

    async def deliver() -> None:
        async with running(folder, clock) as store:
            await store.sender.put_all(NEW, slow)
        for start in range(10):
            async with running(folder, clock, dies=True) as store:
                if start % 3 or not start:
                    assert sorted(await claimed(store)) == slow
                    continue
                await store.sender.put(RETRIES, "good")
                assert await claimed(store) == ["a"]
                assert await claimed(store, RETRIES) == ["b", "c"]
                assert await claimed(store) == ["d", "e", "f", "g"]
                (good,) = await store.leases.claim(RETRIES, MOST)
                assert texts([good]) == ["good"]
                await store.leases.end(good)
                assert poison(store) == []

    run(deliver())


def test_a_message_that_ends_processes_among_others_is_found(
    folder: Place, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What ran beside it as a suspect runs alone afterwards, and is no poison."""
    monkeypatch.setattr(suspects, "SUSPECT_SECONDS", 0.0)
    ended: list[str] = []

    async def deliver() -> None:
        async with running(folder, clock) as store:
            await store.sender.put_all(NEW, ["a", "b", "bad", "c", "d"])
        for _ in range(suspects.DEATHS):
            async with running(folder, clock, dies=True) as store:
                while "bad" not in (got := await claimed(store)):
                    pass
            ended.append(" ".join(got))
        async with running(folder, clock) as store:
            left = [await claimed(store) for _ in range(3)]
            assert (left, poison(store)) == ([["c"], ["d"], ["a", "b"]], ["bad"])

    run(deliver())
    assert ended == [*["a b bad c d"] * 3, "b bad", "bad", "bad"]


def test_what_waits_while_others_kill_the_process_is_no_poison(
    folder: Place, clock: FakeClock
) -> None:
    async def deliver() -> None:
        async with running(folder, clock) as store:
            await store.sender.put(RETRIES, "patient", HOUR)
        for _ in range(8):
            async with running(folder, clock, dies=True) as store:
                await store.sender.put(NEW, "any")
                for lease in await store.leases.claim(NEW, 1):
                    await store.leases.end(lease)
        clock.advance(2 * HOUR)
        async with running(folder, clock) as store:
            (lease,) = await store.leases.claim(RETRIES, MOST)
            assert lease.receipt.deaths == 0  # type: ignore[attr-defined]

    run(deliver())


def test_an_end_in_order_is_no_death(folder: Place, clock: FakeClock) -> None:
    async def deliver() -> None:
        for number in range(8):
            async with running(folder, clock) as store:
                if number == 0:
                    await store.sender.put_all(NEW, ["one", "two"])
                assert await claimed(store, most=1) == ["one"]
        async with running(folder, clock) as store:
            assert await claimed(store) == ["one", "two"]

    run(deliver())


def test_what_is_being_stored_or_claimed_as_a_process_ends_is_handed_back_too(
    folder: Place, clock: FakeClock
) -> None:
    """What is being pushed may keep the process for long: others need not wait for that."""

    async def deliver() -> None:
        async with running(folder, clock) as store:
            await prime(store)
            await store.sender.put(NEW, "being pushed")
            await store.leases.claim(NEW, MOST)
            await store.sender.put(RETRIES, "being claimed", HOUR)
            clock.advance(HOUR)
            begun, go_on = Event(), Event()

            def slow(_: object) -> None:
                begun.set()
                go_on.wait(60)

            before = asyncio.create_task(store.database.write_on_loop(slow))
            await asyncio.to_thread(begun.wait, 60)
            put = asyncio.create_task(store.sender.put(NEW, "being stored"))
            claim = asyncio.create_task(store.leases.claim(RETRIES, MOST))
            await asyncio.sleep(0)
            claim.cancel()
            await asyncio.wait([claim])
            end = asyncio.create_task(store.leases.hand_back())
            await asyncio.sleep(0)
            go_on.set()
            await asyncio.gather(before, put, end)
            in_hand = "SELECT body FROM messages WHERE run > 0"
            found = await asyncio.to_thread(
                store.database.read, lambda reading: reading.rows(in_hand)
            )
            assert [bytes(body) for (body,) in found] == [b"being pushed"]

    run(deliver())


def test_what_fails_twenty_times_is_recorded(folder: Place, clock: FakeClock) -> None:
    async def deliver() -> None:
        async with running(folder, clock) as store:
            await store.sender.put(NEW, "bad")
            for _ in range(leases.MOST_FAILURES):
                assert poison(store) == []
                (lease,) = await store.leases.claim(NEW, MOST)
                await store.leases.give_back(lease)
                assert store.queues.receive(NEW, HOUR) == []
                clock.advance(leases.AGAIN_IN)
            assert poison(store) == ["bad"]
            assert store.queues.peek(NEW) == (0, [])

    run(deliver())


# ── What waits ──


def message(*, payload: str | None = None, events: int = 3, **changes: Any) -> str:
    deliveries = [a_delivery(number, text=None if payload else "{}") for number in range(events)]
    if payload:
        deliveries = [
            a_delivery(number, text=None, origin=each.origin._replace(payload=payload))
            for number, each in enumerate(deliveries)
        ]
    ((_, text),) = encode_together([a_message(deliveries, **changes)], SQL.message_size)
    return text


def test_what_waits_is_known_exactly(folder: Place, clock: FakeClock) -> None:
    """In hand, in the table, and after a death; not what has ended, or is given up."""

    def waiting(store: SqliteStore | PostgresStore) -> dict[SubscriptionKey, int]:
        return {key: each.events for key, each in store.queues.unfinished()[0].items()}

    crm, erp = SubscriptionKey("orders", "crm"), SubscriptionKey("orders", "erp")

    async def deliver() -> None:
        async with running(folder, clock, dies=True) as store:
            await prime(store)
            await store.sender.put(NEW, message(subscription="CRM"))
            await store.sender.put(NEW, message(subscription="erp", events=2))
            await store.sender.put(RETRIES, message(subscription="crm", events=4), HOUR)
            given_up = message(subscription="crm", events=5, dead_letter=a_note())
            await store.sender.put(Queue.DEADLETTERS, given_up)
            assert waiting(store) == {crm: 7, erp: 2}
            of_blobs = store.queues.unfinished()[1]
            assert {key: each.events for key, each in of_blobs.items()} == {crm: 5}
            (first,) = await store.leases.claim(NEW, 1)
            await store.leases.end(first)
            (second,) = await store.leases.claim(NEW, 1)
            assert waiting(store) == {crm: 4, erp: 2}
            await store.leases.give_back(second)
            assert waiting(store) == {crm: 4, erp: 2}
        clock.advance(2 * HOUR)
        async with running(folder, clock) as store:
            assert waiting(store) == {crm: 4, erp: 2}
            for queue in (NEW, RETRIES):
                for lease in await store.leases.claim(queue, MOST):
                    await store.leases.end(lease)
            assert waiting(store) == {}
            rows = "SELECT COUNT(*) FROM parts WHERE given_up = 0"
            assert store.database.read(lambda reading: reading.rows(rows)) == [(0,)]

    run(deliver())


def test_the_age_of_what_waits_is_that_of_its_oldest_event(folder: Place, clock: FakeClock) -> None:
    async def deliver() -> None:
        async with running(folder, clock) as store:
            for hours in (1, 3, 2):
                each = a_delivery(0)
                at = START - hours * HOUR
                old = a_delivery(0, origin=each.origin._replace(published_at=at))
                ((_, text),) = encode_together([a_message([old])], SQL.message_size)
                await store.sender.put(RETRIES, text, HOUR)
            (found,) = store.queues.unfinished()[0].values()
            assert found.oldest == (START - 3 * HOUR).timestamp() * 1_000_000

    run(deliver())


def test_a_payload_stays_as_long_as_a_message_names_it(folder: Place, clock: FakeClock) -> None:
    """However old it is, also when the message was replaced."""

    async def deliver() -> None:
        later = START + timedelta(days=9)
        async with running(folder, clock) as store:
            await prime(store)
            names = [
                await asyncio.to_thread(store.payloads.write, "p", START, ["a"]) for _ in range(3)
            ]
            await store.sender.put(NEW, message(payload=names[0]))
            receipt = await store.sender.put(RETRIES, message(payload=names[1]), HOUR)
            receipt = await store.sender.replace(  # type: ignore[assignment]
                RETRIES, receipt, message(payload=names[2]), HOUR
            )
            assert store.payloads.delete_expired(later, NEVER) == 1
            assert [store.payloads.read(name) for name in names] == [("a",), None, ("a",)]
            (lease,) = await store.leases.claim(NEW, MOST)
            await store.leases.end(lease)
            assert await store.sender.take_back(RETRIES, receipt)
            assert store.payloads.delete_expired(later, NEVER) == 2

    run(deliver())


@in_folder
def test_a_start_looks_for_what_has_died_without_reading_all_messages(
    folder: Place, clock: FakeClock
):
    claim = claiming.CLAIM.format(SQLITE.chosen.format(SQLITE.suspects))

    async def test() -> str:
        async with running(folder, clock) as store:
            read = store.database.read
            plan = partial(
                read, lambda reading: reading.rows(f"EXPLAIN QUERY PLAN {claim}", *[1] * 5)
            )
            return str(await asyncio.to_thread(plan))

    plan = asyncio.run(test())

    assert "messages_deaths" in plan
    assert "SCAN" not in plan
