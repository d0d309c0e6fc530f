"""What a failing endpoint does to other events of its subscription: probation, probes, holds."""

from __future__ import annotations

from shared.engine.ports import Queue
from tests.builders import URL, a_delivery, a_message
from tests.fakes import START, answered
from tests.functional.deployment import SECOND, Deployment, Logged


def test_what_meets_probation_is_held_and_is_no_attempt(app: Deployment, logged: Logged) -> None:
    app.subscribe()
    app.pusher.script(URL, answered(503))
    app.run(a_message())

    app.run(a_message([a_delivery(1)]))

    assert len(app.pusher.sent) == 1
    assert app.waiting(Queue.RETRIES) == [(30 * SECOND, [0]), (10 * SECOND, [1])]
    assert app.on(Queue.RETRIES)[1].deliveries == (a_delivery(1),)
    line = logged("delivery.run")[-1]
    assert line["held"] == 1
    assert line["held_because"] == "probation for Busy: 10 s"
    assert line["held_until"] == "2026-02-09T12:00:10.0000000Z"


def test_after_probation_one_event_goes_first(app: Deployment) -> None:
    app.subscribe()
    app.pusher.script(URL, answered(503), answered(503), answered(200))
    app.run(a_message())
    app.clock.advance(10 * SECOND)

    app.run(a_message([a_delivery(number) for number in (1, 2, 3)], due=START + 10 * SECOND))
    assert len(app.pusher.sent) == 2

    app.clock.advance(10 * SECOND)
    app.run(a_message([a_delivery(number) for number in (4, 5, 6)], due=START + 20 * SECOND))
    assert len(app.pusher.sent) == 5
