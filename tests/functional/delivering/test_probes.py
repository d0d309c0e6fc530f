"""What ends a hold: one probe first, or a success sent after it began. Design §2, Health."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Event

import pytest

from pushgrid.testing.memory import answered
from shared.delivery.health.endpoint_health import Held, Open
from shared.engine.ports import Queue
from shared.errors import StorageUnavailable
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
    first, second = app.new_gates(), app.new_gates()
    for each in (first, second):
        availability(app, each, subscription)

    claims = [claim_probe(app, each, subscription) for each in (first, second)]

    assert claims == [True, False]
    app.deliver = replace(app.deliver, gates=second)
    app.run(a_message([a_delivery(1)]))
    assert pushed(app) == 0
    assert app.waiting(Queue.RETRIES) == [(3 * SECOND, [1])]


def test_a_probe_that_never_ends_is_repeated(app: Deployment) -> None:
    """Its process died: after the acknowledgement timeout and 10 s another may."""
    subscription = app.subscribe()
    fail(app)
    app.clock.advance(10 * SECOND)
    died = app.new_gates()
    availability(app, died, subscription)
    assert claim_probe(app, died, subscription)

    app.clock.advance(39 * SECOND)
    app.run(a_message([a_delivery(1)]))
    assert pushed(app) == 0
    app.clock.advance(SECOND)
    app.run(a_message([a_delivery(1)]))

    assert pushed(app) == 1


def test_a_probe_that_found_no_slot_leaves_it_to_another(app: Deployment) -> None:
    fail(app)
    app.clock.advance(10 * SECOND)
    app.threads.are_scarce = True
    app.run(a_message([a_delivery(1), a_delivery(2)]))
    assert (pushed(app), app.waiting(Queue.RETRIES)) == (0, [(5 * SECOND, [1, 2])])

    app.threads.are_scarce = False
    another_process(app)
    app.run(a_message([a_delivery(2)]))

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
    late = app.pusher.sent[0].late
    assert late
    app.clock.advance(5 * SECOND)

    late.report(answered(200, seconds=35))
    another_process(app)

    assert availability(app, app.deliver.gates, subscription) == Open()


def test_a_late_success_does_not_release_the_hold_of_a_later_push(app: Deployment) -> None:
    subscription = app.subscribe()
    app.pusher.script(URL, TIMEOUT, answered(503))
    app.run(a_message())
    late = app.pusher.sent[0].late
    assert late
    app.clock.advance(10 * SECOND)
    app.run(a_message([a_delivery(1)]))

    late.report(answered(200, seconds=35))

    assert isinstance(availability(app, app.deliver.gates, subscription), Held)


def test_only_one_thread_probes_while_tables_fail(
    app: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one comes while the first waits for a table that won't answer."""
    subscription = app.subscribe()
    fail(app)
    app.clock.advance(10 * SECOND)
    gates = app.deliver.gates
    is_asked, is_over = Event(), Event()

    def get(*_: object) -> None:
        if not is_asked.is_set():
            is_asked.set()
            is_over.wait(30)
        raise StorageUnavailable("busy")

    monkeypatch.setattr(app.resources, "get", get)
    with ThreadPoolExecutor(1) as thread:
        first = thread.submit(claim_probe, app, gates, subscription)
        assert is_asked.wait(30)
        second = claim_probe(app, gates, subscription)
        is_over.set()
        assert (first.result(30), second) == (True, False)

    assert not claim_probe(app, gates, subscription)  # The first one's is under way.
