"""Limits of a subscription's requests for all processes together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pushgrid.testing.memory import START, FakeClock, HeldPusher, MemoryResources, off_loop
from pushgrid.testing.memory.driven_loop import DrivenLoop
from shared.engine.delivering.deliver import Deliver
from shared.engine.delivering.processes import Processes
from shared.engine.ports import PROCESSES, Queue, Table
from shared.subscriptions.request_limits import RequestLimits
from shared.subscriptions.subscription import NO_BATCHING, Batching, Pause
from shared.tasks import Tasks
from tests.builders import a_delivery, a_message, encode
from tests.functional.delivering.failing import pushed
from tests.functional.deployment import SECOND, Deployment, Logged

T = TypeVar("T")


def begin(
    app: Deployment, process: Deliver, events: range, queue: Queue = Queue.DELIVERIES
) -> asyncio.Task[None]:
    """Let a process deliver a message with these events, as far as no time has to pass."""
    (text,) = encode(a_message([a_delivery(number) for number in events]))
    task = app.loop.create_task(process.run(text.encode(), queue))
    app.loop.settle()
    return task


def under_way(app: Deployment, *processes: Deliver) -> list[int]:
    """Return how many requests each has under way to the only endpoint."""
    (subscription,) = app.directory.known.values()
    return [each.endpoints.of(subscription).under_way for each in processes]


def has_share(app: Deployment, process: Deliver) -> bool:
    async def ask() -> bool:
        (key,) = app.directory.known
        return process.endpoints.has_share(key)

    return app.loop.run(ask())


def answer_all(held: HeldPusher) -> None:
    """Answer the requests that are under way; hold those that follow."""
    held.let_go()
    held.hold("e-")


def two_that_share(app: Deployment) -> tuple[Deliver, Deliver]:
    """Return processes that have 60 events each, and know of each other."""
    first, second = app.deliver, app.new_process()
    for process, start in ((first, 0), (second, 100)):
        begin(app, process, range(start, start + 60))
    app.loop.advance(11 * SECOND)
    return first, second


def test_one_that_begins_waits_until_the_others_have_given_up_its_share(app: Deployment) -> None:
    held = app.hold("e-")
    app.subscribe(limits=RequestLimits(at_once=10))
    first, second = app.deliver, app.new_process()
    for start in (0, 60):
        begin(app, first, range(start, start + 60))
    app.loop.advance(3 * SECOND)
    begin(app, second, range(200, 260))
    found = []

    for _ in range(12):
        found.append(under_way(app, first, second))
        answer_all(held)
        app.loop.advance(SECOND)

    assert found[0] == [10, 0]
    assert found[-1] == [5, 5]
    assert max(map(sum, found)) == 10


def test_who_receives_retries_has_a_share_before_who_does_not(app: Deployment) -> None:
    """Else what others requeue waits for ever, where retries are a group of their own."""
    held = app.hold("e-")
    app.subscribe(limits=RequestLimits(at_once=1))
    others = [app.deliver, app.new_process()]
    retrying = app.new_process()
    found = []

    for start in range(0, 100, 10):
        begin(app, retrying, range(start, start + 1), Queue.RETRIES)
        for place, process in enumerate(others):
            begin(app, process, range(start + place + 1, start + place + 2))
        app.loop.advance(5 * SECOND)
        found.append(under_way(app, retrying, *others))
        answer_all(held)

    assert found[-4:] == [[1, 0, 0]] * 4
    assert max(map(sum, found)) == 1


def test_no_second_has_more_requests_than_the_limit(app: Deployment) -> None:
    app.subscribe(limits=RequestLimits(a_second=20))
    first, second = app.deliver, app.new_process()
    for process, start in ((first, 1), (second, 2)):
        begin(app, process, range(start, start + 1))
    app.loop.advance(11 * SECOND)
    for process, start in ((first, 100), (second, 200)):
        begin(app, process, range(start, start + 64))
    app.loop.advance(20 * SECOND)

    times = [sent.at for sent in app.pusher.sent][2:]
    assert len(times) == 128
    assert max(sum(t <= each < t + SECOND for each in times) for t in times) == 20
    assert times[-1] - times[0] < 8 * SECOND


@pytest.mark.parametrize("most", [2, 8])
def test_a_changed_limit_counts_for_what_waits_already(app: Deployment, most: int) -> None:
    held = app.hold("e-")
    subscription = app.subscribe(limits=RequestLimits(at_once=4))
    begin(app, app.deliver, range(20))
    app.directory.add(replace(subscription, limits=RequestLimits(at_once=most)))

    app.loop.advance(SECOND)
    answer_all(held)
    app.loop.settle()

    assert under_way(app, app.deliver) == [most]


def test_what_waits_where_places_are_scarce_is_requeued_however_quick_the_endpoint(
    app: Deployment,
) -> None:
    app.deliver.in_hand[Queue.DELIVERIES].most = 8
    app.hold("e-")
    app.subscribe(limits=RequestLimits(at_once=1))

    tasks = [begin(app, app.deliver, range(number, number + 1)) for number in range(8)]

    assert [each.done() for each in tasks] == [False] * 4 + [True] * 4


@pytest.mark.parametrize(
    ("batching", "events"),
    [(NO_BATCHING, 1), (Batching(max_events=10), 10)],
    ids=["an event", "a batch"],
)
def test_what_is_requeued_comes_back_no_faster_than_the_limit(
    app: Deployment, batching: Batching, events: int
) -> None:
    """The limit is one of requests: a request's events come back together."""
    app.subscribe(
        limits=RequestLimits(a_second=2), pause=Pause(START, "the admin key"), batching=batching
    )

    for number in range(4):
        begin(app, app.deliver, range(number * events, (number + 1) * events))

    steps = [number * 1.05 * SECOND / 2 for number in range(4)]
    assert [message.due for message in app.on(Queue.RETRIES)] == [
        START + SECOND + step for step in steps
    ]


def test_batches_that_find_no_place_are_back_when_the_limit_allows_their_requests(
    app: Deployment,
) -> None:
    app.deliver.in_hand[Queue.DELIVERIES].most = 8
    app.subscribe(limits=RequestLimits(a_second=20), batching=Batching(max_events=50))
    begin(app, app.deliver, range(1))

    for number in range(100):
        begin(app, app.deliver, range(number * 50, (number + 1) * 50))

    waits = app.queues.waits(Queue.RETRIES)
    assert len(waits) > 90
    assert max(waits) <= 12 * SECOND


def test_the_allowed_rate_of_the_handshake_is_divided_as_well(app: Deployment) -> None:
    app.subscribe(rate=20)
    first, second = app.deliver, app.new_process()
    begin(app, first, range(1))

    begin(app, second, range(100, 106))
    assert pushed(app) == 1
    app.loop.advance(11 * SECOND)

    assert pushed(app) == 1 + 2


def test_more_processes_than_the_limit_requeue_what_is_not_theirs(app: Deployment) -> None:
    app.hold("e-")
    app.subscribe(limits=RequestLimits(at_once=1))
    first, second = app.deliver, app.new_process()
    begin(app, first, range(1))

    begin(app, second, range(100, 106))
    app.loop.advance(11 * SECOND)

    assert under_way(app, first, second) == [1, 0]
    assert [has_share(app, each) for each in (first, second)] == [True, False]
    [message] = app.on(Queue.RETRIES)
    assert {each.attempts for each in message.deliveries} == {0}
    assert app.queues.waits(Queue.RETRIES) == [4 * SECOND]  # of five


def test_without_storage_a_share_is_used_for_ten_seconds_and_then_nothing_is_sent(
    app: Deployment, logged: Logged
) -> None:
    app.subscribe(limits=RequestLimits(a_second=2))
    begin(app, app.deliver, range(60))
    app.resources.fail_next("put", 1000)

    app.loop.advance(30 * SECOND)
    sent = pushed(app)
    app.resources.fail_next("put", -1000)
    app.loop.advance(SECOND)

    assert 15 <= sent <= 20
    assert sent < pushed(app)
    assert len(logged("limits.unshared")) == 1


def test_a_damaged_row_counts_as_any(app: Deployment) -> None:
    held = app.hold("e-")
    app.subscribe(limits=RequestLimits(at_once=10))
    first, second = two_that_share(app)
    for row in app.resources.list(Table.TOPICS, PROCESSES):
        app.resources.damage(Table.TOPICS, PROCESSES, row.name)

    app.loop.advance(6 * SECOND)
    answer_all(held)
    app.loop.settle()

    assert under_way(app, first, second) == [5, 5]
    assert [each.fault for each in app.resources.list(Table.TOPICS, PROCESSES)] == ["", ""]


LIMIT = 10
STEPS = st.one_of(
    st.tuples(st.just("pass"), st.sampled_from([1, 5, 10, 11, 31, 45])),
    st.tuples(st.sampled_from(["begin", "fall_silent", "speak", "kill"]), st.integers(0, 5)),
    st.tuples(st.just("jump"), st.sampled_from([-3600, -20, 20, 3600])),
    st.tuples(st.just("slow"), st.sampled_from([0, 4, 9, 15])),
    st.tuples(st.sampled_from(["get", "put", "list", "delete"]), st.sampled_from([1, 3])),
)


class Alive:
    """Processes that ask for their share each second, and some that are silent."""

    def __init__(self) -> None:
        self.clock, self.rows = FakeClock(), MemoryResources()
        self.loop = DrivenLoop(self.clock)
        self.speaking: list[Processes] = []
        self.silent: list[Processes] = []
        self.begun = 0
        self.delay = 0

    async def off_loop(self, call: Callable[[], T]) -> T:
        """Ask storage, whose answer is late."""
        delay, answer = self.delay, await off_loop(call)
        await asyncio.sleep(delay)
        return answer

    def do(self, what: str, value: int) -> None:
        chosen = value % max(len(self.speaking), 1)
        if what == "begin":
            name, self.begun = f"{value}-{self.begun}", self.begun + 1
            new = Processes(
                rows=self.rows,
                clock=self.clock,
                off_loop=self.off_loop,
                tasks=Tasks(),
                name=name,
            )
            self.speaking.append(new)
        elif what == "fall_silent":
            self.silent += self.speaking[chosen : chosen + 1]
        elif what == "speak":
            self.speaking, self.silent = [*self.speaking, *self.silent], []
        elif what == "slow":
            self.delay = value
        elif what == "jump":
            self.clock.jump(value * SECOND)
        elif what != "kill":
            self.rows.fail_next(what, value, after=value == 1)
        if what in ("fall_silent", "kill"):
            del self.speaking[chosen : chosen + 1]

    async def shares(self) -> list[int]:
        shares = [each.share() for each in self.speaking]
        return [share.of(LIMIT) for share in shares if share]


BOTH = [("begin", 0), ("begin", 1), ("pass", 11)]
WAKE_TOGETHER = [*BOTH, ("fall_silent", 0), ("fall_silent", 0), ("pass", 31), ("speak", 0)]
WAKE_ALONE = [*BOTH, ("fall_silent", 0), ("pass", 45), ("speak", 0), ("pass", 1)]
OLD_ANSWER = [
    *(("begin", 0), ("pass", 4), ("slow", 9), ("pass", 1), ("slow", 0)),
    *(("begin", 1), ("pass", 5), ("list", 30), ("pass", 11)),
]


def test_who_has_a_share_already_keeps_its_name_when_it_receives_retries(app: Deployment) -> None:
    """A second row would take a share from it, until others see that the first one has ended."""
    app.subscribe(limits=RequestLimits(at_once=1))
    begin(app, app.deliver, range(1))

    begin(app, app.deliver, range(1, 2), Queue.RETRIES)
    app.loop.advance(6 * SECOND)
    begin(app, app.deliver, range(2, 3))

    assert len(app.resources.list(Table.TOPICS, PROCESSES)) == 1


@given(steps=st.lists(STEPS, max_size=30))
@example(steps=[*WAKE_TOGETHER, ("pass", 11)])
@example(steps=[*WAKE_ALONE])
@example(steps=OLD_ANSWER)
@example(steps=[("begin", 0), ("get", 3), ("begin", 1), ("pass", 11)])
@example(steps=[("begin", 0), ("put", 3), ("begin", 1), ("pass", 11)])
@example(steps=[("begin", 0), ("list", 1), ("begin", 1), ("pass", 11)])
def test_all_shares_together_never_exceed_a_limit(steps: list[tuple[str, int]]) -> None:
    """Whoever begins, falls silent, is killed or lacks storage, and whatever clocks say."""
    alive = Alive()
    for what, value in steps:
        seconds = value if what == "pass" else 1
        if what != "pass":
            alive.do(what, value)
        for _ in range(seconds):
            assert sum(alive.loop.run(alive.shares())) <= LIMIT
            alive.loop.settle()
            assert sum(alive.loop.run(alive.shares())) <= LIMIT
            alive.loop.advance(SECOND)
    alive.loop.end()


def test_whoever_has_storage_has_its_share_in_the_end_until_it_is_killed() -> None:
    """Whatever its clock does; what one has left is used by the others half a minute later."""
    alive = Alive()
    for number in range(3):
        alive.do("begin", number)
    found = []
    for seconds, then in ((11, "kill"), (29, "jump"), (11, "jump"), (11, "jump")):
        for _ in range(seconds):
            alive.loop.run(alive.shares())
            alive.loop.advance(SECOND)
        found.append(sorted(alive.loop.run(alive.shares())))
        alive.do(then, 3600)

    assert found == [[3, 3, 4], [3, 3], [5, 5], [5, 5]]
    alive.loop.end()


def test_without_limits_storage_is_not_asked_about_processes(
    app: Deployment, logged: Logged
) -> None:
    app.subscribe()
    for each in ("get", "put", "list", "delete"):
        app.resources.fail_next(each, 1000)

    begin(app, app.deliver, range(3))
    app.loop.advance(30 * SECOND)

    assert (pushed(app), logged("limits.unshared")) == (3, [])
