"""Signed deliveries, from publishing to the end. `test_signing` has the signature itself."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from pushgrid.testing.memory import START, answered
from shared.engine.ports import Queue
from shared.http import OutboundRequest
from shared.subscriptions.signing import sign
from shared.subscriptions.subscription import Batching
from tests.builders import URL
from tests.functional.delivering.failing import deliver_all
from tests.functional.deployment import MINUTE, Deployment
from tests.functional.publish_requests import event, publish
from tests.unit.subscriptions.test_signing import NEW, OLD

HUNDRED = Batching(max_events=100, preferred_kilobytes=1024)


@pytest.fixture(autouse=True)
def _time_passes(app: Deployment) -> None:
    """No two requests begin at the same time."""
    app.pusher.takes = timedelta(milliseconds=1)


def deliver(app: Deployment, queue: Queue = Queue.DELIVERIES, after: timedelta = MINUTE) -> None:
    """Deliver everything on a queue, once, a minute later."""
    app.clock.advance(after)
    deliver_all(app, queue)


def requests(app: Deployment) -> list[OutboundRequest]:
    return [each.request for each in app.pusher.sent]


def ids(app: Deployment) -> list[str]:
    return [each.headers["webhook-id"] for each in requests(app)]


def test_each_attempt_is_signed_at_its_own_time_under_one_id(app: Deployment) -> None:
    app.subscribe(signing=(NEW, OLD))
    app.pusher.script(URL, answered(503), answered(200))
    publish(app, event(0))

    deliver(app)
    deliver(app, Queue.RETRIES)

    first, second = requests(app)
    assert ids(app) == [first.headers["aeg-output-event-id"]] * 2
    times = [
        datetime.fromtimestamp(int(each.headers["webhook-timestamp"]), UTC)
        for each in (first, second)
    ]
    assert [each.timestamp() - START.timestamp() for each in times] == [60, 120]
    for request, at in ((first, times[0]), (second, times[1])):
        expected = sign(request, (NEW, OLD), ids(app)[0], at)
        assert request.headers == expected.headers


def test_a_batch_keeps_its_id_as_long_as_it_is_the_same_batch(app: Deployment) -> None:
    app.subscribe(batching=HUNDRED, signing=(NEW,))
    app.pusher.script(URL, answered(503), answered(503), answered(200))
    publish(app, *(event(number) for number in range(100)))

    deliver(app)
    deliver(app, Queue.RETRIES)
    deliver(app, Queue.RETRIES, after=2 * MINUTE)

    found = [(request.headers["webhook-id"], request.body) for request in requests(app)]
    assert found == [found[0]] * 3
    assert not any("aeg-output-event-id" in each.headers for each in requests(app))


def test_what_a_batch_comes_apart_into_has_ids_of_its_own(app: Deployment) -> None:
    app.subscribe(batching=HUNDRED, signing=(NEW,))
    app.pusher.script(URL, answered(503), answered(200))
    publish(app, *(event(number) for number in range(3)))

    deliver(app)
    app.subscribe(batching=Batching(max_events=1), signing=(NEW,))
    deliver(app, Queue.RETRIES)

    whole, *parts = requests(app)
    assert len(parts) == 3
    assert [each.headers["webhook-id"] for each in parts] == [
        each.headers["aeg-output-event-id"] for each in parts
    ]
    assert whole.headers["webhook-id"] not in {each.headers["webhook-id"] for each in parts}


def test_without_secrets_nothing_is_added(app: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shared.delivery.requests.added_headers.sign", None)
    app.subscribe()
    publish(app, event(0))

    deliver(app)

    [request] = requests(app)
    assert not any(name.startswith("webhook-") for name in request.headers)


def test_an_answer_that_repeats_a_secret_is_not_kept(app: Deployment) -> None:
    app.subscribe(signing=(NEW, OLD))
    app.pusher.script(URL, answered(503, f"I know {OLD}".encode()))
    publish(app, event(0))

    deliver(app)

    (record,) = app.attempts.records
    assert OLD not in repr(record)
