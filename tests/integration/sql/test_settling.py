"""A message is settled in one transaction: all of what follows, or nothing."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random
from typing import Any

import apsw
import pytest

from pushgrid.testing.memory import START, Counted, FakeClock
from shared.adapters.sql.database import ReadTransaction
from shared.adapters.sql.messages import open_keys, open_text, parts_of
from shared.adapters.sql.postgres.store import PostgresStore
from shared.adapters.sql.settling import SqlSettling
from shared.adapters.sql.sqlite.store import SqliteStore
from shared.adapters.sql.traits import SQL
from shared.arm.subscription_codec import to_subscription_in_force, with_pause, without_pause
from shared.delivery.delivery import Delivery
from shared.delivery.messages.message import MessagePart
from shared.delivery.messages.message_writer import encode_together
from shared.delivery.policy import EndReason, EndState
from shared.engine.ports import Document, Queue, Resource, Table
from shared.engine.ports.leases import Lease
from shared.engine.ports.settling import Answer, Ended, FollowUp, Settlement, judged_again
from shared.errors import StorageUnavailable
from shared.metrics import Metric
from shared.subscriptions.subscription import Pause
from tests.builders import a_delivery, a_message, a_note, a_record
from tests.integration.sql.databases import Place, in_folder
from tests.integration.sql.test_leases import MOST, NEW, RETRIES, prime, running
from tests.unit.arm.documents import subscription

HOUR = timedelta(hours=1)
NO_TIME = timedelta()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def parts(*names: str, events: int = 2) -> list[MessagePart]:
    deliveries = [a_delivery(number) for number in range(events)]
    return [a_message(deliveries, subscription=name) for name in names]


def text_of(parts: Sequence[MessagePart]) -> str:
    ((_, text),) = encode_together(parts, SQL.message_size)
    return text


class InHand:
    """A message in hand, and what settles it."""

    def __init__(self, store: SqliteStore | PostgresStore, lease: Lease) -> None:
        self.store, self.lease, self.counted = store, lease, Counted()
        self.settling = SqlSettling(
            database=store.database,
            new=store._new,
            sender=store.sender,
            leases=store.leases,
            lease=lease,
            metrics=self.counted,
            clock=store._clock,
        )

    async def settle(self, *settlements: Settlement) -> list[Answer]:
        found = await self.settling.settle(settlements, NO_TIME)
        return [each.answer for each in found]


@asynccontextmanager
async def in_hand(
    folder: Place, clock: FakeClock, *names: str, dies: bool = True, **changes: Any
) -> AsyncIterator[InHand]:
    async with running(folder, clock, dies=dies) as store:
        await prime(store)
        await store.sender.put(NEW, text_of(parts(*names, **changes)))
        (lease,) = await store.leases.claim(NEW, MOST)
        yield InHand(store, lease)


async def left(folder: Place, clock: FakeClock, queue: Queue = NEW) -> list[tuple[str, int]]:
    """Return what the next process gets: subscriptions, and how many events."""
    clock.advance(2 * HOUR)
    async with running(folder, clock) as store:
        # Of a queue that has nothing `claim` would wait for something.
        await store.sender.put(queue, text_of(parts("last")))
        found: list[tuple[str, int]] = []
        while ("last", 2) not in found:
            for lease in await store.leases.claim(queue, MOST):
                found += [
                    (each.subscription, len(each.deliveries)) for each in parts_of(lease.body)
                ]
                await store.leases.end(lease)
        return [each for each in found if each != ("last", 2)]


def again(part: MessagePart, deliveries: Sequence[Delivery] | None = None) -> FollowUp:
    """Let deliveries come again in an hour."""
    chosen = part.deliveries if deliveries is None else tuple(deliveries)
    return FollowUp(replace(part, deliveries=chosen, due=START + HOUR))


async def test_a_message_ends_with_its_last_part(folder: Place, clock: FakeClock) -> None:
    async with in_hand(folder, clock, "crm", "erp") as message:
        crm, erp = parts("crm", "erp")
        assert await message.settle(Settlement(part=crm)) == [Answer.SETTLED]
        assert message.store.leases.has(message.lease)
        assert await message.settle(Settlement(part=erp)) == [Answer.SETTLED]
        assert not message.store.leases.has(message.lease)
        before = message.store.database.commit_time
        await message.store.leases.end(message.lease)  # as whoever delivers does
        assert message.store.database.commit_time == before
    assert await left(folder, clock) == []


async def test_after_a_kill_only_what_was_not_settled_comes_again(
    folder: Place, clock: FakeClock
) -> None:
    """A part that was delivered; one of which an event waits for its retry; one that is open."""
    async with in_hand(folder, clock, "crm", "erp", "wms") as message:
        crm, erp, _ = parts("crm", "erp", "wms")
        settlements = (
            Settlement(part=crm),
            Settlement(part=erp, follow_ups=[again(erp, erp.deliveries[:1])], is_whole=False),
        )
        assert await message.settle(*settlements) == [Answer.SETTLED] * 2
        waiting = message.store.queues.unfinished()[0]
        assert {key.subscription: each.events for key, each in waiting.items()} == {
            "erp": 2,
            "wms": 2,
        }
    assert sorted(await left(folder, clock)) == [("erp", 1), ("wms", 2)]
    assert await left(folder, clock, RETRIES) == [("erp", 1)]


async def test_what_was_settled_bit_by_bit_stays_settled(folder: Place, clock: FakeClock) -> None:
    async with in_hand(folder, clock, "crm", "erp", events=3) as message:
        crm, erp = parts("crm", "erp", events=3)
        one, two, three = erp.deliveries
        await message.settle(Settlement(part=erp, follow_ups=[again(erp, [one])], is_whole=False))
        await message.settle(Settlement(part=crm))
        await message.settle(Settlement(part=erp, follow_ups=[again(erp, [two])], is_whole=False))
    assert await left(folder, clock) == [("erp", 1)]
    del three


async def test_a_subscription_that_was_recreated_has_two_parts(
    folder: Place, clock: FakeClock
) -> None:
    """Its publications shared a commit. The message ends with the last of them."""
    old, new = (replace(of_publish(number), generation=f"g-{number}") for number in (1, 2))
    async with running(folder, clock) as store:
        await prime(store)
        await store.sender.put(NEW, text_of([old, new]))
        (lease,) = await store.leases.claim(NEW, MOST)
        message = InHand(store, lease)
        assert len(parts_of(lease.body)) == 2
        await message.settle(Settlement(part=old, follow_ups=[again(old)]))
        assert [each.events for each in store.queues.unfinished()[0].values()] == [4]
        assert store.leases.has(lease)
        await message.settle(Settlement(part=new, follow_ups=[again(new)]))
        assert not store.leases.has(lease)
    assert await left(folder, clock) == []
    assert sum(events for _, events in await left(folder, clock, RETRIES)) == 4


async def test_a_part_is_settled_once(folder: Place, clock: FakeClock) -> None:
    """Else what follows would be stored twice; or it would be dropped, if nothing said so."""
    async with in_hand(folder, clock, "crm", "erp") as message:
        (crm,) = parts("crm")
        await message.settle(Settlement(part=crm))
        with pytest.raises(ValueError, match="not open"):
            await message.settle(Settlement(part=crm, follow_ups=[again(crm)]))


async def test_a_message_that_is_claimed_again_is_settled_alike(
    folder: Place, clock: FakeClock
) -> None:
    """Its parts have rows then; and it may be killed again."""
    async with running(folder, clock) as store:
        await store.sender.put(RETRIES, text_of(parts("crm", "erp", "wms")), HOUR)
    clock.advance(2 * HOUR)
    for name, rest in (("crm", 2), ("erp", 1)):
        async with running(folder, clock, dies=True) as store:
            (lease,) = await store.leases.claim(RETRIES, MOST)
            message = InHand(store, lease)
            part = parts(name)[0]
            assert await message.settle(Settlement(part=part)) == [Answer.SETTLED]
            assert len(store.queues.unfinished()[0]) == rest
    assert await left(folder, clock, RETRIES) == [("wms", 2)]


async def test_what_is_another_process_s_is_not_settled(folder: Place, clock: FakeClock) -> None:
    async with in_hand(folder, clock, "crm") as message:
        (crm,) = parts("crm")
        await message.store.leases.give_back(message.lease)
        answers = await message.settle(Settlement(part=crm, follow_ups=[again(crm)]))
        assert answers == [Answer.NOT_OURS]
    assert await left(folder, clock, RETRIES) == []
    assert await left(folder, clock) == [("crm", 2)]


@in_folder
async def test_nothing_is_stored_of_a_settlement_that_fails(
    folder: Place, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is tried again, and then stored once."""
    async with in_hand(folder, clock, "crm") as message:
        (crm,) = parts("crm")
        assert isinstance(message.store, SqliteStore)
        connection, faults = message.store.database._connection, [apsw.FullError("full")]
        commit = connection.commit

        def failing() -> None:
            if faults:
                connection.rollback()
                raise faults.pop()
            commit()

        monkeypatch.setattr(connection, "commit", failing)
        settlement = Settlement(part=crm, follow_ups=[again(crm)])
        (settled,) = await message.settling.settle([settlement], HOUR)
        assert settled.answer is Answer.SETTLED
    assert await left(folder, clock) == []
    assert await left(folder, clock, RETRIES) == [("crm", 2)]


@pytest.mark.parametrize("how", ["the last part", "one of two parts", "some of a part"])
@in_folder
async def test_what_an_earlier_try_has_stored_is_settled_already(
    folder: Place, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """The sync of its commit failed, so nobody knew; it is not stored again."""
    names = ["crm", "erp"] if how == "one of two parts" else ["crm"]
    is_whole = how != "some of a part"
    async with in_hand(folder, clock, *names) as message:
        crm = parts("crm")[0]
        assert isinstance(message.store, SqliteStore)
        connection, faults = message.store.database._connection, [apsw.IOError("sync")]
        commit = connection.commit

        def failing() -> None:
            commit()
            if faults:
                raise faults.pop()

        monkeypatch.setattr(connection, "commit", failing)
        retry = again(crm, crm.deliveries[: None if is_whole else 1])
        settlement = Settlement(part=crm, follow_ups=[retry], is_whole=is_whole)
        (settled,) = await message.settling.settle([settlement], NO_TIME + timedelta(seconds=1))
        assert settled.answer is Answer.SETTLED_ALREADY
        assert message.store.leases.has(message.lease) is (how != "the last part")
    rest = {"the last part": [], "one of two parts": [("erp", 2)]}.get(how, [("crm", 1)])
    assert await left(folder, clock) == rest
    assert await left(folder, clock, RETRIES) == [("crm", 2 if is_whole else 1)]


@pytest.mark.parametrize("is_ours", [True, False], ids=["settled", "another process's"])
async def test_attempts_are_stored_with_what_follows(
    folder: Place,
    clock: FakeClock,
    is_ours: bool,  # noqa: FBT001
) -> None:
    """In the same transaction, so that a kill loses none that has a retry."""
    async with in_hand(folder, clock, "crm") as message:
        (crm,) = parts("crm")
        if not is_ours:
            await message.store.leases.give_back(message.lease)
        record = a_record(topic="orders", subscription="crm")
        await message.settle(Settlement(part=crm, follow_ups=[again(crm)], attempts=[record]))
    async with running(folder, clock) as store:
        days = [*store.attempts.read("orders", "crm", START - HOUR)]
        assert days == ([[record]] if is_ours else [])


# ── Ends ──


def ended(part: MessagePart) -> list[Ended]:
    return [
        Ended(part.key, each, EndReason.MAX_ATTEMPTS, EndState.DROPPED) for each in part.deliveries
    ]


def _terms(most: int) -> dict[str, Any]:
    return {"retryPolicy": {"maxDeliveryAttempts": most}}


STRICTER, LOOSER = (_terms(most) for most in (3, 9))


@pytest.mark.parametrize(
    ("read", "then", "counts"),
    [
        (STRICTER, STRICTER, True),
        (STRICTER, LOOSER, False),
        (STRICTER, None, False),
        (None, STRICTER, False),
        (None, None, True),
    ],
    ids=["unchanged", "updated", "deleted", "made", "gone"],
)
async def test_an_end_counts_only_while_its_subscription_is_as_it_was_read(
    folder: Place,
    clock: FakeClock,
    read: dict[str, Any] | None,
    then: dict[str, Any] | None,
    counts: bool,  # noqa: FBT001
) -> None:
    """It was re-read before; what has changed since then is seen in the transaction of the end."""
    table = Table.EVENT_SUBSCRIPTIONS
    async with in_hand(folder, clock, "crm") as message:
        documents, (crm,) = message.store.documents, parts("crm")
        re_read = None
        if read:
            stored = documents.put(table, "orders", "crm", subscription(**read), None)
            re_read = to_subscription_in_force(stored.document)
        settlement = Settlement(part=crm, ends=ended(crm), subscription=re_read)
        found = documents.get(table, "orders", "crm")
        if then and then is not read:
            etag = found.etag if found else None
            documents.put(table, "orders", "crm", subscription(**then), etag)
        elif found and not then:
            documents.delete(table, "orders", "crm")
        answer = Answer.SETTLED if counts else Answer.CHANGED
        assert await message.settle(settlement) == [answer]
    assert await left(folder, clock) == ([] if counts else [("crm", 2)])


async def test_an_end_that_does_not_count_keeps_no_other_part(
    folder: Place, clock: FakeClock
) -> None:
    """Of three parts in one call, one ends by terms of before; it is settled anew."""
    table = Table.EVENT_SUBSCRIPTIONS
    async with in_hand(folder, clock, "crm", "erp", "wms") as message:
        documents, (crm, erp, wms) = message.store.documents, parts("crm", "erp", "wms")
        stored = documents.put(table, "orders", "erp", subscription(**STRICTER), None)
        re_read = to_subscription_in_force(stored.document)
        documents.put(table, "orders", "erp", subscription(**LOOSER), stored.etag)
        settlements = (
            Settlement(part=crm, follow_ups=[again(crm)]),
            Settlement(part=erp, ends=ended(erp), subscription=re_read),
            Settlement(part=wms, ends=ended(wms)),
        )
        answers = [Answer.SETTLED, Answer.CHANGED, Answer.SETTLED]
        assert await message.settle(*settlements) == answers
        assert message.store.leases.has(message.lease)
        anew = judged_again(settlements[1], START)
        assert await message.settle(anew) == [Answer.SETTLED]
        assert not message.store.leases.has(message.lease)
    assert await left(folder, clock, RETRIES) == [("erp", 2), ("crm", 2)]


async def test_a_pause_changes_nothing_for_an_end(folder: Place, clock: FakeClock) -> None:
    table = Table.EVENT_SUBSCRIPTIONS
    async with in_hand(folder, clock, "crm") as message:
        documents, (crm,) = message.store.documents, parts("crm")
        stored = documents.put(table, "orders", "crm", subscription(), None)
        re_read = to_subscription_in_force(stored.document)
        paused = with_pause(stored.document, Pause(START, "ada"))
        documents.put(table, "orders", "crm", paused, stored.etag)
        settlement = Settlement(part=crm, ends=ended(crm), subscription=re_read)
        assert await message.settle(settlement) == [Answer.SETTLED]


async def test_dead_letters_wait_for_their_blob_and_can_be_taken_back(
    folder: Place, clock: FakeClock
) -> None:
    async with in_hand(folder, clock, "crm") as message:
        (crm,) = parts("crm")
        dead = FollowUp(replace(crm, dead_letter=a_note()), blob_due_at=START + HOUR)
        assert await message.settle(Settlement(part=crm, follow_ups=[dead])) == [Answer.SETTLED]
        queues = message.store.queues
        assert [each.events for each in queues.unfinished()[1].values()] == [2]
        assert message.counted.of(Metric.AWAITING_BLOB) == {("orders", "crm"): 2}
        first, second = crm.deliveries
        assert await message.settling.take_back(crm.key, [first])
        assert [each.events for each in queues.unfinished()[1].values()] == [1]
        assert await message.settling.take_back(crm.key, [second])
        assert queues.unfinished()[1] == {}
        assert message.counted.of(Metric.AWAITING_BLOB) == {("orders", "crm"): 0}
        assert queues.peek(Queue.DEADLETTERS) == (0, [])


async def test_a_late_success_is_left_out_of_what_follows(folder: Place, clock: FakeClock) -> None:
    async with in_hand(folder, clock, "crm") as message:
        (crm,) = parts("crm")
        late, other = crm.deliveries
        taken = message.settling.take_back(crm.key, [late])
        (settled,) = await message.settling.settle(
            [Settlement(part=crm, follow_ups=[again(crm)])], NO_TIME
        )
        assert settled.delivered == {late.key}
        assert await taken
        del other
    assert await left(folder, clock, RETRIES) == [("crm", 1)]


async def test_a_success_that_comes_while_a_retry_is_stored_takes_it_back(
    folder: Place, clock: FakeClock
) -> None:
    """It was stored, so it is not told as left out."""
    async with in_hand(folder, clock, "crm") as message:
        (crm,) = parts("crm")
        settlement = Settlement(part=crm, follow_ups=[again(crm)])
        settling = asyncio.create_task(message.settling.settle([settlement], NO_TIME))
        await asyncio.sleep(0)  # it is being stored
        taken = message.settling.take_back(crm.key, crm.deliveries[:1])
        (settled,) = await settling
        assert settled.delivered == set()
        assert await taken
    assert await left(folder, clock, RETRIES) == [("crm", 1)]


async def test_a_success_while_its_end_is_stored_that_can_t_be_taken_back_is_no_success(
    folder: Place, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its dead letter is written, so its end is to be heard."""

    async def fail(*_: object) -> bool:
        raise StorageUnavailable

    async with in_hand(folder, clock, "crm") as message:
        monkeypatch.setattr(message.store.sender, "take_back", fail)
        monkeypatch.setattr(message.store.sender, "replace", fail)
        (crm,) = parts("crm")
        dead = FollowUp(replace(crm, dead_letter=a_note()), blob_due_at=START + HOUR)
        settlement = Settlement(part=crm, follow_ups=[dead])
        settling = asyncio.create_task(message.settling.settle([settlement], NO_TIME))
        await asyncio.sleep(0)  # it is being stored
        taken = message.settling.take_back(crm.key, crm.deliveries)
        (settled,) = await settling
        assert settled.delivered == set()
        assert not await taken
        waiting = message.store.queues.unfinished()[1]
        assert [each.events for each in waiting.values()] == [2]


@in_folder
async def test_a_late_success_takes_back_what_was_stored_though_the_commit_seemed_to_fail(
    folder: Place, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with in_hand(folder, clock, "crm") as message:
        assert isinstance(message.store, SqliteStore)
        connection, faults = message.store.database._connection, [apsw.FullError("full")]
        commit = connection.commit

        def failing() -> None:
            commit()
            if faults:
                raise faults.pop()

        monkeypatch.setattr(connection, "commit", failing)
        (crm,) = parts("crm")
        settlement = Settlement(part=crm, follow_ups=[again(crm)])
        (settled,) = await message.settling.settle([settlement], HOUR)
        assert settled.answer is Answer.SETTLED_ALREADY
        assert await message.settling.take_back(crm.key, crm.deliveries[:1])
    assert await left(folder, clock, RETRIES) == [("crm", 1)]


# ── Pauses ──


class Paused:
    """The subscription `crm`, and what is parked for its pause: messages of an event each."""

    def __init__(self, store: SqliteStore | PostgresStore) -> None:
        self.documents = store.documents
        self.stored = self._put(subscription(), None)

    def pause(self, since: datetime = START) -> None:
        document = without_pause(self.stored.document)
        paused = with_pause(document, Pause(since, "ada"))
        self.stored = self._put(paused, self.stored.etag)

    def resume(self) -> None:
        self.stored = self._put(without_pause(self.stored.document), self.stored.etag)

    def delete(self) -> None:
        assert self.documents.delete(Table.EVENT_SUBSCRIPTIONS, "orders", "crm")

    def _put(self, document: Document, etag: str | None) -> Resource:
        return self.documents.put(Table.EVENT_SUBSCRIPTIONS, "Orders", "Crm", document, etag)


def held(part: MessagePart) -> FollowUp:
    """Let deliveries that are held come again in five minutes."""
    return FollowUp(replace(part, due=START + timedelta(minutes=5)), is_held=True)


async def settle_held(message: InHand) -> None:
    (crm,) = parts("crm")
    answers = await message.settle(Settlement(part=crm, follow_ups=[held(crm)]))
    assert answers == [Answer.SETTLED]


async def put_and_hold(store: SqliteStore | PostgresStore, many: int) -> None:
    """Put messages of two events each, and hold all of them."""
    for number in range(many):
        await store.sender.put(NEW, text_of([of_publish(number)]))
    for lease in await store.leases.claim(NEW, MOST):
        (crm,) = parts_of(lease.body)
        await InHand(store, lease).settle(Settlement(part=crm, follow_ups=[held(crm)]))


def of_publish(number: int, name: str = "crm", payload: str | None = None) -> MessagePart:
    """Return two events of a publish request of their own."""
    origin = a_delivery().origin._replace(publish_id=f"p-{number}", payload=payload)
    text = {"text": None} if payload else {}
    deliveries = [a_delivery(place, origin=origin, **text) for place in range(2)]
    return a_message(deliveries, subscription=name)


def events_of(leases: Sequence[Lease]) -> list[int]:
    """Return how many events each message has."""
    return [sum(len(part.deliveries) for part in parts_of(each.body)) for each in leases]


def changed_rows(store: SqliteStore) -> int:
    """Return how many rows have been changed since the start."""
    return int(store.database.write(lambda writing: writing.changes))  # type: ignore[attr-defined]


@pytest.mark.parametrize("how", ["resumed", "deleted", "paused anew"])
async def test_what_a_pause_holds_is_parked_until_it_is_over(
    folder: Place, clock: FakeClock, how: str
) -> None:
    """However much is parked, that is one write; and also after another start."""
    async with running(folder, clock) as store:
        await prime(store)
        crm = await asyncio.to_thread(Paused, store)
        await asyncio.to_thread(crm.pause)
        await put_and_hold(store, 5)
    clock.advance(timedelta(days=3))
    async with running(folder, clock) as store:
        await store.sender.put(RETRIES, "another")
        assert [each.body for each in await store.leases.claim(RETRIES, MOST)] == [b"another"]
        assert [each.events for each in store.queues.unfinished()[0].values()] == [10]
        crm.documents = store.documents
        if isinstance(store, SqliteStore):
            changes = await asyncio.to_thread(changed_rows, store)
        if how == "resumed":
            await asyncio.to_thread(crm.resume)
        elif how == "deleted":
            await asyncio.to_thread(crm.delete)
        else:
            await asyncio.to_thread(crm.pause, START + HOUR)
        # The document, and the version of the catalogue.
        if isinstance(store, SqliteStore):
            assert await asyncio.to_thread(changed_rows, store) == changes + 2
        leases = await store.leases.claim(RETRIES, MOST)
        assert sum(events_of(leases)) == 10
        assert {each.subscription for one in leases for each in parts_of(one.body)} == {"crm"}
        rows = store.database.read(lambda reading: reading.rows("SELECT * FROM parked"))
        assert rows == []


@pytest.mark.parametrize(
    ("then", "is_free"),
    [
        ({"hold": None, "releasedAt": "2026-01-01"}, True),
        ({"hold": {"since": "2026-01-02"}, "releasedAt": "2026-01-01"}, True),
        ({"hold": {"since": "2026-01-02"}, "releasedAt": None}, False),
    ],
    ids=["released", "held anew", "extended"],
)
async def test_what_a_hold_holds_comes_once_it_is_over(
    folder: Place,
    clock: FakeClock,
    then: dict[str, Any],
    is_free: bool,  # noqa: FBT001
) -> None:
    """And in any case when it is due: the hold is over by time, and wants its probe."""
    row = Table.ENDPOINT_HEALTH, "orders", "crm"
    async with running(folder, clock) as store:
        await prime(store)
        await asyncio.to_thread(Paused, store)  # it is not
        hold = {"endpoint": "e", "hold": {"since": "2026-01-01"}, "releasedAt": None}
        stored = await asyncio.to_thread(store.documents.put, *row, hold, None)
        await put_and_hold(store, 5)
        await asyncio.to_thread(store.documents.put, *row, hold | then, stored.etag)
        if not is_free:
            await store.sender.put(RETRIES, "another")
            assert [each.body for each in await store.leases.claim(RETRIES, MOST)] == [b"another"]
            clock.advance(timedelta(minutes=5))
        assert sum(events_of(await store.leases.claim(RETRIES, MOST))) == 10


@pytest.mark.parametrize("is_resumed", [True, False], ids=["resumed meanwhile", "held"])
async def test_what_is_held_and_not_paused_comes_when_it_is_due(
    folder: Place,
    clock: FakeClock,
    is_resumed: bool,  # noqa: FBT001
) -> None:
    """It was judged paused, then resumed, then stored: it would be parked for ever."""
    async with in_hand(folder, clock, "crm") as message:
        crm = await asyncio.to_thread(Paused, message.store)
        if is_resumed:
            await asyncio.to_thread(crm.pause)
            await asyncio.to_thread(crm.resume)
        await settle_held(message)
    assert await left(folder, clock, RETRIES) == [("crm", 2)]


async def test_more_than_there_is_room_for_is_freed_bit_by_bit(
    folder: Place, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shared.adapters.sql.hand.BATCH", 2)
    async with running(folder, clock) as store:
        await prime(store)
        crm = await asyncio.to_thread(Paused, store)
        await asyncio.to_thread(crm.pause)
        await put_and_hold(store, 5)
        claim = asyncio.create_task(store.leases.claim(RETRIES, MOST))
        await asyncio.sleep(0)
        await asyncio.to_thread(crm.resume)  # which the claim hears of
        got = sum(events_of(await claim))
        while got < 10:
            leases = await store.leases.claim(RETRIES, MOST)
            assert sum(events_of(leases)) <= 4
            got += sum(events_of(leases))
        assert got == 10


# ── Merging ──


async def test_what_is_due_together_is_one_message(folder: Place, clock: FakeClock) -> None:
    """Of the same subscriptions, as far as it fits; also after a kill, and with its payloads."""
    payload = "2026021312/p-0"
    async with running(folder, clock) as store:
        for number in range(6):
            part = of_publish(number, payload=None if number else payload)
            await store.sender.put(RETRIES, text_of([part]), HOUR + number * HOUR / 3600)
        await store.sender.put(RETRIES, text_of([of_publish(0, "erp")]), HOUR)
        full = [a_message([a_delivery(place) for place in range(60)])]
        await store.sender.put(RETRIES, text_of(full), HOUR)
    clock.advance(2 * HOUR)
    async with running(folder, clock, dies=True) as store:
        before = store.queues.unfinished()[0]
        leases = await store.leases.claim(RETRIES, MOST)
        assert sorted(events_of(leases)) == [2, 8, 64]
        assert store.queues.unfinished()[0] == before
        backlog = store.queues.peek(RETRIES)
        assert backlog
        assert backlog.messages == 3
        named = "SELECT payload FROM message_payloads"
        assert store.database.read(lambda reading: reading.rows(named)) == [(payload,)]
    found = await left(folder, clock, RETRIES)
    assert sorted(found) == [("crm", 8), ("crm", 64), ("erp", 2)]


async def test_what_is_due_now_waits_for_nothing_that_is_due_later(
    folder: Place, clock: FakeClock
) -> None:
    """Though one claim takes both, before they are due."""
    async with running(folder, clock) as store:
        await prime(store)
        for number, later in enumerate((0.0, 0.3)):
            due_in = HOUR + timedelta(seconds=later)
            await store.sender.put(RETRIES, text_of([of_publish(number)]), due_in)
        clock.advance(HOUR - timedelta(seconds=0.4))
        hand = store.leases._hands[RETRIES]
        await store.leases._fill(RETRIES, hand)
        assert len({due for due, *_ in hand.ahead}) == 2


async def test_what_has_failed_is_not_merged(folder: Place, clock: FakeClock) -> None:
    """Else one that can't be handled would be the failure of all."""
    async with running(folder, clock) as store:
        await store.sender.put(RETRIES, text_of([of_publish(0)]))
        (failed,) = await store.leases.claim(RETRIES, MOST)
        await store.leases.give_back(failed)
        for number in (1, 2):
            await store.sender.put(RETRIES, text_of([of_publish(number)]), HOUR)
        clock.advance(2 * HOUR)
        leases = await store.leases.claim(RETRIES, MOST)
        assert sorted(events_of(leases)) == [2, 4]


# ── All of it ──


@pytest.mark.parametrize("seed", range(6))
async def test_no_event_is_lost_or_doubled_whatever_is_settled_and_killed(
    folder: Place, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Parts are settled whole or bit by bit, in any order, and the process is killed at times."""
    monkeypatch.setattr("shared.adapters.sql.suspects.DEATHS", 99)  # none is poison
    chance = Random(seed)
    names = ("crm", "erp", "wms")
    wanted = Counter({(name, place): 1 for name in names for place in range(9)})
    async with running(folder, clock) as store:
        for start in (0, 3, 6):
            events = [a_delivery(place) for place in range(start, start + 3)]
            together = [a_message(events, subscription=name) for name in names]
            await store.sender.put(RETRIES, text_of(together), start * HOUR / 3600)
    for _ in range(12):
        clock.advance(2 * HOUR)
        async with running(folder, clock, dies=chance.random() < 0.5) as store:
            await store.sender.put(RETRIES, "something")  # so that no claim waits
            leases = await store.leases.claim(RETRIES, MOST)
            for lease in chance.sample(leases, k=len(leases)):
                if lease.body == b"something":
                    await store.leases.end(lease)
                elif chance.random() < 0.8:
                    wanted -= await settle_by(chance, InHand(store, lease), clock)
            assert +wanted == await asyncio.to_thread(open_events, store)


async def settle_by(chance: Random, message: InHand, clock: FakeClock) -> Counter[tuple[str, int]]:
    """Settle some parts of a message; return which events were delivered."""
    delivered: Counter[tuple[str, int]] = Counter()
    found = parts_of(message.lease.body)
    for part in chance.sample(found, k=chance.randint(1, len(found))):
        left = [*part.deliveries]
        while left:
            chosen = chance.sample(left, k=chance.randint(1, len(left)))
            left = [each for each in left if each not in chosen]
            follow_ups = []
            if left or chance.random() < 0.5:
                due = clock.now() + HOUR * chance.random()
                follow_ups = [
                    FollowUp(replace(part, deliveries=tuple(chosen), due=due), is_held=True)
                ]
            else:
                delivered.update((part.subscription, each.position) for each in chosen)
            settlement = Settlement(part=part, follow_ups=follow_ups, is_whole=not left)
            assert await message.settle(settlement) == [Answer.SETTLED]
            if left and chance.random() < 0.3:
                return delivered  # the rest stays open
    return delivered


def open_events(store: SqliteStore | PostgresStore) -> Counter[tuple[str, int]]:
    """Return the events of all messages, as the next process gets them."""

    def read(reading: ReadTransaction) -> Counter[tuple[str, int]]:
        rows = reading.rows("SELECT id, body FROM messages WHERE queue = 'retries'")
        return Counter(
            (part.subscription, each.position)
            for number, body in rows
            if body != b"something"
            for part in parts_of(open_text(body.decode(), open_keys(reading, number)))
            for each in part.deliveries
        )

    return store.database.read(read)
