"""Pushes that need a connection of which too many are being opened: they wait in the line."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from shared.engine.delivering.endpoint import Endpoint
from shared.engine.ports import Queue
from shared.metrics import Metric
from tests.builders import URL, a_delivery, a_message, encode
from tests.functional.delivering.failing import groups, pushed
from tests.functional.deployment import SECOND, Deployment


class Openings:
    """Implements the port ``ReserveConnection``: so many, and more when the test says so."""

    def __init__(self, app: Deployment, permitted: int) -> None:
        self.permitted = permitted
        self.asked: list[str] = []
        self._app = app
        self._again: list[Callable[[], None]] = []
        app.outbound.free = self

    def __call__(self, url: str, again: Callable[[], None], /) -> bool:
        self.asked.append(url)
        self.permitted -= 1
        if self.permitted >= 0:
            return True
        self.permitted = 0
        self._again.append(again)
        return False

    def permit(self, count: int) -> None:
        self.permitted = count
        again, self._again = self._again, []
        for each in again:
            self._app.loop.call_soon(each)
        self._app.loop.settle()


def begin(app: Deployment, events: int) -> asyncio.Task[None]:
    (text,) = encode(a_message([a_delivery(number) for number in range(events)]))
    task = app.loop.create_task(app.deliver.run(text.encode(), Queue.DELIVERIES))
    app.loop.settle()
    return task


def endpoint(app: Deployment) -> Endpoint:
    (subscription,) = app.directory.known.values()
    return app.deliver.endpoints.of(subscription)


def test_a_push_that_waits_has_not_begun(app: Deployment) -> None:
    """It is no attempt, takes no time, holds no place, and the endpoint is no slower for it."""
    app.subscribe()
    openings = Openings(app, permitted=2)
    task = begin(app, events=4)
    app.loop.advance(20 * SECOND)

    assert pushed(app) == 2
    assert app.deliver.endpoints.scheduler.budget.under_way.total() == 0
    assert endpoint(app).under_way == 0
    assert not task.done()
    assert not app.metrics.of(Metric.ATTEMPT_FAIL)

    openings.permit(2)
    assert pushed(app) == 4
    assert task.done()
    assert app.pusher.sent[-1].at == app.clock.now()
    assert endpoint(app).times.average == 0
    assert set(openings.asked) == {URL}


def test_what_waits_for_a_minute_is_requeued_uncounted(app: Deployment) -> None:
    app.subscribe()
    Openings(app, permitted=0)
    task = begin(app, events=3)
    app.loop.advance(70 * SECOND)

    assert task.done()
    assert (pushed(app), groups(app)) == (0, [[0, 1, 2]])
    (message,) = app.on(Queue.RETRIES)
    assert [each.attempts for each in message.deliveries] == [0, 0, 0]


def test_when_the_host_stops_nothing_waits(app: Deployment) -> None:
    app.subscribe()
    Openings(app, permitted=0)
    task = begin(app, events=3)
    assert not task.done()
    app.loop.call_soon(app.deliver.endpoints.stop)
    app.loop.advance(2 * SECOND)

    assert task.done()
    assert (pushed(app), groups(app)) == (0, [[0, 1, 2]])


def test_a_request_over_the_allowed_rate_asks_for_no_connection(app: Deployment) -> None:
    app.subscribe(rate=1)
    openings = Openings(app, permitted=9)
    begin(app, events=4)

    assert (pushed(app), len(openings.asked)) == (1, 1)


def test_a_new_endpoint_that_waits_for_a_connection_gives_scarce_places_back(
    app: Deployment,
) -> None:
    app.subscribe()
    Openings(app, permitted=0)
    places = app.deliver.in_hand[Queue.DELIVERIES]
    places.most = 1
    task = begin(app, events=3)
    app.loop.advance(2 * SECOND)

    assert task.done()
    assert groups(app) == [[0, 1, 2]]
