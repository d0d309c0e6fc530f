"""The deployment's switches reach the events that are held; unit/delivery/health has the rules."""

from __future__ import annotations

from pushgrid.testing.memory import answered
from shared.delivery.outcome import Outcome
from shared.engine.ports import Queue
from shared.subscriptions.subscription import Batching, RetryPolicy
from tests.builders import (
    DEAD,
    URL,
    a_delivery,
    a_message,
    a_subscription,
    an_attempt,
)
from tests.functional.delivering.failing import fail, forget, switch
from tests.functional.deployment import MINUTE, Deployment

PROBATION = an_attempt(Outcome.PROBATION, None)


def test_a_held_slot_may_be_the_last_attempt(app: Deployment) -> None:
    switch(app, probation_counts_attempt=True)
    app.subscribe(retry_policy=RetryPolicy(max_delivery_attempts=2), dead_letter=DEAD)
    fail(app)

    app.run(a_message([a_delivery(1, attempts=1, last=an_attempt())]))

    (message,) = app.on(Queue.DEADLETTERS)
    assert message.dead_letter
    assert message.dead_letter.reason == "MaxDeliveryAttemptsExceeded"
    assert message.deliveries[0].last == PROBATION


def test_a_held_slot_is_not_the_last_attempt_where_another_instance_allowed_more(
    app: Deployment,
) -> None:
    switch(app, probation_counts_attempt=True)
    app.subscribe(retry_policy=RetryPolicy(max_delivery_attempts=2), dead_letter=DEAD)
    fail(app)
    app.directory.change(a_subscription(retry_policy=RetryPolicy(max_delivery_attempts=3)))
    waiting = a_delivery(1, attempts=1, last=an_attempt())

    app.run(a_message([waiting]))

    held = app.on(Queue.RETRIES)[-1]
    assert (held.deliveries, app.on(Queue.DEADLETTERS)) == ((waiting,), [])


def test_a_client_errors_probation_ends_events_where_so_set(app: Deployment) -> None:
    """The documented reason, and ``Probation`` as the last outcome (contract §3.6)."""
    switch(app, probation_ends_events=True)
    app.subscribe(dead_letter=DEAD)
    fail(app, 404)

    app.run(a_message([a_delivery(1, attempts=3, last=an_attempt())]))

    (message,) = app.on(Queue.DEADLETTERS)
    assert message.dead_letter
    reason = "UndeliverableDueToProbationCausedByClientError"
    assert message.dead_letter.reason == reason
    assert message.deliveries == (a_delivery(1, attempts=3, last=PROBATION),)


def test_a_client_errors_probation_ends_events_within_a_delay_as_well(app: Deployment) -> None:
    """Its probes have failed so often that delayed delivery holds for longer than 5 minutes."""
    switch(app, probation_ends_events=True)
    app.subscribe(dead_letter=DEAD, batching=Batching(max_events=10))
    app.pusher.script(URL, answered(404))
    for wait in (0, 5, 5, 5):
        app.clock.advance(wait * MINUTE)
        app.run(a_message([a_delivery(100 + number) for number in range(10)]))
    forget(app)
    app.clock.advance(4 * MINUTE)

    app.run(a_message([a_delivery(1, attempts=3, last=an_attempt())]))

    (message,) = app.on(Queue.DEADLETTERS)
    assert message.dead_letter
    assert message.dead_letter.reason == "UndeliverableDueToProbationCausedByClientError"
