"""Every request to a store in memory passes one seam, with the name of the process that asks."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

import pytest

from pushgrid.testing.composition import InMemoryApp
from pushgrid.testing.memory import (
    START,
    DrivenLoop,
    FakeClock,
    MemoryStore,
    ScriptedPusher,
    StoreRequest,
    off_loop,
)
from shared.clock import Deadline
from shared.engine.ports import STATE, Queue, Store, Table
from shared.errors import StorageUnavailable
from shared.subscriptions.subscription import DeadLetterDestination

T = TypeVar("T")
DEAD = DeadLetterDestination(container="dead")


class World:
    """A seam that notes what it is asked, and does with an effect what a test says."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.requests: list[StoreRequest] = []
        self.does: Callable[[Callable[[], object]], object] = lambda effect: effect()

    def __call__(self, request: StoreRequest, effect: Callable[[], T], /) -> T:
        self.requests.append(request)
        self.asked.append((request.process, f"{request.port}.{request.method}"))
        result: T = self.does(effect)  # type: ignore[assignment]
        return result


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(world: World, clock: FakeClock) -> MemoryStore:
    return MemoryStore(clock, off_loop, seam=world)


@pytest.fixture
def loop(clock: FakeClock) -> DrivenLoop:
    return DrivenLoop(clock)


def test_each_request_of_every_port_passes_the_seam(
    world: World, store: MemoryStore, loop: DrivenLoop, clock: FakeClock
) -> None:
    seen: Store = store.of("one")
    deadline = Deadline(timedelta(minutes=1), clock.monotonic)
    row = (Table.TOPICS, STATE, "row")

    seen.documents.put(*row, {"n": 1}, None)
    seen.documents.get(*row)
    seen.documents.list(Table.TOPICS, STATE)
    seen.documents.list_all(Table.TOPICS)
    seen.documents.delete(*row)
    receipt = loop.run(seen.sender.put(Queue.WAITING, "text"))
    replaced = loop.run(seen.sender.replace(Queue.WAITING, receipt, "other", timedelta()))
    assert replaced
    (received,) = seen.queues.receive(Queue.WAITING, timedelta(minutes=1))
    seen.queues.hide(Queue.WAITING, received, timedelta())
    seen.queues.delete(Queue.WAITING, received)
    loop.run(seen.sender.take_back(Queue.WAITING, replaced))
    seen.queues.peek(Queue.WAITING)
    seen.queues.make(Queue.WAITING)
    name = seen.payloads.write("p-1", START, ["line"])
    seen.payloads.read(name)
    seen.payloads.delete_expired(START, deadline)
    seen.dead_letters.write(DEAD, "path", b"[]")
    seen.dead_letters.find(DEAD, "path")
    seen.dead_letters.list(DEAD, "")
    seen.dead_letters.read(DEAD, "path", 9)
    seen.dead_letters.write_poison("path", b"")
    seen.attempts.write([])
    list(seen.attempts.read("orders", "crm", START))
    seen.attempts.delete_before(START.date(), deadline)
    seen.counts.write([])
    list(seen.counts.minutes("orders", "crm", START, START))
    seen.counts.hours(START)
    seen.counts.totals()
    seen.counts.roll_up(START, START, deadline)
    seen.counts.delete_before(START.date(), deadline)

    asked = [name for _, name in world.asked]
    wanted = """
        documents.put documents.get documents.list documents.list_all documents.delete
        queues.put queues.replace queues.receive queues.hide queues.delete
        queues.take_back queues.peek queues.make payloads.write payloads.read
        payloads.delete_expired dead_letters.write dead_letters.find dead_letters.list
        dead_letters.read dead_letters.write_poison attempts.write attempts.read
        attempts.delete_before counts.write counts.minutes counts.hours counts.totals
        counts.roll_up counts.delete_before
    """
    assert asked == wanted.split()
    assert {process for process, _ in world.asked} == {"one"}
    assert world.requests[1].arguments == row


def test_texts_that_are_put_together_are_a_request_each(
    world: World, store: MemoryStore, loop: DrivenLoop
) -> None:
    texts = ["a", "b", "c"]

    def fail_in_the_middle(effect: Callable[[], object]) -> object:
        if len(world.asked) == 2:
            raise StorageUnavailable
        return effect()

    world.does = fail_in_the_middle
    puts = loop.run(store.sender.put_all(Queue.WAITING, texts))

    assert [request.arguments[1] for request in world.requests] == texts
    assert [isinstance(put, StorageUnavailable) for put in puts] == [False, True, False]
    assert store.queues.texts(Queue.WAITING) == ["a", "c"]


def test_an_effect_may_come_twice_or_after_its_caller_has_given_up(
    world: World, store: MemoryStore, loop: DrivenLoop, clock: FakeClock
) -> None:
    later: list[Callable[[], object]] = []

    def twice_and_once_more(effect: Callable[[], object]) -> object:
        later.append(effect)
        effect()
        effect()
        raise StorageUnavailable

    world.does = twice_and_once_more
    with pytest.raises(StorageUnavailable):
        loop.run(store.sender.put(Queue.WAITING, "text"))
    clock.advance(timedelta(minutes=5))
    later[0]()

    stored = store.queues.stored[Queue.WAITING]
    assert [message.stored_at - START for message in stored] == [
        timedelta(),
        timedelta(),
        timedelta(minutes=5),
    ]
    assert len({message.identity for message in stored}) == 3


def test_processes_see_one_store_and_have_faults_of_their_own(
    world: World, store: MemoryStore
) -> None:
    answered: list[str] = []
    store.documents.answered = lambda: answered.append("neither")
    one, two = store.of("one"), store.of("two")
    two.documents.list_all(Table.TOPICS)
    one.documents.answered = lambda: answered.append("one")
    two.documents.answered = lambda: answered.append("two")
    row = (Table.TOPICS, STATE, "row")

    one.documents.put(*row, {"n": 1}, None)
    one.documents.fail_next("get")
    found = two.documents.get(*row)
    with pytest.raises(StorageUnavailable):
        one.documents.get(*row)

    assert found
    assert found.document == {"n": 1}
    assert answered == ["one", "two"]
    # What fails by `fail_next` before its effect does not come as far as the seam.
    assert world.asked[1:] == [("one", "documents.put"), ("two", "documents.get")]


def test_ids_are_the_same_in_each_run() -> None:
    def ids() -> list[str]:
        clock = FakeClock()
        store = MemoryStore(clock, off_loop)
        put = DrivenLoop(clock).run(store.sender.put(Queue.WAITING, "text"))
        row = store.documents.put(Table.TOPICS, STATE, "row", {}, None)
        written = store.dead_letters.write(DEAD, "path", b"[]")
        assert written
        return [*put, row.etag, store.payloads.write("p", START, ["x"]), written.request_id]

    assert ids() == ids()
    assert len(set(ids())) == len(ids())


def test_what_the_loop_begins_may_wait_for_a_store() -> None:
    """A jump that is seen on the loop is stored, though the store takes its time."""
    clock = FakeClock()

    def seam(_: StoreRequest, effect: Callable[[], T], /) -> T:
        app._threads.sleep(0.2)
        return effect()

    app = InMemoryApp(ScriptedPusher(clock), clock, MemoryStore(clock, off_loop, seam=seam))

    async def see_a_jump() -> None:
        clock.jump(timedelta(hours=5))
        app.watched.now()

    app.loop.run(see_a_jump())
    app.loop.settle()

    assert app.resources.get(Table.TOPICS, STATE, "clock-jump")
