"""Endpoints that answer after the acknowledgement timeout."""

from __future__ import annotations

from pushgrid.testing.memory import answered
from shared.http import Failure, NotAnswered
from shared.subscriptions.subscription import RetryPolicy
from tests.builders import URL, a_delivery, a_message, a_topic
from tests.functional.deployment import Deployment

TIMEOUT = NotAnswered(Failure.TIMED_OUT, "no answer in time", 30)


ONE_ATTEMPT = RetryPolicy(max_delivery_attempts=1)


def time_out(
    app: Deployment, events: int = 1, profile: str = "2020", **subscription: object
) -> None:
    """Deliver a message whose every event meets a timeout: no probation keeps the later ones."""
    app.directory.topics["orders"] = a_topic(profile=profile)
    app.subscribe(**subscription)
    app.pusher.script(URL, TIMEOUT)
    app.run(a_message([a_delivery(number) for number in range(events)]))


def answer_late(app: Deployment, event: int = 0, status: int = 200, seconds: float = 35) -> None:
    """Let the answer to the push of *event* come now."""
    late = app.pusher.sent[event].late
    assert late
    app.loop.call_soon(late.report, answered(status, seconds=seconds))
    app.loop.settle()
