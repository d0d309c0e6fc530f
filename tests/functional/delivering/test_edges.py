"""Edges of delivering, where faults, pauses, budgets, shortages and ends meet."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from pushgrid.testing.memory import START, answered
from shared.delivery.delivery import LastAttempt
from shared.delivery.messages.message import MessagePart
from shared.delivery.messages.message_writer import encode_together
from shared.delivery.outcome import Outcome
from shared.delivery.pace import Speed
from shared.engine.delivering.deliver import AT_A_TURN
from shared.engine.delivering.endpoint import Endpoint
from shared.engine.delivering.endpoints import BLOB
from shared.engine.delivering.in_hand import PushRequest
from shared.engine.delivering.judge import PartJudge
from shared.engine.ports import Queue
from shared.engine.ports.settling import Answer
from shared.http import Failure, NotAnswered
from shared.settings import AttemptLogging
from shared.subscriptions.subscription import Pause, RetryPolicy, SubscriptionKey
from tests.builders import DEAD, MESSAGE_SIZE, ORIGIN, PARKED, URL, a_delivery, a_message, encode
from tests.functional.delivering.failing import (
    TIMEOUT,
    break_pushes,
    fail,
    fan_out,
    groups,
    is_of,
    pushed,
    requests,
    subscribe,
    url,
)
from tests.functional.delivering.test_settling import Settling, deliver, hear
from tests.functional.deployment import MINUTE, SECOND, Deployment, Logged, known

OLD = ORIGIN._replace(published_at=START - timedelta(days=2))
PAUSE = Pause(START, "the admin key")


class Patient(Settling):
    """Settling that hears what comes again."""

    def comes_again(self, keys: Iterable[SubscriptionKey]) -> None:
        del keys


def test_of_a_part_with_an_internal_error_nothing_more_is_pushed(app: Deployment) -> None:
    """All of it comes again, once; what began in the turn of the error has begun."""
    app.limit_pushes(1)
    subscribe(app, "bad", "good")
    break_pushes(app, RuntimeError("a bug"), is_of("bad"))

    task = app.begin(fan_out("bad", "good", events=8))
    app.loop.advance(2 * SECOND)

    assert task.exception() is None
    assert [sent.request.url for sent in app.pusher.sent].count(url("bad")) <= 2
    assert groups(app) == [[*range(8)]]


def test_a_part_with_an_internal_error_is_settled_once_when_it_comes_again(
    app: Deployment,
) -> None:
    """Before that a store would end it, and its event were lost if it stopped there."""
    subscribe(app, "bad", "good")
    break_pushes(app, RuntimeError("a bug"), is_of("bad"))
    settling = Patient()

    task = deliver(app, fan_out("bad", "good"), settling)
    app.loop.advance(2 * SECOND)

    assert task.exception() is None
    assert sorted(settling.wholes) == ["bad", "good"]
    found = [each for call in settling.calls for each in call if each.part.subscription == "bad"]
    assert [len(each.follow_ups) for each in found] == [1]


def test_a_part_is_whole_at_last_although_nothing_follows_its_last_event(app: Deployment) -> None:
    subscription = app.subscribe()
    app.pusher.script(subscription.endpoint_url, answered(503), answered(200))
    held, settling = app.hold('"e-1"'), Settling()

    deliver(app, encode(a_message([a_delivery(0), a_delivery(1)]))[0], settling)
    app.loop.advance(2 * SECOND)
    held.let_go()
    app.loop.advance(2 * SECOND)

    assert [each.is_whole for call in settling.calls for each in call] == [False, True]


def test_another_process_s_part_may_have_nothing_to_push(app: Deployment) -> None:
    app.subscribe()

    message = a_message([a_delivery(origin=OLD)])
    task = deliver(app, encode(message)[0], Settling({"crm": Answer.NOT_OURS}))

    assert task.exception() is None


def test_of_a_cancelled_invocation_no_part_is_pushed(app: Deployment) -> None:
    app.limit_pushes(1)
    subscribe(app, "one", "other")
    held = app.hold("e-0")
    app.begin(fan_out("one", "other"))
    waiting = app.begin(
        "".join(
            text
            for _, text in encode_together(
                [a_message([a_delivery(1)], subscription=name) for name in ("one", "other")],
                MESSAGE_SIZE,
            )
        )
    )

    waiting.cancel()
    held.let_go()
    app.loop.advance(SECOND)

    assert requests(app) == [[0], [0]]


def test_a_blob_of_several_is_due_when_the_last_of_them_is(app: Deployment) -> None:
    app.subscribe(
        dead_letter=DEAD,
        retry_policy=RetryPolicy(max_delivery_attempts=None, event_time_to_live_minutes=60),
    )
    lasts = [LastAttempt(Outcome.BUSY, 503, START - each * MINUTE) for each in (0, 4)]
    tried = [a_delivery(n, origin=OLD, attempts=2, last=last) for n, last in enumerate(lasts)]

    app.run(a_message(tried))

    assert app.waiting(Queue.DEADLETTERS) == [(5 * MINUTE, [0, 1])]


def test_what_met_a_shortage_does_not_come_back_together(app: Deployment) -> None:
    app.subscribe()
    app.pusher.script(URL, NotAnswered(Failure.SHORTAGE, "Too many open files", 0.0))

    for jitter in (0.0, 0.5, 1.0):
        app.deliver = replace(app.deliver, jitter=partial(float, jitter))
        app.run(a_message())

    waits = [message.due - START for message in app.on(Queue.RETRIES) if message.due]
    assert waits == [5 * SECOND, 10 * SECOND, 15 * SECOND]


@pytest.mark.parametrize("status", [400, 413])
def test_an_event_at_fault_itself_costs_its_endpoint_no_place(app: Deployment, status: int) -> None:
    subscription = app.subscribe()
    app.pusher.script(URL, answered(status))
    limit = app.deliver.endpoints.of(subscription).limit

    app.run(a_message())

    assert app.deliver.endpoints.of(subscription).limit == limit


def test_successes_count_as_what_the_endpoint_takes(app: Deployment) -> None:
    """What is requeued comes back at that pace, not one event in each 10 s of a push."""
    app.subscribe()
    app.pusher.takes = 10 * SECOND
    app.run(a_message([a_delivery(number) for number in range(16)]))
    (endpoint,) = known(app.deliver.endpoints)

    async def book() -> Any:
        return endpoint.book_return([None])

    first, second = (app.loop.run(book()) for _ in range(2))

    assert second - first < SECOND


def test_a_pause_that_begins_while_a_probe_is_claimed_lets_nothing_be_pushed(
    app: Deployment,
) -> None:
    subscription = app.subscribe()
    fail(app)
    app.clock.advance(10 * SECOND)
    endpoint = app.deliver.endpoints.of(subscription)
    off_loop = endpoint.health.off_loop

    async def pause(call: Any) -> Any:
        app.directory.add(replace(subscription, pause=PAUSE))
        endpoint.subscription = app.directory.known[subscription.key.folded]  # as a look finds
        return await off_loop(call)

    endpoint.health.off_loop = pause
    app.begin(a_message([a_delivery(1)]))
    app.loop.advance(2 * SECOND)

    assert pushed(app) == 0


def test_when_the_host_stops_all_of_a_line_is_due_now(app: Deployment) -> None:
    """None is paced: other processes push it."""
    app.limit_pushes(1)
    app.subscribe()
    held = app.hold("e-0")
    for number in range(16):
        app.begin(a_message([a_delivery(number)]))

    app.loop.call_soon(app.deliver.endpoints.stop)
    app.loop.advance(2 * SECOND)
    held.let_go()
    app.loop.settle()

    assert {message.due for message in app.on(Queue.RETRIES)} == {START}


def test_a_pause_is_noticed_however_long_a_line_has_waited(app: Deployment) -> None:
    app.limit_pushes(1)
    subscription = app.subscribe()
    app.hold("e-0")
    app.begin(a_message([a_delivery(0), a_delivery(1)]))
    app.loop.advance(5 * SECOND)
    assert groups(app) == []

    app.directory.add(replace(subscription, pause=PAUSE))
    app.loop.advance(5 * SECOND)

    assert groups(app) == [[1]]


def test_a_row_is_written_once(app: Deployment) -> None:
    """However often something more of its message is stored."""
    app.keep_attempts(AttemptLogging.FAILURES)
    app.subscribe()
    app.pusher.script(URL, answered(503))
    held = app.hold('"e-1"')
    app.begin(a_message([a_delivery(0), a_delivery(1)]))
    app.loop.advance(2 * SECOND)
    held.let_go()

    app.loop.advance(2 * SECOND)

    assert app.attempts.writes == [1, 1]


def test_a_drop_names_the_subscription_that_was_re_read(app: Deployment) -> None:
    """A store with transactions compares it: of another one nothing would ever be settled."""
    subscription = app.subscribe(expires_at=START - SECOND)
    settling = Settling()

    deliver(app, encode(a_message())[0], settling)

    ((settled,),) = settling.calls
    assert settled.subscription == subscription


def test_a_part_that_can_t_be_judged_comes_back_alone(
    app: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a bug of ours: no event is lost, and no other part repeats."""
    subscribe(app, "bad", "good")
    from_cache = PartJudge.from_cache

    def judge(self: PartJudge, part: MessagePart) -> Any:
        if part.subscription == "bad":
            raise RuntimeError("a bug")
        return from_cache(self, part)

    monkeypatch.setattr(PartJudge, "from_cache", judge)

    app.work(fan_out("bad", "good"))

    assert [each.subscription for each in app.on(Queue.RETRIES)] == ["bad"]
    assert app.waiting(Queue.RETRIES) == [(MINUTE, [0])]


def test_a_fault_of_settling_what_is_not_judged_ends_its_message(app: Deployment) -> None:
    """It raises, and so is repeated; else it would be in hand for ever."""
    subscribe(app, "gone")
    del app.directory.known[SubscriptionKey("orders", "gone")]
    del app.directory.stored[SubscriptionKey("orders", "gone")]

    class Broken(Patient):
        async def settle(self, *_: object) -> Any:
            raise ValueError("a part is settled that is not open")

    task = deliver(app, fan_out("gone"), Broken())

    assert isinstance(task.exception(), ValueError)


def test_what_is_stored_apart_keeps_no_message_in_hand(app: Deployment) -> None:
    subscribe(app, "bad", "good")
    break_pushes(app, RuntimeError("a bug"), is_of("bad"))
    app.queues.fail_next("put", 1000)

    task = app.begin(fan_out("bad", "good"))

    assert isinstance(task.exception(), RuntimeError)
    assert app.slept == []


def test_a_late_success_in_a_message_that_comes_again_for_another_part_cancels_nothing(
    app: Deployment, logged: Logged
) -> None:
    """It is pushed again, whatever was taken back."""
    subscribe(app, "bad", "late")
    app.pusher.script(url("late"), TIMEOUT)
    held = app.hold("bad")
    break_pushes(app, RuntimeError("a bug"), is_of("bad"))
    task = app.begin(fan_out("bad", "late"))
    app.loop.advance(2 * SECOND)
    app.queues.fail_next("put", 1000)
    held.let_go()
    app.loop.advance(SECOND)
    assert isinstance(task.exception(), RuntimeError)

    (late,) = (each.late for each in app.pusher.sent if each.request.url == url("late"))
    assert late
    app.loop.call_soon(late.report, answered(200, seconds=35))
    app.loop.settle()

    assert [line["cancelled"] for line in logged("delivery.answered_late")] == [False]


def test_messages_that_are_cancelled_keep_no_others_from_their_turn(app: Deployment) -> None:
    app.subscribe()
    tasks = [
        app.loop.create_task(app.deliver.run(text.encode(), Queue.DELIVERIES))
        for number in range(8 * AT_A_TURN)
        for text in encode(a_message([a_delivery(number)]))
    ]

    async def cancel() -> None:
        await asyncio.sleep(0)  # They wait by now, but for the first ones.
        for each in tasks[: 3 * AT_A_TURN]:
            each.cancel()

    app.loop.run(cancel())
    app.loop.advance(SECOND)

    assert all(each.done() for each in tasks)
    assert sum(not each.cancelled() for each in tasks) == 5 * AT_A_TURN


def test_a_subscription_that_is_deleted_while_its_events_wait_fails_nothing(
    app: Deployment, logged: Logged
) -> None:
    """What waits in line is pushed as before; what comes yet is dropped."""
    app.limit_pushes(1)
    subscription = app.subscribe()
    held = app.hold("e-0")
    task = app.begin(a_message([a_delivery(0), a_delivery(1)]))
    del app.directory.known[subscription.key], app.directory.stored[subscription.key]

    app.loop.advance(2 * SECOND)
    held.let_go()
    app.loop.settle()

    assert task.exception() is None
    assert requests(app) == [[0], [1]]
    assert logged("endpoint.failed") == []


def lane(app: Deployment, name: str, speed: Speed) -> Endpoint:
    """Subscribe; return the endpoint, which is as fast as that."""
    subscribe(app, name)
    endpoint = app.deliver.endpoints.of(app.directory.known[SubscriptionKey("orders", name)])
    endpoint.speed = speed
    return endpoint


def test_no_first_push_begins_beyond_the_budget(app: Deployment) -> None:
    """The process has no more descriptors, whoever uses them."""
    budget = app.deliver.endpoints.scheduler.budget
    budget.pushes = 8
    endpoint = lane(app, "new", Speed.UNKNOWN)

    budget.count(Speed.QUICK, 8)
    assert not budget.may_push(endpoint)
    budget.free(Speed.QUICK)
    assert budget.may_push(endpoint)


@pytest.mark.parametrize(
    ("speed", "waits"), [(Speed.QUICK, 59), (Speed.UNKNOWN, 0.9), (Speed.SLOW, 0)]
)
def test_a_message_waits_for_memory_as_its_quickest_endpoint_may(
    app: Deployment, speed: Speed, waits: float
) -> None:
    """Then it comes back, and not at once."""
    memory = app.deliver.endpoints.memory
    memory.bytes = 1  # of one message alone
    lane(app, "quickest", speed), lane(app, "slow", Speed.SLOW)

    async def take() -> None:
        async with memory.take(1, speed):
            await asyncio.Event().wait()

    other = app.loop.create_task(take())
    task = app.begin(fan_out("slow", "quickest"))
    app.loop.advance(waits * SECOND)
    assert task.done() is not bool(waits)
    app.loop.advance(2 * SECOND)
    other.cancel()

    assert task.done()
    dues = [each.due for each in app.on(Queue.RETRIES)]
    assert len(dues) == 2
    assert all(due and due > START + waits * SECOND for due in dues)


def test_events_in_a_blob_count_as_memory_before_they_are_read(app: Deployment) -> None:
    app.subscribe()
    app.hold("e-0")
    app.payloads.blobs[str(PARKED.payload)] = (a_delivery().event,)

    app.begin(a_message([a_delivery(text=None, origin=PARKED)]))

    assert f"budget: bytes of events {BLOB}" in app.leftovers()
    assert "queue deliveries: messages in hand 1" in app.leftovers()


def test_a_corrected_endpoint_is_forgotten_when_it_is_idle(app: Deployment) -> None:
    app.subscribe()
    app.run(a_message())
    app.subscribe(endpoint_url="https://new.example/")
    app.run(a_message([a_delivery(1)]))

    assert list(app.deliver.endpoints.all) == [*known(app.deliver.endpoints)]


def test_no_end_is_confirmed_of_a_subscription_that_is_deleted(app: Deployment) -> None:
    """Its events leave nothing: no dead letters in a container of an account that was given up."""
    subscription = app.subscribe(dead_letter=DEAD)
    app.pusher.script(URL, answered(400))
    del app.directory.stored[subscription.key.folded]

    app.run(a_message())

    assert app.waiting(Queue.DEADLETTERS) == []
    assert app.waiting(Queue.RETRIES) == [(10 * SECOND, [0])]


@pytest.mark.parametrize("turns", [2, 4, 6])
def test_of_a_cancelled_message_whose_parts_enter_nothing_is_pushed_after_its_end(
    app: Deployment, monkeypatch: pytest.MonkeyPatch, turns: int
) -> None:
    """Also where it is known how its endpoints are, and so nothing is waited for."""

    async def is_known(*_: object) -> None:
        pass

    monkeypatch.setattr(app.health, "ready", is_known)
    names = [f"crm-{number}" for number in range(6 * AT_A_TURN)]
    subscribe(app, *names)
    task = app.loop.create_task(app.deliver.run(fan_out(*names).encode(), Queue.DELIVERIES))

    async def cancel() -> int:
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        return pushed(app)

    before = app.loop.run(cancel())
    app.loop.settle()

    assert task.cancelled()
    assert pushed(app) == before


def is_of_event_1(request: PushRequest) -> bool:
    return is_of("bad")(request) and request.batch[0].position == 1


@pytest.mark.parametrize("status", [503, 413], ids=["retried", "dead-lettered"])
def test_of_a_part_with_an_internal_error_each_event_comes_again_once(
    app: Deployment, status: int
) -> None:
    """Also one whose retry or end was decided before: it has not ended, and nobody hears so."""
    subscribe(app, "bad", "good", dead_letter=DEAD)
    app.pusher.script(url("bad"), answered(status))
    break_pushes(app, RuntimeError("a bug"), is_of_event_1)
    ends = hear(app)

    app.begin(fan_out("bad", "good", events=2))
    app.loop.advance(2 * SECOND)

    assert groups(app) == [[0, 1]]
    assert (groups(app, Queue.DEADLETTERS), ends) == ([], [])
