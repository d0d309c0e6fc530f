"""What an endpoint gets, in which order, and how it ends: in driven time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from pushgrid.testing.memory import answered
from shared.delivery.gate import Availability
from shared.delivery.messages.message import MessagePart
from shared.delivery.messages.message_writer import encode_together
from shared.delivery.pace import FIRST, Limit, Speed
from shared.engine.delivering import endpoints as endpoints_module
from shared.engine.delivering.deliver import AT_A_TURN
from shared.engine.delivering.endpoint import TICK, Endpoint
from shared.engine.delivering.endpoints import Memory
from shared.engine.delivering.in_hand import Part, PushRequest
from shared.engine.delivering.judge import PartJudge
from shared.engine.delivering.scheduler import BEGUN_A_TURN
from shared.engine.delivering.shared_health import SharedHealth
from shared.engine.ports import Queue
from shared.engine.ports.settling import Settlement
from shared.subscriptions.destination import WebHook
from shared.subscriptions.subscription import Batching
from shared.telemetry import LogLine, lines_to
from tests.builders import MESSAGE_SIZE, URL, a_delivery, a_message, a_topic, encode
from tests.functional.delivering.failing import break_pushes, requests, subscribe
from tests.functional.deployment import MINUTE, SECOND, Deployment, Logged, is_idle, known

TEN = Batching(max_events=10)


@pytest.fixture(autouse=True)
def _nothing_is_left(app: Deployment) -> Iterator[None]:
    """At the end nothing is under way, waits, or is counted anywhere."""
    yield
    app.loop.advance(2 * MINUTE)
    assert all(each.is_idle for each in known(app.deliver.endpoints))
    assert is_idle(app.deliver.endpoints)
    for places in app.deliver.in_hand.values():
        assert not places.messages


def a_part(*events: int, name: str = "crm", batch_size: int = 1) -> MessagePart:
    return a_message([a_delivery(n) for n in events], subscription=name, batch_size=batch_size)


def endpoint_of(app: Deployment, name: str = "crm") -> Endpoint:
    found = next(each for key, each in app.directory.known.items() if key.subscription == name)
    return app.deliver.endpoints.of(found)


@pytest.mark.parametrize("batching", [Batching(), TEN], ids=["alone", "batches"])
def test_every_delivery_is_pushed_once(app: Deployment, batching: Batching) -> None:
    """Many messages for three endpoints at a time, whose pushes take their time."""
    app.limit_pushes(3)
    names = ("one", "two", "three")
    subscribe(app, *names, batching=batching)
    app.pusher.takes = SECOND / 10
    tasks = [
        app.begin(a_part(*range(50 * number, 50 * number + 50), name=names[number % 3]))
        for number in range(24)
    ]

    app.loop.advance(MINUTE)

    assert all(each.done() for each in tasks)
    assert sorted(n for request in requests(app) for n in request) == list(range(1200))
    assert app.all_stored() == {}


def test_a_place_that_is_earned_is_used_at_once(app: Deployment) -> None:
    app.subscribe()
    app.deliver = app.new_process(limit=Limit(1))
    held = app.hold("e-0", "e-1", "e-2")
    app.begin(a_part(0, 1, 2))
    assert held.held == ["e-0"]

    held.let_go("e-0")
    app.loop.settle()

    assert held.held == ["e-1", "e-2"]
    held.let_go()


def test_the_limit_grows_to_the_last_of_a_burst(app: Deployment) -> None:
    """The next burst of as many finds room for all at once."""
    app.subscribe()
    app.pusher.takes = SECOND

    for number in range(4):
        app.begin(a_part(*range(50 * number, 50 * number + 50)))
    app.loop.advance(MINUTE)

    assert endpoint_of(app).limit.value == FIRST + 200  # one more for each success


def test_a_push_that_ends_while_half_of_the_limit_is_used_raises_it(app: Deployment) -> None:
    """When it began, less was used."""
    app.subscribe()
    app.deliver = app.new_process(limit=Limit(4))
    held = app.hold("e-0", "e-1")
    app.begin(a_part(0, 1))

    held.let_go("e-0")
    app.loop.settle()

    assert endpoint_of(app).limit.value == 5
    held.let_go()


def test_an_endpoint_that_is_never_busy_keeps_its_first_limit(app: Deployment) -> None:
    app.subscribe()

    for number in range(20):
        app.run(a_part(number))

    assert endpoint_of(app).limit.value == FIRST


def test_of_large_messages_a_few_parts_enter_at_a_time(
    app: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hundreds come back together after a hold: others of the loop have their turn in between."""
    names = [f"crm-{number}" for number in range(40)]
    subscribe(app, *names)
    turns: Counter[int] = Counter()
    turn, judge = 0, PartJudge.from_cache

    def from_cache(parts: PartJudge, message: MessagePart) -> Part | Settlement | None:
        turns[turn] += 1
        return judge(parts, message)

    async def count() -> None:
        nonlocal turn
        while turns.total() < 80:
            turn += 1
            await asyncio.sleep(0)

    monkeypatch.setattr(PartJudge, "from_cache", from_cache)
    ((_, text),) = encode_together([a_part(0, name=name) for name in names], MESSAGE_SIZE)
    for _ in range(2):
        app.loop.create_task(app.deliver.run(text.encode(), Queue.RETRIES))
    app.loop.run(count())
    app.loop.settle()

    assert max(turns.values()) <= AT_A_TURN
    assert len(requests(app)) == 80


def test_a_message_does_not_wait_for_the_push_of_another(app: Deployment) -> None:
    """Nor do those of a batching subscription, as long as its limit has room."""
    app.subscribe(batching=TEN)
    held = app.hold("e-")

    for number in range(4):
        app.begin(a_part(number, batch_size=10))

    assert len(held.held) == 4
    held.let_go()


def test_endpoints_that_wait_for_the_budget_get_it_in_turn(app: Deployment) -> None:
    """Only one push at a time is for endpoints of which nothing is known."""
    names = [f"crm-{number}" for number in range(5)]
    subscribe(app, *names)
    app.deliver.endpoints.scheduler.budget.pushes = 2
    held = app.hold("e-0")
    for number, name in enumerate(names):
        app.begin(a_part(number, name=name))
    assert held.held == ["e-0"]

    held.let_go()
    app.loop.settle()

    assert requests(app) == [[0], [1], [2], [3], [4]]


def test_an_endpoint_whose_line_never_ends_gives_way_to_others(app: Deployment) -> None:
    """The budget is used up; what comes free goes to the one that has nothing under way."""
    subscribe(app, "one", "two", "other")
    for name in ("one", "two", "other"):
        app.run(a_part(100, name=name))  # they are quick
    app.pusher.sent.clear()
    app.deliver.endpoints.scheduler.budget.pushes = 8
    held = app.hold(*(f'"e-{number}"' for number in range(40)), '"e-99"')
    app.begin(a_part(*range(20), name="one"))
    app.begin(a_part(*range(20, 40), name="two"))
    app.begin(a_part(99, name="other"))
    assert (len(held.held), '"e-99"' in held.held) == (8, False)

    held.let_go('"e-0"')
    app.loop.settle()

    assert held.held[-1] == '"e-99"'
    held.let_go()


def test_a_slow_endpoint_that_waits_keeps_no_unknown_one_from_its_first_push(
    app: Deployment,
) -> None:
    """Slow ones have half of the budget, and the first of an unknown one the next quarter."""
    subscribe(app, "slow", *(f"new-{number}" for number in range(7)))
    app.pusher.takes = 2 * SECOND
    app.run(a_part(100, name="slow"))
    app.pusher.takes = 0 * SECOND
    app.deliver.endpoints.scheduler.budget.pushes = 8
    held = app.hold(*(f'"e-{number}"' for number in range(8)))
    for number in range(6):
        app.begin(a_part(number, name=f"new-{number}"))
    app.begin(a_part(7, name="slow"))
    app.begin(a_part(6, name="new-6"))
    assert held.held == [f'"e-{number}"' for number in range(6)]

    held.let_go('"e-0"')
    app.loop.settle()

    assert held.held[-1] == '"e-6"'
    held.let_go()


def test_what_quick_endpoints_use_keeps_no_slow_one_waiting(app: Deployment) -> None:
    """Half of the budget is for the slow ones together, whatever the quick ones have."""
    subscribe(app, "quick", "slow")
    app.run(a_part(100, name="quick"))
    app.pusher.takes = 2 * SECOND
    app.run(a_part(100, name="slow"))
    app.pusher.takes = 0 * SECOND
    app.deliver.endpoints.scheduler.budget.pushes = 8
    held = app.hold(*(f'"e-{number}"' for number in range(6)))

    app.begin(a_part(*range(5), name="quick"))
    app.begin(a_part(5, name="slow"))

    assert held.held == [f'"e-{number}"' for number in range(6)]
    held.let_go()


def has_event_1(request: PushRequest) -> bool:
    return any(loaded.position == 1 for loaded in request.batch)


@pytest.mark.parametrize(
    "error", [ValueError("no"), IndexError("no"), asyncio.CancelledError()], ids=repr
)
def test_what_a_push_raises_reaches_the_messages_of_its_request(
    app: Deployment, error: BaseException
) -> None:
    """Three messages, requests of two events: the third has nothing to do with it."""
    app.limit_pushes(1)
    app.subscribe(batching=Batching(max_events=2))
    held = app.hold("e-9")
    break_pushes(app, error, has_event_1)
    first = app.begin(a_part(9, 8, batch_size=2))
    one, other, third = (app.begin(a_part(number, batch_size=2)) for number in (0, 1, 2))

    held.let_go()
    app.loop.settle()

    assert requests(app) == [[9, 8], [0, 1], [2]]
    for each in (first, third):
        assert each.exception() is None
    for each in (one, other):
        assert each.exception() is not None
    assert app.all_stored() == {}


def test_an_internal_error_says_nothing_about_the_endpoint(app: Deployment) -> None:
    app.subscribe()
    endpoint = endpoint_of(app)
    health, limit = endpoint.health.health, endpoint.limit
    break_pushes(app, ValueError(), has_event_1)

    assert app.begin(a_part(1)).exception() is not None

    assert (endpoint.limit, endpoint.times.average) == (limit, None)
    assert endpoint.health.health == health


def test_a_fault_while_learning_from_a_push_keeps_nobody_waiting(
    app: Deployment, logged: Logged, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.subscribe()
    monkeypatch.setattr(type(endpoint_of(app).health), "observed", None)

    app.run(a_part(0, 1))

    assert requests(app) == [[0], [1]]
    assert len(logged("endpoint.failed")) == 2


def test_a_fault_while_looking_at_one_endpoint_keeps_no_other_waiting(
    app: Deployment, logged: Logged, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits there comes back, as what is not pushed in time."""
    subscribe(app, "one", "other")
    health = type(endpoint_of(app, "one").health)
    availability = health.availability

    def fail(self: SharedHealth, *args: Any) -> Availability:
        if self.key.subscription == "one":
            raise ValueError
        return availability(self, *args)

    monkeypatch.setattr(health, "availability", fail)
    broken, other = app.begin(a_part(0, name="one")), app.begin(a_part(1, name="other"))

    assert (broken.done(), other.done()) == (False, True)
    app.loop.advance(2 * MINUTE)
    assert broken.exception() is None
    assert uncounted(app) == [0]
    assert requests(app) == [[1]]
    assert logged("endpoint.failed")


def test_a_fault_while_looking_loses_no_end_of_a_push(
    app: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """16 pushes end in one turn; the first look after that fails."""
    subscribe(app, "one")
    app.pusher.takes = SECOND
    message = app.begin(a_part(*range(40), name="one"))
    app.loop.advance(SECOND / 2)
    health = type(endpoint_of(app, "one").health)
    availability, faults = health.availability, [ValueError()]

    def fail_once(self: SharedHealth, *args: Any) -> Availability:
        if faults:
            raise faults.pop()
        return availability(self, *args)

    monkeypatch.setattr(health, "availability", fail_once)
    app.loop.advance(10 * SECOND)

    assert message.done()
    assert not faults
    assert app.leftovers() == []


def test_many_pushes_that_end_at_once_are_replaced_by_turns(app: Deployment) -> None:
    """What begins in one turn of the loop keeps others waiting."""
    subscribe(app, "one")
    held = app.hold("one")
    endpoint = endpoint_of(app, "one")
    endpoint.limit = endpoint.limit._replace(value=64)
    messages = [app.begin(a_part(*range(64), name="one")) for _ in range(14)]
    app.loop.settle()
    sent = [endpoint.under_way]

    async def watch() -> None:
        held.let_go()
        while not all(each.done() for each in messages):
            await asyncio.sleep(0)
            sent.append(max(len(app.pusher.sent), 64))

    app.loop.run(watch())

    assert (sent[0], sent[-1]) == (64, 14 * 64)
    assert max(after - before for before, after in pairwise(sent)) <= BEGUN_A_TURN


def test_nothing_is_kept_of_what_has_ended_while_the_line_never_ends(app: Deployment) -> None:
    """Under load an endpoint never comes to rest: memory would grow as long as that lasts."""
    app.subscribe()
    app.run(a_part(999))
    held, endpoint = app.hold('"e-'), endpoint_of(app)
    endpoint.limit = endpoint.limit._replace(value=64)
    several = [a_part(*range(64 * number, 64 * number + 64)) for number in range(6)]
    messages = [app.begin(each) for each in several[:2]]
    kept = []

    async def watch() -> None:
        held.let_go()
        for each in several[2:]:
            body = "".join(encode(each)).encode()
            messages.append(app.loop.create_task(app.deliver.run(body, Queue.DELIVERIES)))
        while not all(each.done() for each in messages):
            await asyncio.sleep(0)
            kept.append({*endpoint._entered} - {*endpoint.parts})

    app.loop.run(watch())

    assert len(kept) > BEGUN_A_TURN
    assert not any(kept)


def test_a_push_is_made_outside_of_the_invocation_that_began_it(app: Deployment) -> None:
    """The host drops what is logged in the context of an invocation that has ended."""
    invocation: ContextVar[str] = ContextVar("invocation", default="none")
    found: list[str] = []

    def note(_: PushRequest) -> bool:
        found.append(invocation.get())
        return False

    app.subscribe()
    break_pushes(app, RuntimeError(), note)
    token = invocation.set("this one")
    app.run(a_part(0))
    invocation.reset(token)

    assert found == ["none"]


def test_an_invocation_that_is_cancelled_pushes_nothing_more(app: Deployment) -> None:
    """Another's event in the same request has its result all the same."""
    app.limit_pushes(1)
    app.directory.topics["orders"] = a_topic(profile="2020")
    app.subscribe(batching=Batching(max_events=2))
    held = app.hold("e-9")
    first = app.begin(a_part(9, batch_size=2))
    cancelled, other = app.begin(a_part(0, 1, 2, batch_size=2)), app.begin(a_part(3, batch_size=2))
    held.let_go()
    again = app.hold("e-2")
    app.loop.settle()
    assert again.held == ["e-2"]

    cancelled.cancel()
    app.loop.settle()
    again.let_go()
    app.loop.settle()

    assert cancelled.cancelled()
    assert (first.exception(), other.exception()) == (None, None)
    assert requests(app) == [[9], [0, 1], [2, 3]]


def test_of_a_cancelled_invocation_that_waits_nothing_is_pushed(app: Deployment) -> None:
    app.limit_pushes(1)
    app.subscribe()
    held = app.hold("e-0")
    app.begin(a_part(0))
    waiting, other = app.begin(a_part(1)), app.begin(a_part(2))

    waiting.cancel()
    held.let_go()
    app.loop.settle()

    assert other.exception() is None
    assert requests(app) == [[0], [2]]


def test_of_a_message_that_is_cancelled_while_its_parts_enter_nothing_is_pushed(
    app: Deployment,
) -> None:
    """The second half of its parts has not been looked at yet."""
    names = [f"crm-{number}" for number in range(2 * AT_A_TURN)]
    subscribe(app, *names)
    ((_, text),) = encode_together([a_part(0, name=name) for name in names], MESSAGE_SIZE)
    task = app.loop.create_task(app.deliver.run(text.encode(), Queue.RETRIES))

    async def cancel() -> None:
        await asyncio.sleep(0)
        assert app.deliver.in_hand[Queue.RETRIES].messages
        task.cancel()

    app.loop.run(cancel())
    app.loop.settle()

    assert task.cancelled()
    assert requests(app) == []


def test_a_push_to_the_former_endpoint_says_nothing_about_the_corrected_one(
    app: Deployment,
) -> None:
    subscription = app.subscribe()
    app.pusher.script(URL, answered(503))
    held = app.hold(URL)
    task = app.begin(a_part(0))
    former = endpoint_of(app)
    app.directory.add(replace(subscription, destination=WebHook("https://crm.example/corrected")))
    corrected = endpoint_of(app)

    held.let_go()
    app.loop.advance(SECOND)

    assert task.done()
    assert former.health.health.hold is not None
    assert endpoint_of(app) is corrected
    assert corrected.health.health.hold is None


def test_idle_endpoints_are_forgotten_when_there_are_too_many(
    app: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert endpoints_module.MOST == 10_000
    monkeypatch.setattr(endpoints_module, "MOST", 3)
    subscribe(app, "busy", *(f"crm-{number}" for number in range(8)))
    held = app.hold("busy")
    task = app.begin(a_part(0, name="busy"))
    busy = endpoint_of(app, "busy")

    for number in range(8):
        app.run(a_part(number, name=f"crm-{number}"))

    assert len(known(app.deliver.endpoints)) == 3
    assert endpoint_of(app, "busy") is busy
    held.let_go()
    app.loop.settle()
    assert task.exception() is None


def test_when_all_known_endpoints_are_busy_another_is_known_all_the_same(
    app: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoints_module, "MOST", 1)
    subscribe(app, "busy", "other")
    held = app.hold("busy")
    app.begin(a_part(0, name="busy"))

    app.run(a_part(1, name="other"))

    assert requests(app) == [[1]]
    held.let_go()


def test_a_line_that_empties_as_it_is_looked_after(app: Deployment) -> None:
    """The push ends at the moment of the look, and takes the last from the line."""
    app.limit_pushes(1)
    app.subscribe()
    app.pusher.takes = 2 * TICK * SECOND

    app.run(a_part(0, 1))

    assert requests(app) == [[0], [1]]


def uncounted(app: Deployment) -> list[int]:
    """Return which deliveries were stored for later without an attempt."""
    found = [each for part in app.on(Queue.RETRIES) for each in part.deliveries]
    assert {each.attempts for each in found} <= {0}
    return [each.position for each in found]


def test_beyond_half_of_the_places_what_waits_for_a_slow_endpoint_goes_at_once(
    app: Deployment,
) -> None:
    """Its deliveries come back at the endpoint's pace, and others find a place."""
    app.limit_pushes(1)
    app.deliver.in_hand[Queue.DELIVERIES].most = 8
    subscribe(app, "slow", "other")
    held = app.hold("slow")
    tasks = [app.begin(a_part(0, name="slow"))]
    app.loop.advance(SECOND)  # it is known to be slow now

    tasks += [app.begin(a_part(number, name="slow")) for number in range(1, 8)]
    app.run(a_part(99, name="other"))

    assert [each.done() for each in tasks] == [False] * 4 + [True] * 4
    assert uncounted(app) == [4, 5, 6, 7]
    waits = app.queues.waits(Queue.RETRIES)
    assert waits == sorted(waits)
    assert waits[0] >= SECOND
    assert requests(app) == [[99]]
    held.let_go()
    app.loop.settle()
    assert all(each.exception() is None for each in tasks)
    assert sorted(requests(app)) == [[0], [1], [2], [3], [99]]


@pytest.mark.parametrize(("messages", "left"), [(6, 6), (7, 1)], ids=["enough", "few"])
def test_an_endpoint_that_turns_slow_gives_way_while_places_are_almost_gone(
    app: Deployment, messages: int, left: int
) -> None:
    app.limit_pushes(1)
    app.deliver.in_hand[Queue.DELIVERIES].most = 8
    app.subscribe()
    held = app.hold("e-0")
    tasks = [app.begin(a_part(number)) for number in range(messages)]
    assert not any(each.done() for each in tasks)

    app.loop.advance(SECOND)

    assert [each.done() for each in tasks] == [False] * left + [True] * (messages - left)
    assert sorted(uncounted(app)) == list(range(left, messages))
    held.let_go()
    app.loop.settle()
    assert requests(app) == [[number] for number in range(left)]


def test_when_the_host_stops_lines_go_back_at_once(app: Deployment) -> None:
    """What is under way may end; what comes yet, or waits for memory, is requeued, uncounted."""
    app.limit_pushes(1)
    app.subscribe()
    app.run(a_part(99))  # it is quick
    app.pusher.sent.clear()
    app.deliver.endpoints.memory.bytes = 1  # only one message has any
    held = app.hold("e-0")
    task, waiting = app.begin(a_part(0, 1, 2)), app.begin(a_part(4))
    assert not waiting.done()

    app.loop.call_soon(app.deliver.endpoints.stop)
    app.loop.advance(SECOND)
    assert sorted(uncounted(app)) == [1, 2, 4]
    assert (task.done(), waiting.done()) == (False, True)
    later = app.begin(a_part(3))
    assert later.done()
    held.let_go()
    app.loop.settle()

    assert task.exception() is None
    assert requests(app) == [[0]]
    assert sorted(uncounted(app)) == [1, 2, 3, 4]
    assert set(app.queues.waits(Queue.RETRIES)) == {0 * SECOND}


def test_events_wait_for_memory_in_the_order_of_their_messages() -> None:
    taken: list[str] = []

    async def hold(memory: Memory, name: str, size: int) -> None:
        async with memory.take(size, Speed.QUICK):
            taken.append(name)
            await asyncio.Event().wait()

    async def main() -> None:
        memory = Memory(bytes=10)
        tasks = {
            name: asyncio.create_task(hold(memory, name, size))
            for name, size in (("first", 6), ("large", 50), ("gone", 1), ("small", 4))
        }
        for ends, now_taken in (
            ("", ["first"]),  # a small message does not overtake a large one
            ("gone", ["first"]),
            ("first", ["first", "large"]),  # alone, it may be of any size
            ("large", ["first", "large", "small"]),
            ("small", ["first", "large", "small"]),
        ):
            if ends:
                tasks[ends].cancel()
            await settled()
            assert taken == now_taken
        assert not any(memory.unpacked.values())

    async def settled() -> None:
        for _ in range(10):
            await asyncio.sleep(0)

    asyncio.run(main())


def test_a_fault_of_the_log_stops_no_turn(app: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even what logs that an endpoint failed may raise, as on a full disk."""
    subscribe(app, "one", "other")
    health = type(endpoint_of(app, "one").health)
    availability, faults = health.availability, [ValueError()]

    def fail_once(self: SharedHealth, *args: Any) -> Availability:
        if faults:
            raise faults.pop()
        return availability(self, *args)

    def full_disk(line: LogLine) -> None:
        if line.event == "endpoint.failed":
            raise OSError

    monkeypatch.setattr(health, "availability", fail_once)
    monkeypatch.setattr(app.loop, "default_exception_handler", lambda _: None)
    with lines_to(full_disk):
        tasks = [app.begin(a_part(0, name=name)) for name in ("one", "other")]
        app.loop.advance(SECOND)

    assert [each.done() for each in tasks] == [True, True]
    assert len(requests(app)) == 2


def test_what_waits_for_a_former_endpoint_is_left_and_stops(app: Deployment) -> None:
    """Its subscription was corrected, and the corrected endpoint has a line of its own."""
    app.limit_pushes(1)
    subscription = app.subscribe()
    held = app.hold("e-")
    task = app.begin(a_part(*range(4)))
    app.directory.add(replace(subscription, destination=WebHook("https://crm.example/corrected")))
    endpoint_of(app)

    left = app.leftovers()
    app.loop.call_soon(app.deliver.endpoints.stop)
    app.loop.settle()
    under_way = app.leftovers()
    held.let_go()
    app.loop.settle()

    assert any("deliveries 4, pushes 1" in each for each in left)
    assert any("deliveries 1, pushes 1" in each for each in under_way)
    assert uncounted(app) == [1, 2, 3]
    assert task.done()
    assert app.leftovers() == []
