"""Who hangs, is slow or fails costs only itself: a healthy endpoint beside such, in driven time."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import json
from collections.abc import Iterator
from datetime import timedelta
from typing import NamedTuple

import pytest

from pushgrid.testing.memory import answered
from shared.delivery.pace import FIRST, Limit
from shared.engine.delivering.scheduler import BEGUN_A_TURN, PUSHES
from shared.engine.ports import Queue
from shared.http import Exchange, Failure, LateAnswerHandler, NotAnswered, OutboundRequest
from tests.builders import ORIGIN, a_delivery, a_message, encode, text
from tests.functional.deployment import SECOND, Deployment, is_idle

HEALTHY = "https://healthy.example/"
DURATION = 4  # seconds of publishing
EVERY = 0.1  # seconds between two events for the healthy endpoint
A_PUT = 0.005  # seconds
PLACES = 256  # a sixteenth of what a process has, so that less fills it
HANGS = 60.0  # seconds
SLOW = pytest.mark.slow


class Trouble(NamedTuple):
    """So many *endpoints* that answer *status* after so long, and get so many events a second."""

    endpoints: int
    seconds: float
    status: int
    rate: int
    begins_to_hang_after: float = float("inf")
    limit: int = 256


class Endpoints:
    """Pusher to a healthy endpoint, and to others in trouble."""

    def __init__(self, trouble: Trouble) -> None:
        self._trouble = trouble
        self.arrived: dict[str, float] = {}  # seconds of the loop's clock
        self.under_way = 0

    async def send(
        self, request: OutboundRequest, timeout: timedelta, late: LateAnswerHandler | None = None
    ) -> Exchange:
        del late
        now, limit = asyncio.get_running_loop().time(), timeout.total_seconds()
        if request.url == HEALTHY:
            for event in json.loads(request.body):
                self.arrived.setdefault(event["id"], now)
            return answered(200)
        seconds = self._trouble.seconds
        if now - self.began > self._trouble.begins_to_hang_after:
            seconds = limit + 1
        await asyncio.sleep(min(seconds, limit))
        if seconds > limit:
            return NotAnswered(Failure.TIMED_OUT, "", limit)
        return answered(self._trouble.status, seconds=seconds)

    began = 0.0


class Host:
    """Has so many messages of each queue in flight, and an app with the budget for as many."""

    def __init__(self, app: Deployment) -> None:
        self._app = app
        make_small(app)
        self._waiting: dict[Queue, list[tuple[float, int, str]]] = {
            Queue.DELIVERIES: [],
            Queue.RETRIES: [],
        }
        self._in_flight = dict.fromkeys(self._waiting, 0)
        self.worked = dict.fromkeys(self._waiting, 0)
        self._count = itertools.count()
        app.queues.put = self._put  # type: ignore[method-assign, assignment]

    def bring(self, text: str) -> None:
        """Let a message of first attempts arrive now."""
        self._put(Queue.DELIVERIES, text)

    def _put(self, queue: Queue, text: str, visible_in: timedelta = timedelta()) -> object:
        loop = self._app.loop
        if queue in self._waiting:
            at = loop.time() + visible_in.total_seconds()
            heapq.heappush(self._waiting[queue], (at, next(self._count), text))
            loop.call_at(at + A_PUT, self._pull, queue)
        return object()

    def _pull(self, queue: Queue) -> None:
        loop, waiting = self._app.loop, self._waiting[queue]
        while waiting and waiting[0][0] <= loop.time() and self._in_flight[queue] < PLACES:
            self._in_flight[queue] += 1
            loop.create_task(self._work(queue, heapq.heappop(waiting)[2]))

    async def _work(self, queue: Queue, text: str) -> None:
        await self._app.deliver.run(text.encode(), queue)
        self.worked[queue] += 1
        self._in_flight[queue] -= 1
        self._pull(queue)


def make_small(app: Deployment) -> None:
    app.deliver.endpoints.scheduler.budget.pushes = PLACES
    for places in app.deliver.in_hand.values():
        places.most = PLACES


def a_lone(name: str, event: str, app: Deployment) -> str:
    """Return a message with one delivery."""
    origin = ORIGIN._replace(publish_id=event, published_at=app.clock.now())
    (message,) = encode(
        a_message([a_delivery(origin=origin, text=text(id=event))], subscription=name)
    )
    return message


def latest_after(app: Deployment, trouble: Trouble, host: Host) -> float:
    """Publish for both; return after how many seconds the healthy endpoint got its latest event."""
    endpoints = Endpoints(trouble)
    app.push_with(endpoints)
    app.subscribe(name="healthy", endpoint_url=HEALTHY)
    names = [f"slow-{number}" for number in range(trouble.endpoints)]
    for name in names:
        app.subscribe(name=name, endpoint_url=f"https://{name}.example/")
    sent: dict[str, float] = {}

    async def publish() -> None:
        endpoints.began = began = app.loop.time()
        for at, name, event in sorted(_events(trouble, names)):
            await asyncio.sleep(began + at - app.loop.time())
            if name == "healthy":
                sent[event] = app.loop.time()
            host.bring(a_lone(name, event, app))
        await asyncio.sleep(3)

    app.loop.run(publish())
    assert endpoints.arrived.keys() == sent.keys()
    return max(endpoints.arrived[event] - sent[event] for event in sent)


def _events(trouble: Trouble, names: list[str]) -> Iterator[tuple[float, str, str]]:
    for number in range(int(DURATION / EVERY)):
        yield number * EVERY, "healthy", f"healthy-{number}"
    for number, name in zip(range(DURATION * trouble.rate), itertools.cycle(names), strict=False):
        yield number / trouble.rate, name, f"{name}-{number}"


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(Trouble(20, 0.9, 200, 600), id="twenty that take 0.9 s", marks=SLOW),
        pytest.param(Trouble(6, 0.9, 200, 180, begins_to_hang_after=2), id="six that then hang"),
        pytest.param(Trouble(6, HANGS, 200, rate=240), id="six that hang", marks=SLOW),
        pytest.param(Trouble(64, HANGS, 200, rate=240), id="sixty-four that hang", marks=SLOW),
        pytest.param(Trouble(300, HANGS, 200, 600), id="more than may be pushed to", marks=SLOW),
        pytest.param(Trouble(1, 0.2, 200, rate=200, limit=4), id="brief pushes, few at a time"),
        pytest.param(Trouble(100, 0.005, 503, rate=500), id="a hundred that fail", marks=SLOW),
    ],
)
def test_a_healthy_endpoint_does_not_wait_for_others(app: Deployment, trouble: Trouble) -> None:
    app.deliver = app.new_process(limit=Limit.up_to(trouble.limit))
    host = Host(app)

    assert latest_after(app, trouble, host) <= 1.0

    # What is requeued does not come faster than it can be pushed: coming only to be requeued
    # again, it would keep storage and the process busy.
    if trouble.seconds == HANGS and trouble.endpoints <= 64:
        assert host.worked[Queue.DELIVERIES] > 500
        assert host.worked[Queue.RETRIES] < host.worked[Queue.DELIVERIES] / 2


@pytest.mark.parametrize("is_known", [True, False], ids=["slow", "unknown"])
def test_large_events_for_an_endpoint_that_hangs_leave_memory_to_others(
    app: Deployment, *, is_known: bool
) -> None:
    """What there is no memory for comes back at the endpoint's pace."""
    for name in ("hangs", "healthy"):
        app.subscribe(name=name, endpoint_url=f"https://{name}.example/")
    app.run(a_message(subscription="healthy"))
    if is_known:
        app.pusher.takes = 2 * SECOND
        app.run(a_message(subscription="hangs"))
        app.pusher.takes = 0 * SECOND
    app.deliver.endpoints.memory.bytes = 8 * len(a_delivery().text or "")
    held = app.hold("hangs")
    hanging = [app.begin(a_message(subscription="hangs")) for _ in range(20)]
    app.loop.advance(2 * SECOND)
    healthy = app.begin(a_message(subscription="healthy"))

    assert healthy.done()
    assert len(held.held) == 4
    assert sum(each.done() for each in hanging) == 16
    assert len(app.on(Queue.RETRIES)) == 16
    held.let_go()
    app.loop.settle()
    assert all(each.done() for each in hanging)
    assert is_idle(app.deliver.endpoints)


@pytest.mark.parametrize("is_in_line", [False, True], ids=["as they come", "as their lines may"])
def test_what_begins_at_once_for_others_keeps_a_healthy_event_waiting_for_few(
    app: Deployment, *, is_in_line: bool
) -> None:
    """The control is what all of them may have under way: hundreds of requests in the same turn."""
    names = [f"slow-{number}" for number in range(32)]
    for name in ("healthy", *names):
        app.subscribe(name=name, endpoint_url=f"https://{name}.example/")
    app.run(a_message(subscription="healthy"))  # what needs reading is read
    app.pusher.sent.clear()
    held, before = app.hold("slow"), []
    budget = app.deliver.endpoints.scheduler.budget
    if is_in_line:
        budget.pushes = 0

    async def watch() -> None:
        for _ in range(1000):
            if not app.pusher.sent:
                await asyncio.sleep(0)
        before.append(len(held.held))

    for number in range(1024):
        begin(app, names[number % 32], number)
    if is_in_line:
        let_push(app)
    begin(app, "healthy", 0)
    app.loop.run(watch())
    app.loop.settle()

    assert len(held.held) == 32 * FIRST
    assert before[0] <= 8 * BEGUN_A_TURN
    held.let_go()
    app.loop.settle()


def begin(app: Deployment, name: str, event: int) -> None:
    for body in encode(a_message([a_delivery(event)], subscription=name)):
        app.loop.create_task(app.deliver.run(body.encode(), Queue.DELIVERIES))


def let_push(app: Deployment) -> None:
    """Let all that waits in lines be pushed from the same turn on."""
    app.loop.settle()
    app.deliver.endpoints.scheduler.budget.pushes = PUSHES
    for each in app.deliver.endpoints.known.values():
        app.loop.call_soon(each.look_soon)
