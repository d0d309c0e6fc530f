"""How a delivery ends without success: at once, at its last attempt, or when it is due."""

from __future__ import annotations

from datetime import timedelta

import pytest

from pushgrid.testing.memory import START, answered
from shared.engine.ports import Queue
from shared.subscriptions.subscription import DeadLetterDestination, RetryPolicy, SubscriptionKey
from tests.builders import (
    DEAD,
    URL,
    a_delivery,
    a_message,
    a_subscription,
    an_attempt,
)
from tests.functional.deployment import MINUTE, SECOND, Deployment

HOUR = timedelta(hours=1)


def watched(app: Deployment) -> list[SubscriptionKey]:
    """Return a list that gets each uncached read."""
    reads: list[SubscriptionKey] = []
    read = app.directory.read_uncached
    app.directory.read_uncached = lambda key: (reads.append(key), read(key))[1]  # type: ignore[method-assign,func-returns-value]
    return reads


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
    "meanwhile",
    [
        pytest.param(a_subscription(endpoint_url="https://new.example/"), id="other endpoint"),
        pytest.param(a_subscription(dead_letter=DEAD), id="other destination"),
        pytest.param(a_subscription(generation="g-2"), id="created again"),
    ],
)
def test_a_final_answer_is_believed_only_of_the_current_subscription(
    app: Deployment, meanwhile: object
) -> None:
    """Design §2, order of writes 4: a corrected endpoint helps events already waiting."""
    app.subscribe()
    assert isinstance(meanwhile, type(a_subscription()))
    app.directory.change(meanwhile)
    app.pusher.script(URL, answered(400))

    app.run(a_message())

    assert app.waiting(Queue.RETRIES) == [(10 * SECOND, [0])]
    assert app.all_stored() == {Queue.RETRIES: 1}


def test_a_final_answer_that_cannot_be_confirmed_is_no_end(app: Deployment) -> None:
    app.subscribe(dead_letter=DEAD)
    app.directory.fail_next("read_uncached")
    app.pusher.script(URL, answered(401))

    app.run(a_message())

    assert app.all_stored() == {Queue.RETRIES: 1}


def test_many_final_answers_cost_one_uncached_read(app: Deployment) -> None:
    app.subscribe()
    app.pusher.script(URL, answered(400))
    reads = watched(app)

    app.run(a_message([a_delivery(number) for number in range(20)]))

    assert len(reads) == 1


def test_the_last_attempt_ends_it_at_once(app: Deployment) -> None:
    app.subscribe(dead_letter=DEAD, retry_policy=RetryPolicy(max_delivery_attempts=3))
    app.pusher.script(URL, answered(500))

    app.run(a_message([a_delivery(0, attempts=2), a_delivery(1, attempts=1)]))

    assert app.waiting(Queue.DEADLETTERS) == [(5 * MINUTE, [0])]
    assert app.waiting(Queue.RETRIES) == [(30 * SECOND, [1])]
    (message,) = app.on(Queue.DEADLETTERS)
    assert message.dead_letter is not None
    assert message.dead_letter.reason == "MaxDeliveryAttemptsExceeded"
    assert message.deliveries[0].attempts == 3


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        (RetryPolicy(event_time_to_live_minutes=60), "TimeToLiveExceeded"),
        (RetryPolicy(max_delivery_attempts=2), "MaxDeliveryAttemptsExceeded"),
    ],
    ids=["expired", "attempts lowered meanwhile"],
)
def test_an_end_found_at_the_slot_needs_no_push(
    app: Deployment, policy: RetryPolicy, reason: str
) -> None:
    """The last attempt lies further back than the five minutes: the blob may be written now."""
    app.subscribe(dead_letter=DEAD, retry_policy=policy)
    app.clock.advance(HOUR)

    app.run(a_message([a_delivery(attempts=2, last=an_attempt())], due=START + HOUR))

    assert app.pusher.sent == []
    assert app.waiting(Queue.DEADLETTERS) == [(timedelta(), [0])]
    (message,) = app.on(Queue.DEADLETTERS)
    assert message.dead_letter is not None
    assert message.dead_letter.reason == reason


def test_an_event_that_was_never_tried_may_be_written_at_once(app: Deployment) -> None:
    app.subscribe(dead_letter=DEAD, retry_policy=RetryPolicy(event_time_to_live_minutes=1))
    app.clock.advance(MINUTE)

    app.run(a_message())

    assert app.waiting(Queue.DEADLETTERS) == [(timedelta(), [0])]


def test_ends_for_different_reasons_get_messages_of_their_own(app: Deployment) -> None:
    app.subscribe(dead_letter=DEAD)
    app.pusher.script(URL, answered(400), answered(413), answered(400))

    app.run(a_message([a_delivery(number) for number in range(3)]))

    assert [positions for _, positions in app.waiting(Queue.DEADLETTERS)] == [[0, 2], [1]]


RAISED = RetryPolicy(max_delivery_attempts=30, event_time_to_live_minutes=1440)


@pytest.mark.parametrize("dead_letter", [None, DEAD], ids=["drop", "dead letter"])
def test_an_end_by_terms_that_were_raised_elsewhere_is_none(
    app: Deployment, dead_letter: DeadLetterDestination | None
) -> None:
    """A PATCH at another instance raised both: ten of ten events were dropped by the old terms."""
    policy = RetryPolicy(max_delivery_attempts=2, event_time_to_live_minutes=60)
    app.subscribe(retry_policy=policy, dead_letter=dead_letter)
    app.directory.change(a_subscription(retry_policy=RAISED, dead_letter=DEAD))
    app.pusher.script(URL, answered(500))
    app.clock.advance(HOUR)

    too_old = [a_delivery(number) for number in range(5)]
    used_up = [a_delivery(number, attempts=2, last=an_attempt()) for number in range(5, 10)]
    app.run(a_message([*too_old, *used_up], due=START + HOUR))

    assert len(app.pusher.sent) == 10
    assert sum(len(events) for _, events in app.waiting(Queue.RETRIES)) == 10
    assert set(app.all_stored()) == {Queue.RETRIES}


def test_an_end_by_terms_that_changed_elsewhere_follows_the_new_ones(app: Deployment) -> None:
    app.subscribe(retry_policy=RetryPolicy(event_time_to_live_minutes=60))
    new = RetryPolicy(event_time_to_live_minutes=30)
    app.directory.change(a_subscription(retry_policy=new, dead_letter=DEAD))
    app.clock.advance(HOUR)

    app.run(a_message(due=START + HOUR))

    assert app.all_stored() == {Queue.DEADLETTERS: 1}


def test_the_last_attempt_is_none_where_another_instance_allowed_more(app: Deployment) -> None:
    app.subscribe(retry_policy=RetryPolicy(max_delivery_attempts=1))
    app.directory.change(a_subscription(retry_policy=RAISED))
    app.pusher.script(URL, answered(500))

    app.run(a_message())

    assert app.waiting(Queue.RETRIES) == [(10 * SECOND, [0])]
    assert app.all_stored() == {Queue.RETRIES: 1}


def test_an_end_of_a_subscription_that_cannot_be_read_now_is_put_off(app: Deployment) -> None:
    app.subscribe(retry_policy=RetryPolicy(event_time_to_live_minutes=60))
    app.clock.advance(HOUR)
    app.directory.fail_next("read_uncached")

    app.run(a_message(due=START + HOUR))

    assert app.waiting(Queue.RETRIES) == [(MINUTE, [0])]


def test_many_ends_cost_one_uncached_read(app: Deployment) -> None:
    app.subscribe(retry_policy=RetryPolicy(event_time_to_live_minutes=60), dead_letter=DEAD)
    app.clock.advance(HOUR)
    reads = watched(app)

    app.run(a_message([a_delivery(number) for number in range(20)], due=START + HOUR))

    assert len(reads) == 1
    assert app.all_stored() == {Queue.DEADLETTERS: 1}


def test_where_nothing_ends_nothing_is_read_uncached(app: Deployment) -> None:
    app.subscribe()
    reads = watched(app)

    app.run(a_message())

    assert reads == []
