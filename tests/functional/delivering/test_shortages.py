"""A shortage of ours is nobody's attempt: what it keeps comes back soon, as it was."""

from __future__ import annotations

from datetime import timedelta

import pytest

from pushgrid.testing.memory import START, answered
from shared.delivery.profiles import PROFILES
from shared.engine.ports import Queue
from shared.http import Failure, NotAnswered
from shared.metrics import Metric
from shared.subscriptions.subscription import Batching
from tests.builders import DEAD, a_delivery, a_message
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
    assert (endpoint.health.health, endpoint.limit, endpoint.seconds) == (health, limit, None)
    assert app.on(Queue.DEADLETTERS) == []
    assert not app.metrics.of(Metric.ATTEMPT_FAIL)

    app.clock.advance(wait)
    app.run(message)

    assert len(app.metrics.of(Metric.DELIVERY_SUCCESS)) == 1


def test_a_batch_comes_back_whole(app: Deployment) -> None:
    subscription = app.subscribe(batching=Batching(max_events=3, preferred_kilobytes=64))
    app.pusher.script(subscription.endpoint_url, SHORTAGE)

    app.run(a_message([a_delivery(number) for number in range(3)], batch_size=3))

    (message,) = app.on(Queue.RETRIES)
    assert len(message.deliveries) == 3
    assert {each.attempts for each in message.deliveries} == {0}


def test_a_probe_that_could_not_be_made_is_made_by_another(app: Deployment) -> None:
    """The endpoint stays held, is not worse for it, and what waited behind comes back as well."""
    subscription = app.subscribe()
    app.pusher.script(subscription.endpoint_url, answered(503), SHORTAGE, answered(200))
    app.run(a_message([a_delivery(0)]))
    (held,) = app.on(Queue.RETRIES)
    failures = app.deliver.endpoints.of(subscription).health.health
    app.queues.stored.clear()
    app.clock.advance(timedelta(minutes=6))

    app.run(a_message([a_delivery(1), a_delivery(2)], due=app.clock.now()))

    assert len(app.pusher.sent) == 2
    (message,) = app.on(Queue.RETRIES)
    assert [each.attempts for each in message.deliveries] == [0, 0]
    assert app.deliver.endpoints.of(subscription).health.health.failures == failures.failures

    app.clock.advance(timedelta(minutes=1))
    app.run(held)

    assert len(app.pusher.sent) == 3
    assert len(app.metrics.of(Metric.DELIVERY_SUCCESS)) == 1


def test_it_is_told_once_a_minute(app: Deployment, logged: Logged) -> None:
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


def test_it_is_told_also_after_the_clock_was_set_back(app: Deployment, logged: Logged) -> None:
    subscription = app.subscribe()
    app.pusher.script(subscription.endpoint_url, *[SHORTAGE] * 2)
    for minutes in (360, -360):
        app.clock.jump(minutes * MINUTE)
        app.run(a_message([a_delivery(0)]))

    assert len(logged("delivery.shortage")) == 2


@pytest.mark.parametrize("fault", [MemoryError(), RuntimeError("can't start new thread")])
def test_having_no_memory_and_no_thread_is_one(app: Deployment, fault: Exception) -> None:
    class Full:
        async def send(self, *_: object) -> None:
            raise fault

    app.subscribe()
    app.push_with(Full())  # type: ignore[arg-type]

    app.run(a_message([a_delivery(0)]))

    (message,) = app.on(Queue.RETRIES)
    assert message.deliveries[0].attempts == 0


def test_a_probe_that_could_not_be_made_is_made_by_another_process(app: Deployment) -> None:
    subscription = app.subscribe()
    app.pusher.script(subscription.endpoint_url, answered(503), SHORTAGE, answered(200))
    app.run(a_message([a_delivery(0)]))
    app.clock.advance(10 * SECOND)
    app.run(a_message([a_delivery(1)]))
    app.deliver = app.new_process()

    app.run(a_message([a_delivery(2)]))

    assert len(app.pusher.sent) == 3
    assert len(app.metrics.of(Metric.DELIVERY_SUCCESS)) == 1
