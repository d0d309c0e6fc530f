"""How a delivery ends without success: at once, at its last attempt, or when it is due."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from unittest.mock import Mock

import pytest

from pushgrid.testing.memory import START, answered
from shared.delivery.delivery import Delivery
from shared.engine.ports import Queue
from shared.subscriptions.subscription import RetryPolicy
from tests.builders import DEAD, URL, a_delivery, a_message, a_subscription, an_attempt
from tests.functional.delivering.failing import groups
from tests.functional.deployment import MINUTE, SECOND, Deployment

HOUR = timedelta(hours=1)
NEVER, TRIED = a_delivery(), a_delivery(attempts=2, last=an_attempt())


def policy(attempts: int | None = None, minutes: float | None = None, **others: Any) -> Any:
    """Return a subscription's choices, among them its retry policy."""
    given = RetryPolicy(max_delivery_attempts=attempts, event_time_to_live_minutes=minutes)
    return {"retry_policy": given, **others}


def test_what_is_never_retried_becomes_a_dead_letter(app: Deployment) -> None:
    """Contract §3.3, 6: no more attempts, but the blob appears five minutes later."""
    subscription = app.subscribe(dead_letter=DEAD)
    app.pusher.script(URL, answered(400))

    app.run(a_message([a_delivery(0), a_delivery(1)]))

    assert app.waiting(Queue.DEADLETTERS) == [(5 * MINUTE, [0, 1])]
    (message,) = app.on(Queue.DEADLETTERS)
    note = message.dead_letter
    assert note is not None
    assert note.reason.value == "UndeliverableDueToHttpBadRequest"
    assert note.keep_until == START + 5 * MINUTE + timedelta(hours=4)
    assert (note.destination, note.topic_id) == (DEAD, subscription.topic_id)
    assert app.all_stored() == {Queue.DEADLETTERS: 1}


@pytest.mark.parametrize(
    ("choices", "delivery", "reason"),
    [
        pytest.param(policy(minutes=60), TRIED, "TimeToLiveExceeded", id="expired"),
        pytest.param(policy(2), TRIED, "MaxDeliveryAttemptsExceeded", id="attempts lowered"),
        pytest.param(policy(minutes=60), NEVER, "TimeToLiveExceeded", id="never tried"),
    ],
)
def test_an_end_found_at_the_slot_needs_no_push(
    app: Deployment, choices: Any, delivery: Delivery, reason: str
) -> None:
    """The last attempt lies further back than the five minutes: the blob may be written now."""
    app.subscribe(dead_letter=DEAD, **choices)
    app.clock.advance(HOUR)

    app.run(a_message([delivery], due=START + HOUR))

    assert app.pusher.sent == []
    assert app.waiting(Queue.DEADLETTERS) == [(timedelta(), [0])]
    (message,) = app.on(Queue.DEADLETTERS)
    assert message.dead_letter is not None
    assert message.dead_letter.reason == reason


def test_ends_for_different_reasons_get_messages_of_their_own(app: Deployment) -> None:
    app.subscribe(dead_letter=DEAD)
    app.pusher.script(URL, answered(400), answered(413), answered(400))

    app.run(a_message([a_delivery(number) for number in range(3)]))

    assert groups(app, Queue.DEADLETTERS) == [[0, 2], [1]]


RAISED = policy(30, 1440, dead_letter=DEAD)
ELSEWHERE = {"endpoint_url": "https://new.example/"}
SOON, IN_A_MINUTE = {Queue.RETRIES: [(10 * SECOND, [0])]}, {Queue.RETRIES: [(MINUTE, [0])]}


@pytest.mark.parametrize(
    ("known", "stored", "delivery", "age", "status", "left"),
    [
        pytest.param({}, ELSEWHERE, NEVER, timedelta(), 400, SOON, id="another endpoint"),
        pytest.param({}, None, NEVER, timedelta(), 400, SOON, id="unknown"),
        pytest.param(policy(1), RAISED, NEVER, timedelta(), 500, SOON, id="more attempts"),
        pytest.param(policy(2), RAISED, TRIED, HOUR, 500, IN_A_MINUTE, id="attempts"),
        pytest.param(policy(minutes=60), RAISED, NEVER, HOUR, 500, SOON, id="a longer life"),
        pytest.param(
            policy(minutes=60),
            policy(minutes=30, dead_letter=DEAD),
            NEVER,
            HOUR,
            500,
            {Queue.DEADLETTERS: [(timedelta(), [0])]},
            id="a destination, and still too old",
        ),
        pytest.param(policy(minutes=60), None, NEVER, HOUR, 500, IN_A_MINUTE, id="old, unknown"),
    ],
)
def test_an_end_is_believed_only_of_the_current_subscription(
    app: Deployment,
    known: Any,
    stored: Any,
    delivery: Delivery,
    age: timedelta,
    status: int,
    left: Any,
) -> None:
    """
    Design §2, order of writes 4: a correction helps events already waiting.

    *stored* is what another instance has made of *known*; ``None``: it can't be read now.
    """
    app.subscribe(**known)
    if stored is None:
        app.directory.fail_next("read_uncached")
    else:
        app.directory.change(a_subscription(**stored))
    app.pusher.script(URL, answered(status))
    app.clock.advance(age)

    app.run(a_message([delivery], due=START + age))

    assert {queue: app.waiting(queue) for queue in app.all_stored()} == left


@pytest.mark.parametrize(
    ("age", "status", "reads"),
    [
        pytest.param(timedelta(), 400, 1, id="final answers"),
        pytest.param(HOUR, 200, 1, id="too old"),
        pytest.param(timedelta(), 200, 0, id="no end"),
    ],
)
def test_many_ends_cost_one_uncached_read(
    app: Deployment, monkeypatch: pytest.MonkeyPatch, age: timedelta, status: int, reads: int
) -> None:
    read = Mock(wraps=app.directory.read_uncached)
    monkeypatch.setattr(app.directory, "read_uncached", read)
    app.subscribe(**policy(minutes=60, dead_letter=DEAD))
    app.pusher.script(URL, answered(status))
    app.clock.advance(age)

    app.run(a_message([a_delivery(number) for number in range(20)], due=START + age))

    assert read.call_count == reads
    assert app.all_stored() == ({Queue.DEADLETTERS: 1} if reads else {})
