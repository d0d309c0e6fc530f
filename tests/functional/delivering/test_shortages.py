"""Local shortages are nobody's attempt, and nothing waits for failing storage for long."""

from __future__ import annotations

import asyncio

import pytest

from pushgrid.testing.memory import START, answered
from pushgrid.testing.memory.pushing import Sent
from shared.delivery.profiles import PROFILES
from shared.engine.ports import Queue
from shared.errors import StorageUnavailable
from shared.http import Exchange, Failure, NotAnswered
from shared.metrics import Metric
from shared.subscriptions.subscription import Batching, EventSubscription, SubscriptionKey
from tests.builders import DEAD, a_delivery, a_message
from tests.functional.delivering.failing import answer_by, fan_out, subscribe, url
from tests.functional.deployment import MINUTE, SECOND, Deployment, Logged

SHORTAGE = NotAnswered(Failure.SHORTAGE, "Too many open files", 0.0)


@pytest.mark.parametrize("profile", PROFILES)
def test_no_edition_counts_it_as_an_attempt(app: Deployment, profile: str) -> None:
    """In profile ``ns`` a failed lookup or connection is final: the event would be gone."""
    app.set_terms(default_profile=profile)
    subscription = app.subscribe(dead_letter=DEAD)
    app.pusher.script(subscription.endpoint_url, SHORTAGE, answered(200))
    endpoint = app.deliver.endpoints.of(subscription)
    health, limit = endpoint.health.health, endpoint.limit

    app.run(a_message([a_delivery(0)]))

    (message,) = app.on(Queue.RETRIES)
    (wait,) = app.queues.waits(Queue.RETRIES)
    assert (message.deliveries[0].attempts, message.deliveries[0].last) == (0, None)
    assert 5 * SECOND <= wait <= 15 * SECOND
    assert (endpoint.health.health, endpoint.limit, endpoint.times.average) == (health, limit, None)
    assert app.on(Queue.DEADLETTERS) == []
    assert not app.metrics.of(Metric.ATTEMPT_FAIL)

    app.clock.advance(wait)
    app.run(message)

    assert len(app.metrics.of(Metric.DELIVERY_SUCCESS)) == 1


def test_a_batch_comes_back_whole(app: Deployment) -> None:
    """Its size is the subscription's, whatever it was when the event was published."""
    subscription = app.subscribe(batching=Batching(max_events=3, preferred_kilobytes=64))
    app.pusher.script(subscription.endpoint_url, SHORTAGE)

    app.run(a_message([a_delivery(number) for number in range(3)]))

    (message,) = app.on(Queue.RETRIES)
    assert (len(message.deliveries), message.batch_size) == (3, 3)
    assert {each.attempts for each in message.deliveries} == {0}


def test_it_is_logged_once_a_minute(app: Deployment, logged: Logged) -> None:
    subscription = app.subscribe()
    app.pusher.script(subscription.endpoint_url, *[SHORTAGE] * 6)
    for seconds in (0, 20, 39, 1, 59, 1):
        app.clock.advance(seconds * SECOND)
        app.run(a_message([a_delivery(0)]))

    assert app.clock.now() == START + 120 * SECOND
    lines = logged("delivery.shortage")
    assert [(line["count"], line["detail"]) for line in lines] == [
        (1, "Too many open files"),
        (3, "Too many open files"),
        (2, "Too many open files"),
    ]
    run = logged("delivery.run")[-1]
    assert (run["requeued"], run["requeue_reason"]) == (1, "a local shortage: Too many open files")


def test_it_is_logged_also_after_the_clock_was_set_back(app: Deployment, logged: Logged) -> None:
    subscription = app.subscribe()
    app.tell_time()
    app.pusher.script(subscription.endpoint_url, *[SHORTAGE] * 2)
    for minutes in (360, -360):
        app.clock.jump(minutes * MINUTE)
        app.clock.advance(MINUTE)
        app.run(a_message([a_delivery(0)]))

    assert len(logged("delivery.shortage")) == 2


@pytest.mark.parametrize("fault", [MemoryError(), RuntimeError("can't start new thread")])
def test_having_no_memory_and_no_thread_is_one(app: Deployment, fault: Exception) -> None:
    def fail(_: Sent) -> Exchange:
        raise fault

    app.subscribe()
    answer_by(app, fail)

    app.run(a_message([a_delivery(0)]))

    (message,) = app.on(Queue.RETRIES)
    assert message.deliveries[0].attempts == 0


def test_a_probe_that_could_not_be_made_is_made_by_another_process(app: Deployment) -> None:
    subscription = app.subscribe()
    app.pusher.script(subscription.endpoint_url, answered(503), SHORTAGE, answered(200))
    app.run(a_message([a_delivery(0)]))
    app.clock.advance(10 * SECOND)
    app.queues.stored.clear()
    app.run(a_message([a_delivery(1), a_delivery(2)]))
    app.deliver = app.new_process()

    assert [each.attempts for part in app.on(Queue.RETRIES) for each in part.deliveries] == [0, 0]
    app.run(a_message([a_delivery(2)]))

    assert len(app.pusher.sent) == 3
    assert len(app.metrics.of(Metric.DELIVERY_SUCCESS)) == 1


NAMES = [f"crm-{number}" for number in range(8)]


def test_however_much_a_message_stores_it_waits_for_failing_puts_once(app: Deployment) -> None:
    """Dead letters are messages of their own for each subscription; a function has ten minutes."""
    subscribe(app, *NAMES, dead_letter=DEAD)
    for name in NAMES:
        app.pusher.script(url(name), answered(400))
    app.queues.fail_next("put", 10_000)
    task = app.begin(fan_out(*NAMES))

    app.loop.advance(3 * MINUTE)

    assert task.done()
    assert isinstance(task.exception(), StorageUnavailable)


def test_no_line_is_waited_in_for_long_while_storage_hangs(app: Deployment) -> None:
    """Whether the subscription is paused is asked meanwhile, and once at a time."""
    app.limit_pushes(1)
    asked: list[EventSubscription] = []

    async def hang(subscription: EventSubscription) -> EventSubscription:
        asked.append(subscription)
        await asyncio.sleep(600)
        return subscription

    app.deliver.endpoints.scheduler.as_cached = hang
    app.subscribe()
    app.pusher.takes = 20 * SECOND
    task = app.begin(a_message([a_delivery(number) for number in range(32)]))

    app.loop.advance(2 * MINUTE)

    assert len(asked) == 1
    assert task.done()
    assert len(app.on(Queue.RETRIES)[0].deliveries) == 32 - 4


def test_parts_that_can_not_be_judged_come_back_as_one_message(app: Deployment) -> None:
    """Each is found to be so at a time of its own."""
    subscribe(app, *NAMES)

    def fail(key: SubscriptionKey) -> EventSubscription | None:
        del key
        app.clock.advance(SECOND / 1000)
        raise StorageUnavailable

    app.directory.subscription = fail  # type: ignore[method-assign]
    app.work(fan_out(*NAMES))

    assert app.all_stored() == {Queue.RETRIES: 1}
    assert len(app.on(Queue.RETRIES)) == len(NAMES)


def test_what_can_not_be_requeued_has_half_of_the_places(app: Deployment) -> None:
    """The others go at once, and the host repeats them."""
    app.subscribe()
    app.deliver.in_hand[Queue.DELIVERIES].most = 8
    app.directory.fail_next("subscription", 10_000)
    app.queues.fail_next("put", 10_000)

    tasks = [app.begin(a_message([a_delivery(number)])) for number in range(12)]
    app.loop.advance(SECOND)

    assert sum(not each.done() for each in tasks) == 4
    app.loop.advance(3 * MINUTE)
    assert all(isinstance(each.exception(), StorageUnavailable) for each in tasks)
