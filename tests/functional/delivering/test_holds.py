"""What a failing endpoint does to other events of its subscription. Design §2, Health."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pushgrid.testing.memory import START, answered
from shared.delivery.delivery import LastAttempt
from shared.delivery.messages.message import EPOCH
from shared.delivery.outcome import Outcome
from shared.engine.ports import Queue
from shared.subscriptions.subscription import Batching, RetryPolicy
from tests.builders import (
    URL,
    a_delivery,
    a_message,
    a_topic,
)
from tests.functional.delivering.failing import another_process, fail, pushed
from tests.functional.deployment import MINUTE, SECOND, Deployment, Logged


def test_what_meets_probation_is_held_and_is_no_attempt(app: Deployment, logged: Logged) -> None:
    fail(app)

    app.run(a_message([a_delivery(1)]))

    assert pushed(app) == 0
    assert app.waiting(Queue.RETRIES) == [(10 * SECOND, [1])]
    untried = LastAttempt(Outcome.PROBATION, None, EPOCH)
    assert app.on(Queue.RETRIES)[0].deliveries == (a_delivery(1, last=untried),)
    line = logged("delivery.run")[-1]
    assert (line["held"], line["held_because"]) == (
        1,
        "503 Busy at 12:00:00Z (probation for Busy: 10 s)",
    )
    assert line["held_until"] == "2026-02-09T12:00:10.0000000Z"


def test_a_hold_that_begins_keeps_the_rest_of_its_message(app: Deployment) -> None:
    """It begins with the second failure: one after a success is none that starts failing."""
    app.limit_pushes(1)
    app.subscribe()
    app.pusher.script(URL, answered(200), answered(503))

    app.run(a_message([a_delivery(number) for number in range(6)]))

    assert pushed(app) == 3
    assert [each for _, each in app.waiting(Queue.RETRIES)] == [[1, 2], [3, 4, 5]]


def test_a_failure_among_successes_keeps_nothing(app: Deployment) -> None:
    """Its own event waits all the same; nothing is written about the endpoint's holds."""
    app.limit_pushes(1)
    app.subscribe()
    app.pusher.script(URL, *[answered(200), answered(503)] * 3, answered(200))

    app.run(a_message([a_delivery(number) for number in range(7)]))

    assert pushed(app) == 7
    assert app.waiting(Queue.RETRIES) == [(30 * SECOND, [1, 3, 5])]


def test_a_long_hold_lies_on_the_queue_without_a_trigger(app: Deployment) -> None:
    """Holds over a minute must not make Azure scale out; the timer needs a minute ahead."""
    fail(app, 404)

    app.run(a_message([a_delivery(1)]))

    assert app.waiting(Queue.WAITING) == [(4 * MINUTE, [1])]
    assert app.all_stored() == {Queue.WAITING: 1}


def test_what_is_held_for_long_is_rechecked_every_five_minutes(app: Deployment) -> None:
    app.directory.topics["orders"] = a_topic(profile="2020")
    fail(app, 500, events=10)
    for wait in (1, 2, 4):
        app.clock.advance(wait * MINUTE)
        fail(app, 500)

    app.run(a_message([a_delivery(1)]))

    (message,) = app.on(Queue.WAITING)
    assert message.due == app.clock.now() + 5 * MINUTE


def test_what_is_held_expires_all_the_same(app: Deployment, logged: Logged) -> None:
    app.subscribe(retry_policy=RetryPolicy(event_time_to_live_minutes=1))
    fail(app, 404)
    app.clock.advance(MINUTE)

    app.run(a_message([a_delivery(1)]))

    assert app.all_stored() == {}
    (line,) = logged("delivery.dropped")
    assert line["reason"] == "TimeToLiveExceeded"


def test_one_event_alone_keeps_its_schedule(app: Deployment) -> None:
    """All-503 comes at 0, 30, 60, 120 s (contract §3.4): its own probation never delays it."""
    app.subscribe()
    app.pusher.script(URL, answered(503))
    app.run(a_message())
    times = []
    for _ in range(3):
        (message,) = app.on(Queue.RETRIES)
        assert message.due
        app.clock.advance(message.due - app.clock.now())
        app.queues.stored.clear()
        app.run(message)
        times.append((app.clock.now() - START).total_seconds())

    assert (pushed(app), times) == (4, [30, 60, 120])


def test_ten_first_attempts_that_fail_hold_everything(app: Deployment) -> None:
    app.limit_pushes(1)
    app.directory.topics["orders"] = a_topic(profile="2020")
    app.subscribe()
    app.pusher.script(URL, answered(500))

    app.run(a_message([a_delivery(number) for number in range(12)]))

    assert pushed(app) == 10
    _, message = app.on(Queue.RETRIES)
    assert [each.position for each in message.deliveries] == [10, 11]
    assert message.due
    assert MINUTE <= message.due - START < MINUTE + SECOND


def test_after_the_hold_a_success_releases_everything(app: Deployment) -> None:
    app.directory.topics["orders"] = a_topic(profile="2020")
    fail(app, 500, events=10)
    app.clock.advance(MINUTE)

    app.run(a_message([a_delivery(number) for number in range(5)]))

    assert (pushed(app), app.all_stored()) == (5, {})
    another_process(app)
    app.run(a_message([a_delivery(6)]))
    assert pushed(app) == 6


def test_held_events_come_back_one_after_the_other(app: Deployment) -> None:
    """At the rate of its pushes: each counts as a tenth of a second at least."""
    endpoint = app.deliver.endpoints.of(app.subscribe())
    fail(app)
    began = app.clock.now()
    for number in range(200):
        app.clock.advance(SECOND / 20)
        app.run(a_message([a_delivery(number)]))

    dues = [(each.due - began).total_seconds() for each in app.on(Queue.RETRIES) if each.due]

    assert len(dues) == 199  # The last one came when the hold was over, and was its probe.
    assert dues == sorted(dues)
    assert dues[0] == 10
    assert dues[-1] == pytest.approx(10 + 198 / (10 * endpoint.limit.value), rel=0.1)


@pytest.mark.parametrize(
    ("profile", "pushed_at"),
    [("2017", [0, 4, 5]), ("2019", [5]), ("2020", [5]), ("2023", [5]), ("latest", [5])],
)
def test_the_edition_may_change_during_a_hold(
    app: Deployment, profile: str, pushed_at: list[int]
) -> None:
    """One that knows of no holds pushes at once; the others when it is over, as ever."""
    fail(app, 404)
    app.directory.topics["orders"] = a_topic(profile=profile)
    times = []
    for minute in (0, 4, 5):
        app.clock.advance(START + minute * MINUTE - app.clock.now())
        app.pusher.sent.clear()
        app.run(a_message([a_delivery(minute)]))
        if pushed(app):
            times.append(minute)

    assert times == pushed_at


def test_a_failed_batch_of_ten_new_events_delays_delivery(app: Deployment) -> None:
    """Not one that is tried again: the first attempts of different events count."""
    app.directory.topics["orders"] = a_topic(profile="2020")
    app.subscribe(batching=Batching(max_events=10, preferred_kilobytes=64))
    app.pusher.script(URL, answered(500))
    batches = [[a_delivery(10 * number + each) for each in range(10)] for number in range(3)]

    app.run(a_message([replace(each, attempts=1) for each in batches[0]]))
    for batch in batches[1:]:
        app.run(a_message(batch))

    assert pushed(app) == 2
