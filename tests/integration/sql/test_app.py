"""The whole app on SQLite: published, pushed, retried, dead-lettered, and nothing waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from time import monotonic

from pushgrid.testing.composition import MemoryOutbound
from pushgrid.testing.memory import FakeClock, ScriptedPusher, answered
from shared.adapters.sql.sqlite.files import Connect, connect
from shared.adapters.sql.sqlite.store import SqliteStore
from shared.adapters.threads import SystemThreads
from shared.app import App
from shared.clock import Deadline, SystemClock
from shared.engine.ports import CUSTOM_TOPICS, AttemptChoice, Pusher, Queue, Table
from shared.engine.ports.leases import LEASED, Lease
from shared.settings import AttemptLogging, Settings
from shared.subscriptions.subscription import DeadLetterDestination
from shared.watched_clock import WatchedClock
from shared.wiring.process import SystemChance
from tests.builders import a_topic, an_event
from tests.unit.arm.documents import dead_letter, subscription, topic, webhook

URL = "https://{}.example/hook"
NAMES = ("crm", "erp", "wms")  # accepts, accepts at the second time, refuses
MOST = 100


class Server:
    """As much of a server as delivers what is in hand."""

    def __init__(self, store: SqliteStore, pusher: Pusher) -> None:
        threads = SystemThreads()
        threads.attach()
        self.store = store
        self.app = App(
            settings=Settings(
                storage={}, admin_key="k", attempt_log=AttemptLogging.ALL, time_scale=1000
            ),
            store=lambda: store,
            outbound=lambda: MemoryOutbound(pusher),
            clock=WatchedClock(SystemClock().now, monotonic),
            threads=threads,
            chance=SystemChance(),
        )
        self.claims = [asyncio.create_task(self._claim(queue)) for queue in LEASED]

    async def _claim(self, queue: Queue) -> None:
        async with asyncio.TaskGroup() as group:
            while True:
                for lease in await self.store.leases.claim(queue, MOST):
                    group.create_task(self._deliver(lease))

    async def _deliver(self, lease: Lease) -> None:
        settling = self.store.settling(lease, self.app.metrics)
        await self.app.deliver.run(lease.body, lease.queue, settling)
        await self.store.leases.end(lease)

    async def run_timer(self) -> None:
        deadline = Deadline(timedelta(minutes=1), monotonic)
        await asyncio.to_thread(self.app.write_dead_letters.run, deadline)


@asynccontextmanager
async def serving(
    folder: Path, pusher: Pusher, connect: Connect = connect
) -> AsyncIterator[Server]:
    threads = SystemThreads()
    store = SqliteStore(
        folder, clock=SystemClock(), threads=threads, account="acct", connect=connect
    )
    server = Server(store, pusher)
    try:
        yield server
    finally:
        for each in server.claims:
            each.cancel()
        await asyncio.wait(server.claims)
        server.app.stop()
        await server.app.end()
        await store.leases.close()
        store.close()


async def until(is_true: Callable[[], bool]) -> None:
    while not await asyncio.to_thread(is_true):  # noqa: ASYNC110 - a database tells nobody
        await asyncio.sleep(0.01)


def subscribe(store: SqliteStore) -> None:
    store.documents.put(Table.TOPICS, CUSTOM_TOPICS, "orders", topic(), None)
    for name in NAMES:
        document = subscription(
            name=name,
            destination=webhook(URL.format(name)),
            deadLetterDestination=dead_letter(),
            retryPolicy={"maxDeliveryAttempts": 3},
        )
        store.documents.put(Table.EVENT_SUBSCRIPTIONS, "orders", name, document, None)


def test_events_come_to_their_ends(tmp_path: Path) -> None:
    """Three subscriptions: one accepts, one accepts a retry, one gets a dead letter."""
    pusher = ScriptedPusher(FakeClock())
    pusher.script(URL.format("erp"), answered(503), answered(200))
    pusher.script(URL.format("wms"), answered(400))

    async def play() -> None:
        async with serving(tmp_path / "data", pusher) as server:
            store = server.store
            await asyncio.to_thread(subscribe, store)
            for number in range(3):
                event = an_event(id=f"e-{number}")
                await server.app.publish.accept(a_topic(), [event], f"publish-{number}")
            await until(lambda: store.queues.unfinished()[0] == {})
            given_up = await asyncio.to_thread(lambda: store.queues.unfinished()[1])
            assert {key.subscription: each.events for key, each in given_up.items()} == {"wms": 3}
            await until(lambda: not has_dead_letters_later(store))
            await server.run_timer()
            assert await asyncio.to_thread(lambda: store.queues.unfinished()[1]) == {}
            await server.app.end()
            blobs = await asyncio.to_thread(_blobs, store, "WMS/")
            assert len(blobs) == 1
            # Nobody waits for rows of attempts: they come a moment later.
            await until(lambda: _is_delivered(store, "e-0"))

    asyncio.run(asyncio.wait_for(play(), 120))

    hosts = [each.request.url.split("/")[2] for each in pusher.sent]
    assert hosts.count("crm.example") == 3
    assert hosts.count("erp.example") == 4
    assert hosts.count("wms.example") == 3


def _is_delivered(store: SqliteStore, event: str) -> bool:
    """Tell whether the last attempt of an event to `erp` is recorded, and has delivered it."""
    since = SystemClock().now() - timedelta(days=1)
    days = store.attempts.read("orders", "erp", since, AttemptChoice(event))
    attempts = [each for day in days for each in day]
    return bool(attempts) and attempts[-1].is_delivered


def has_dead_letters_later(store: SqliteStore) -> bool:
    """Tell whether something on the queue of dead letters is not due yet."""
    backlog = store.queues.peek(Queue.DEADLETTERS)
    return backlog is not None and backlog.messages > len(backlog.visible)


def _blobs(store: SqliteStore, folder: str) -> list[str]:
    """Return the paths of all blobs below a folder."""
    listing = store.dead_letters.list(DeadLetterDestination(container="dead"), folder)
    below = [path for each in listing.folders for path in _blobs(store, f"{folder}{each}/")]
    return [*below, *(each.path for each in listing.blobs)]


def test_a_server_that_is_killed_delivers_after_its_next_start(tmp_path: Path) -> None:
    pusher = ScriptedPusher(FakeClock())

    async def publish() -> None:
        async with serving(tmp_path / "data", pusher) as server:
            await asyncio.to_thread(subscribe, server.store)
            for each in server.claims:  # it dies before it delivers anything
                each.cancel()
            await server.app.publish.accept(a_topic(), [an_event()], "publish-1")
            server.store.leases.close = _do_nothing  # type: ignore[method-assign]

    async def deliver() -> None:
        async with serving(tmp_path / "data", pusher) as server:
            await until(lambda: server.store.queues.unfinished()[0] == {})

    asyncio.run(publish())
    assert pusher.sent == []
    asyncio.run(asyncio.wait_for(deliver(), 120))
    assert len(pusher.sent) == len(NAMES)


async def _do_nothing() -> None:
    pass
