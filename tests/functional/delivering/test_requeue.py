"""What is stored for later: on which queue, in how many messages, and what failing puts cost."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from pushgrid.testing.memory import START
from shared.delivery.messages.message import MessagePart
from shared.engine.keeping.requeue import Queued, shrink
from shared.engine.ports import Queue
from shared.errors import StorageUnavailable, Unstorable
from tests.builders import a_delivery, a_message, noise
from tests.functional.deployment import MINUTE, SECOND, Deployment

TOO_LARGE = "x" * (64 * 1024 + 1)


def at_due(app: Deployment, *parts: MessagePart, **options: Any) -> list[Queued]:
    return app.loop.run(app.deliver.requeue.at_due(*parts, **options))


def of_three(**members: object) -> list[MessagePart]:
    """Return parts of three subscriptions, of two deliveries each."""
    deliveries = [a_delivery(0), a_delivery(1)]
    return [a_message(deliveries, subscription=name, **members) for name in ("a", "b", "c")]


@pytest.mark.parametrize(
    ("wait", "queue", "hidden"),
    [
        (-MINUTE, Queue.RETRIES, timedelta()),
        (10 * MINUTE, Queue.RETRIES, 10 * MINUTE),
        (11 * MINUTE, Queue.WAITING, 10 * MINUTE),
    ],
    ids=["late", "short", "long"],
)
def test_what_is_due_together_is_one_message(
    app: Deployment, wait: timedelta, queue: Queue, hidden: timedelta
) -> None:
    parts = of_three(due=START + wait)

    (queued,) = at_due(app, *parts)

    assert app.queues.waits(queue) == [hidden]
    assert sorted(each.subscription for each in app.on(queue)) == ["a", "b", "c"]
    assert queued.queue == queue
    assert queued.visible_at == app.loop.time() + hidden.total_seconds()
    assert {part.subscription for part in queued.parts} == {"a", "b", "c"}


def test_what_does_not_fit_is_put_side_by_side(app: Deployment) -> None:
    large = [a_delivery(number, text=noise(30_000, number)) for number in range(3)]

    stored = at_due(app, a_message(large, due=START + MINUTE))

    assert [len(queued.parts[0].deliveries) for queued in stored] == [1, 1, 1]


def test_only_a_put_that_failed_is_repeated(app: Deployment) -> None:
    large = [a_delivery(number, text=noise(30_000, number)) for number in range(3)]
    app.queues.fail_next("put", times=2)

    stored = at_due(app, a_message(large, due=START + MINUTE))

    assert (len(stored), len(app.on(Queue.RETRIES))) == (3, 3)
    assert [each.key for queued in stored for each in queued.parts[0].deliveries] == [
        each.key for each in large
    ]
    assert app.slept == [0.2]


def test_puts_are_repeated_for_two_minutes_and_no_longer(app: Deployment) -> None:
    app.queues.fail_next("put", times=1000)

    with pytest.raises(StorageUnavailable):
        at_due(app, a_message())

    assert 2 * MINUTE <= app.clock.now() - START <= 2 * MINUTE + 10 * SECOND
    assert app.slept[:7] == [0.2, 0.5, 1, 2, 5, 10, 10]


def test_without_patience_a_put_is_tried_once(app: Deployment) -> None:
    app.queues.fail_next("put")

    with pytest.raises(StorageUnavailable):
        at_due(app, a_message(), repeat_for=timedelta())

    assert app.slept == []


def test_what_is_too_large_is_refused_at_once(app: Deployment) -> None:
    with pytest.raises(Unstorable):
        app.loop.run(app.deliver.requeue.put(Queue.RETRIES, TOO_LARGE, timedelta()))

    assert app.slept == []


def test_what_was_received_is_not_changed(app: Deployment) -> None:
    (queued,) = at_due(app, *of_three())
    app.queues.receive(Queue.RETRIES, MINUTE)

    sender = app.deliver.requeue.sender
    assert app.loop.run(shrink(queued, queued.parts[:1], sender)) is None
    assert app.loop.run(shrink(queued, [], sender)) is None
    assert len(app.on(Queue.RETRIES)) == 3
