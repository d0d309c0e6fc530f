"""What ends a hold: one probe first, or a success sent after it began. Design §2, Health."""

from __future__ import annotations

import pytest

from pushgrid.testing.memory import answered
from shared.delivery.health.availability import Held, Open
from shared.engine.ports import Queue
from shared.http import Failure, NotAnswered
from tests.builders import (
    URL,
    a_delivery,
    a_message,
)
from tests.functional.delivering.failing import (
    another_process,
    availability,
    claim_probe,
    fail,
    pushed,
)
from tests.functional.delivering.late import answer_late
from tests.functional.deployment import SECOND, Deployment

TIMEOUT = NotAnswered(Failure.TIMED_OUT, "no answer in time", 30)


def test_after_a_hold_one_event_goes_first_and_the_rest_follows(app: Deployment) -> None:
    fail(app)
    app.clock.advance(10 * SECOND)
    app.pusher.script(URL, answered(503), answered(200))
    group = [a_delivery(number) for number in (1, 2, 3)]

    app.run(a_message(group))
    failed = pushed(app)
    app.clock.advance(10 * SECOND)
    app.run(a_message(group))

    assert (failed, pushed(app)) == (1, 4)


def test_only_one_process_probes(app: Deployment) -> None:
    """While its probe is under way the others hold, and look again after some seconds."""
    subscription = app.subscribe()
    fail(app)
    app.clock.advance(10 * SECOND)
    first, second = app.new_process(), app.new_process()
    for each in (first, second):
        availability(app, subscription, each)

    claims = [claim_probe(app, each, subscription) for each in (first, second)]

    assert claims == [True, False]
    app.deliver = second
    app.run(a_message([a_delivery(1)]))
    assert pushed(app) == 0
    assert app.waiting(Queue.RETRIES) == [(3 * SECOND, [1])]


def test_a_probe_that_never_ends_is_repeated(app: Deployment) -> None:
    """Its process died: after the acknowledgement timeout and 10 s another may."""
    subscription = app.subscribe()
    fail(app)
    app.clock.advance(10 * SECOND)
    died = app.new_process()
    availability(app, subscription, died)
    assert claim_probe(app, died, subscription)

    app.clock.advance(39 * SECOND)
    app.run(a_message([a_delivery(1)]))
    assert pushed(app) == 0
    app.clock.advance(SECOND)
    app.run(a_message([a_delivery(1)]))

    assert pushed(app) == 1


@pytest.mark.parametrize("status", [400, 413])
def test_an_event_at_fault_itself_does_not_speak_for_the_endpoint(
    app: Deployment, status: int
) -> None:
    """It is dropped, and the next one is the probe."""
    fail(app)
    app.clock.advance(10 * SECOND)
    app.pusher.script(URL, answered(status), answered(status), answered(503))

    app.run(a_message([a_delivery(number) for number in range(5)]))

    assert pushed(app) == 3
    assert [each for _, each in app.waiting(Queue.RETRIES)] == [[2], [3, 4]]


def test_a_late_success_releases_the_hold_its_timeout_began(app: Deployment) -> None:
    """Also for other processes: the row says so."""
    subscription = app.subscribe()
    app.pusher.script(URL, TIMEOUT)
    app.run(a_message())
    app.clock.advance(5 * SECOND)

    answer_late(app)
    another_process(app)

    assert availability(app, subscription) == Open()


def test_a_late_success_does_not_release_the_hold_of_a_later_push(app: Deployment) -> None:
    subscription = app.subscribe()
    app.pusher.script(URL, TIMEOUT, answered(503))
    app.run(a_message())
    app.clock.advance(10 * SECOND)
    app.run(a_message([a_delivery(1)]))

    answer_late(app)

    assert isinstance(availability(app, subscription), Held)


def test_only_one_event_probes_while_tables_fail(app: Deployment) -> None:
    """The others wait for its answer."""
    app.subscribe()
    fail(app)
    app.clock.advance(10 * SECOND)
    app.resources.fail_next("get", 100)
    held = app.hold("e-1", "e-2", "e-3")

    first = app.begin(a_message([a_delivery(1)]))
    second = app.begin(a_message([a_delivery(2), a_delivery(3)]))

    assert held.held == ["e-1"]
    held.let_go("e-1")
    app.loop.settle()
    assert (held.held, first.done(), second.done()) == (["e-2", "e-3"], True, False)
    held.let_go()
    app.loop.settle()
    assert second.done()
