"""
The wall clock is set, and set back, while the process runs: a stopped machine is one, too.

Storage keeps its own time. Every story ends with what the rules say by the clock that is right.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from pushgrid.testing.memory import answered
from shared.delivery.health.availability import Held, Open
from shared.engine.ports import Queue, Table
from tests.builders import DEAD, ORIGIN, URL, a_delivery, a_message, a_subscription
from tests.functional.delivering.failing import another_process, availability, play
from tests.functional.deployment import MINUTE, SECOND, Deployment, Logged
from tests.functional.operations.test_status import health

HOUR = timedelta(hours=1)

AnotherProcess = Callable[[Deployment], object]
either = pytest.mark.parametrize(
    "go_on", [lambda _: None, another_process], ids=["this process", "another process"]
)


def publish(app: Deployment, number: int) -> None:
    """Deliver an event that was published just now."""
    origin = ORIGIN._replace(publish_id=f"p-{number}", published_at=app.clock.now())
    app.run(a_message([a_delivery(number, origin=origin)]))


def pushed(app: Deployment) -> list[str]:
    return [json.loads(sent.request.body)[0]["id"] for sent in app.pusher.sent]


def fail_once(app: Deployment) -> None:
    """Let an event's first attempt fail: it waits for a retry, and its endpoint is held."""
    app.pusher.script(URL, answered(503))
    publish(app, 0)
    app.pusher.script(URL, answered(200))
    app.pusher.sent.clear()


def written(app: Deployment) -> list[str]:
    rows = app.resources.list(Table.TOPICS, "state")
    return sorted(each.name for each in rows if each.name.startswith("clock-"))


@either
def test_6_hours_ahead_and_back(app: Deployment, logged: Logged, go_on: AnotherProcess) -> None:
    """The endpoint was held, and its event not retried, until the clock had caught up."""
    app.subscribe(dead_letter=DEAD)
    app.clock.jump(6 * HOUR)
    fail_once(app)
    app.clock.jump(-6 * HOUR)
    go_on(app)

    publish(app, 1)
    play(app, 11 * SECOND)
    assert pushed(app) == ["e-1"]
    play(app, 11 * MINUTE)

    assert pushed(app) == ["e-1", "e-0"]
    assert app.all_stored() == {}
    assert {"due time", "publish time"} <= {line["what"] for line in logged("clock.bounded")}
    subscription = a_subscription(dead_letter=DEAD)
    assert isinstance(availability(app, subscription), Open)


@either
def test_a_hold_that_was_6_hours_ahead_comes_nearer_while_no_row_can_be_written(
    app: Deployment, go_on: AnotherProcess
) -> None:
    """It is bounded once: bounded at every read, it would be as far away as before."""
    app.subscribe()
    app.clock.jump(6 * HOUR)
    fail_once(app)
    app.clock.jump(-6 * HOUR)
    go_on(app)
    app.resources.fail_next("put", 1000)

    publish(app, 1)
    play(app, 5 * SECOND)
    publish(app, 2)
    play(app, 6 * SECOND)

    assert sorted(pushed(app)) == ["e-1", "e-2"]


def test_a_write_that_failed_6_hours_ahead_keeps_no_hold_from_others(app: Deployment) -> None:
    app.subscribe()
    app.clock.jump(6 * HOUR)
    app.watched.now()  # the note of the jump is stored, the hold is not
    app.resources.fail_next("put")
    fail_once(app)
    app.clock.jump(-6 * HOUR)

    publish(app, 1)
    another_process(app)
    publish(app, 2)

    assert pushed(app) == []


def test_after_6_hours_ahead_and_back_an_endpoint_can_be_held_again(app: Deployment) -> None:
    """A release that was still to come ended every hold as it began."""
    app.subscribe()
    app.clock.jump(6 * HOUR)
    fail_once(app)
    play(app, MINUTE)
    assert pushed(app) == ["e-0"]
    app.clock.jump(-6 * HOUR)

    for _ in range(2):  # the first failure after a success holds nothing
        fail_once(app)

    held = availability(app, a_subscription())
    assert isinstance(held, Held)
    assert held.until == app.clock.now() + 10 * SECOND


@either
def test_6_hours_behind_and_back(app: Deployment, go_on: AnotherProcess) -> None:
    """Retries were "early" for 6 hours, and a hold lasted as much longer."""
    app.subscribe()
    fail_once(app)
    app.clock.jump(-6 * HOUR)
    go_on(app)

    publish(app, 1)
    play(app, 11 * MINUTE)

    assert sorted(pushed(app)) == ["e-0", "e-1"]
    app.clock.jump(6 * HOUR)
    publish(app, 2)
    assert pushed(app)[2:] == ["e-2"]
    assert app.all_stored() == {}


def test_30_hours_ahead_ends_nothing_for_ten_minutes_and_then_the_wall_clock_counts(
    app: Deployment, logged: Logged
) -> None:
    app.subscribe(dead_letter=DEAD)
    app.clock.advance(SECOND)
    publish(app, 9)
    app.pusher.script(URL, answered(500))
    publish(app, 0)
    app.clock.jump(30 * HOUR)

    play(app, 9 * MINUTE)

    assert logged("delivery.ended") == []
    assert [line["seconds"] for line in logged("clock.jumped")] == [30 * 3600]
    play(app, 9 * MINUTE)
    assert [line["reason"] for line in logged("delivery.ended")] == ["TimeToLiveExceeded"]
    assert app.all_stored() == {Queue.DEADLETTERS: 1}


def test_30_hours_ahead_and_back_an_event_is_as_old_as_it_can_be(app: Deployment) -> None:
    """One that was published meanwhile would have lived for 30 hours more."""
    app.subscribe(dead_letter=DEAD)
    app.clock.jump(30 * HOUR)
    fail_once(app)
    app.pusher.script(URL, answered(500))
    app.clock.jump(-30 * HOUR)
    back_at = app.clock.now()

    play(app, MINUTE)

    (message,) = app.on(Queue.RETRIES)
    (delivery,) = message.deliveries
    assert back_at <= delivery.origin.published_at <= back_at + 40 * SECOND
    play(app, 36 * HOUR)
    assert app.all_stored() == {Queue.DEADLETTERS: 1}


def test_an_expiration_that_only_a_jump_has_reached_ends_nothing(app: Deployment) -> None:
    app.subscribe(expires_at=app.clock.now() + 24 * HOUR)
    app.clock.jump(30 * HOUR)

    publish(app, 1)

    assert pushed(app) == ["e-1"]
    app.clock.advance(10 * MINUTE)
    publish(app, 2)
    assert pushed(app) == ["e-1"]


def test_a_jump_and_what_was_bounded_are_in_status_for_ten_minutes(
    app: Deployment, logged: Logged
) -> None:
    """Health said `healthy` while everything was held."""
    app.subscribe()
    app.clock.jump(6 * HOUR)
    fail_once(app)
    app.clock.jump(-6 * HOUR)
    another_process(app)
    for number in range(1, 5):
        publish(app, number)
    play(app, MINUTE)

    found: Any = health(app)

    assert found["status"] == "degraded"
    assert found["reasons"] == [
        "a due time was 21600 s ahead of the clock, and was cut back",
        "a hold was 21610 s ahead of the clock, and was cut back",
        "a clock has jumped by -21600 s; events do not expire for now",
        "a last attempt was 21570 s ahead of the clock, and was cut back",
        "a publish time was 21570 s ahead of the clock, and was cut back",
    ]
    assert [each["what"] for each in found["clock"]] == [
        *("due time", "hold", "jump", "last attempt", "publish time")
    ]
    assert len(logged("clock.bounded")) == 4
    app.clock.advance(10 * MINUTE)
    assert health(app)["status"] == "healthy"


def test_what_can_not_be_noted_stops_nothing(app: Deployment, logged: Logged) -> None:
    app.subscribe()
    app.clock.jump(6 * HOUR)
    app.resources.fail_next("get", 10)

    publish(app, 1)

    assert (pushed(app), written(app)) == (["e-1"], [])
    assert len(logged("clock.jumped")) == 1
