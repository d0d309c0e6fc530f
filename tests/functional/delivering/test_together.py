"""What fails together, or is held together, is stored as one message."""

from __future__ import annotations

from pushgrid.testing.memory import answered
from shared.engine.ports import Queue
from tests.builders import a_delivery, a_message
from tests.functional.deployment import MINUTE, Deployment
from tests.unit.delivery.messages.wire import read_parts, together

NAMES = [f"s-{number}" for number in range(40)]


def fan_out(app: Deployment) -> str:
    for name in NAMES:
        url = f"https://{name}.example/hook"
        app.subscribe(name=name, endpoint_url=url)
        app.pusher.script(url, answered(503), answered(200))
    return together(*[a_message([a_delivery()], subscription=name) for name in NAMES])


def test_subscriptions_that_fail_together_are_retried_in_one_message(app: Deployment) -> None:
    app.work(fan_out(app))

    (text,) = app.queues.texts(Queue.RETRIES)
    parts = read_parts(text)
    assert sorted(part.subscription for part in parts) == sorted(NAMES)
    assert app.attempts.writes == [len(NAMES)]  # rows, all at once
    assert {each.attempts for part in parts for each in part.deliveries} == {1}

    app.queues.stored.clear()
    app.clock.advance(MINUTE)
    app.work(text)

    assert app.all_stored() == {}
    assert len(app.pusher.sent) == 2 * len(NAMES)


def test_subscriptions_that_are_held_together_wait_and_wake_in_one_message(app: Deployment) -> None:
    app.work(fan_out(app))
    app.queues.stored.clear()
    app.work(together(*[a_message([a_delivery(1)], subscription=name) for name in NAMES]))
    (text,) = [*app.queues.texts(Queue.RETRIES), *app.queues.texts(Queue.WAITING)]
    app.queues.stored.clear()
    app.queues.put(Queue.WAITING, text)

    app.wake.run()

    assert app.all_stored() == {Queue.RETRIES: 1}
    assert sorted(part.subscription for part in app.on(Queue.RETRIES)) == sorted(NAMES)
