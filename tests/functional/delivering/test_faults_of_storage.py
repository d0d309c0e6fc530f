"""Storage that fails or hangs for minutes: nothing waits for it for long."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pushgrid.testing.memory import answered
from shared.engine.ports import Queue
from shared.errors import StorageUnavailable
from shared.subscriptions.subscription import EventSubscription, Pause, SubscriptionKey
from tests.builders import DEAD, a_delivery, a_message
from tests.functional.delivering.late import ONE_ATTEMPT
from tests.functional.deployment import MINUTE, SECOND, Deployment
from tests.unit.delivery.messages.wire import together

NAMES = [f"crm-{number}" for number in range(8)]


def url(name: str) -> str:
    return f"https://{name}.example/hook"


def fan_out(names: Sequence[str], events: int = 1) -> str:
    deliveries = [a_delivery(number) for number in range(events)]
    return together(*(a_message(deliveries, subscription=name) for name in names))


def test_however_much_a_message_stores_it_waits_for_failing_puts_once(app: Deployment) -> None:
    """Dead letters are messages of their own for each subscription; a function has ten minutes."""
    for name in NAMES:
        app.subscribe(name=name, endpoint_url=url(name), dead_letter=DEAD, retry_policy=ONE_ATTEMPT)
        app.pusher.script(url(name), answered(400))
    app.queues.fail_next("put", 10_000)
    task = app.begin(fan_out(NAMES))

    app.loop.advance(3 * MINUTE)

    assert task.done()
    assert isinstance(task.exception(), StorageUnavailable)


def test_no_line_is_waited_in_for_long_while_storage_hangs(app: Deployment) -> None:
    """Whether the subscription is paused is asked meanwhile, and once at a time."""
    app.limit_pushes(1)
    asked: list[EventSubscription] = []

    async def hang(subscription: EventSubscription) -> Pause | None:
        asked.append(subscription)
        await asyncio.sleep(600)
        return None

    endpoints = app.deliver.endpoints
    endpoints.around = endpoints.around._replace(current_pause=hang)
    app.subscribe()
    app.pusher.takes = 20 * SECOND
    task = app.begin(a_message([a_delivery(number) for number in range(32)]))

    app.loop.advance(2 * MINUTE)

    assert len(asked) == 1
    assert task.done()
    assert len(app.on(Queue.RETRIES)[0].deliveries) == 32 - 4


def test_parts_that_can_not_be_judged_come_back_as_one_message(app: Deployment) -> None:
    """Each is found to be so at a time of its own."""
    for name in NAMES:
        app.subscribe(name=name, endpoint_url=url(name))

    def fail(key: SubscriptionKey) -> EventSubscription | None:
        del key
        app.clock.advance(SECOND / 1000)
        raise StorageUnavailable

    app.directory.subscription = fail  # type: ignore[method-assign]
    app.work(fan_out(NAMES))

    assert app.all_stored() == {Queue.RETRIES: 1}
    assert len(app.on(Queue.RETRIES)) == len(NAMES)


def test_what_can_not_be_put_back_has_half_of_the_places(app: Deployment) -> None:
    """The others go at once, and the host repeats them."""
    app.subscribe()
    app.deliver.places[Queue.DELIVERIES].total = 8
    app.directory.fail_next("subscription", 10_000)
    app.queues.fail_next("put", 10_000)

    tasks = [app.begin(a_message([a_delivery(number)])) for number in range(12)]
    app.loop.advance(SECOND)

    assert sum(not each.done() for each in tasks) == 4
    app.loop.advance(3 * MINUTE)
    assert all(isinstance(each.exception(), StorageUnavailable) for each in tasks)
