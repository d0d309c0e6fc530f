"""Where the editions leave open what probation does, the deployment decides."""

from __future__ import annotations

from typing import Any

import pytest

from shared.delivery.outcome import Outcome
from shared.engine.ports import Queue
from shared.subscriptions.subscription import Batching, RetryPolicy
from tests.builders import (
    DEAD,
    URL,
    a_delivery,
    a_message,
    a_topic,
    an_attempt,
)
from tests.fakes import answered
from tests.functional.delivering.failing import fail, forget, switch
from tests.functional.deployment import MINUTE, Deployment

PROBATION = an_attempt(Outcome.PROBATION, None)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param({}, {"attempts": 1, "last": PROBATION}, id="a new event"),
        pytest.param(
            {"attempts": 2, "last": an_attempt()}, {"attempts": 3, "last": PROBATION}, id="a retry"
        ),
        pytest.param(
            {"attempts": 3, "last": PROBATION}, {"attempts": 3, "last": PROBATION}, id="a look"
        ),
    ],
)
def test_a_held_slot_counts_as_one_attempt_where_so_set(
    app: Deployment, before: dict[str, Any], after: dict[str, Any]
) -> None:
    switch(app, probation_counts_attempt=True)
    fail(app)

    app.run(a_message([a_delivery(1, **before)]))

    assert app.on(Queue.RETRIES)[0].deliveries == (a_delivery(1, **after),)


def test_a_held_slot_may_be_the_last_attempt(app: Deployment) -> None:
    switch(app, probation_counts_attempt=True)
    app.subscribe(retry_policy=RetryPolicy(max_delivery_attempts=2), dead_letter=DEAD)
    fail(app)

    app.run(a_message([a_delivery(1, attempts=1, last=an_attempt())]))

    (message,) = app.on(Queue.DEADLETTERS)
    assert message.dead_letter
    assert message.dead_letter.reason == "MaxDeliveryAttemptsExceeded"
    assert message.deliveries[0].last == PROBATION


def test_delayed_delivery_never_counts(app: Deployment) -> None:
    switch(app, probation_counts_attempt=True, probation_ends_events=True)
    app.directory.topics["orders"] = a_topic(profile="2020")
    fail(app, 500, events=10)

    app.run(a_message([a_delivery(1)]))

    assert app.on(Queue.RETRIES)[0].deliveries == (a_delivery(1),)


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_client_errors_probation_ends_events_where_so_set(app: Deployment, status: int) -> None:
    """The documented reason, and ``Probation`` as the last outcome (contract §3.6)."""
    switch(app, probation_ends_events=True)
    app.subscribe(dead_letter=DEAD)
    fail(app, status)

    app.run(a_message([a_delivery(1, attempts=3, last=an_attempt())]))

    (message,) = app.on(Queue.DEADLETTERS)
    assert message.dead_letter
    reason = "UndeliverableDueToProbationCausedByClientError"
    assert message.dead_letter.reason == reason
    assert message.deliveries == (a_delivery(1, attempts=3, last=PROBATION),)


@pytest.mark.parametrize("minutes", [1, 2, 4])
def test_a_client_errors_probation_ends_events_within_a_delay_as_well(
    app: Deployment, minutes: int
) -> None:
    """Its probes have failed so often that delayed delivery holds for longer than 5 minutes."""
    switch(app, probation_ends_events=True)
    app.subscribe(dead_letter=DEAD, batching=Batching(max_events=10))
    app.pusher.script(URL, answered(404))
    for wait in (0, 5, 5, 5):
        app.clock.advance(wait * MINUTE)
        app.run(a_message([a_delivery(100 + number) for number in range(10)]))
    forget(app)
    app.clock.advance(minutes * MINUTE)

    app.run(a_message([a_delivery(1, attempts=3, last=an_attempt())]))

    (message,) = app.on(Queue.DEADLETTERS)
    assert message.dead_letter
    assert message.dead_letter.reason == "UndeliverableDueToProbationCausedByClientError"


@pytest.mark.parametrize(
    ("ends", "status", "destination", "attempts"),
    [
        pytest.param(False, 404, DEAD, 1, id="not set"),
        pytest.param(True, 503, DEAD, 1, id="no client error"),
        pytest.param(True, 404, None, 1, id="no destination"),
        pytest.param(True, 404, DEAD, 0, id="never tried"),
    ],
)
def test_otherwise_probation_only_holds(
    app: Deployment, *, ends: bool, status: int, destination: Any, attempts: int
) -> None:
    switch(app, probation_ends_events=ends)
    app.subscribe(dead_letter=destination)
    fail(app, status)
    delivery = a_delivery(1, attempts=attempts, last=an_attempt() if attempts else None)

    app.run(a_message([delivery]))

    (message,) = app.on(Queue.WAITING if status == 404 else Queue.RETRIES)
    assert message.deliveries == (delivery,)
