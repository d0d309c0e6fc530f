"""Delivering one queue message: what is pushed, and what is stored before it may be deleted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from shared.delivery.message import encode
from shared.delivery.outcome import Outcome
from shared.engine.ports import Queue
from shared.errors import MalformedMessage, StorageUnavailable
from shared.http import Exchange, Failure, Late, NotAnswered, OutboundRequest
from shared.subscriptions.subscription import RetryPolicy
from tests.builders import (
    DEAD,
    ORIGIN,
    PARKED,
    URL,
    a_delivery,
    a_message,
    a_note,
    a_subscription,
    a_topic,
    an_attempt,
    text,
)
from tests.fakes import START, ScriptedPusher, answered
from tests.functional.deployment import MINUTE, SECOND, Deployment, Logged

NO_ANSWER = NotAnswered(Failure.SOCKET, "refused", 0.1)
HOUR = timedelta(hours=1)


def test_a_success_leaves_nothing_behind(app: Deployment) -> None:
    app.subscribe()

    app.run(a_message([a_delivery(0), a_delivery(1)]))

    ids = [json.loads(sent.request.body)[0]["id"] for sent in app.pusher.sent]
    assert (ids, app.all_stored()) == (["e-0", "e-1"], {})
    assert {sent.timeout for sent in app.pusher.sent} == {timedelta(seconds=30)}


def test_a_failure_is_stored_for_its_retry(app: Deployment) -> None:
    app.subscribe()
    app.pusher.script(URL, answered(503))

    app.run(a_message())

    assert app.all_stored() == {Queue.RETRIES: 1}
    (message,) = app.on(Queue.RETRIES)
    assert message.due == START + 30 * SECOND
    assert app.queues.waits(Queue.RETRIES) == [30 * SECOND]
    (delivery,) = message.deliveries
    assert delivery == a_delivery(attempts=1, last=an_attempt(Outcome.BUSY, 503))


def test_jitter_is_added_and_visibility_rounded_up(app: Deployment) -> None:
    app.subscribe()
    app.pusher.script(URL, answered(500))
    app.jitter = 0.55

    app.run(a_message())

    assert app.on(Queue.RETRIES)[0].due == START + 10.55 * SECOND
    assert app.queues.waits(Queue.RETRIES) == [11 * SECOND]


@pytest.mark.parametrize(
    ("attempts", "queue", "hidden"),
    [
        pytest.param(5, Queue.RETRIES, timedelta(minutes=10), id="10 min"),
        pytest.param(6, Queue.WAITING, timedelta(minutes=29), id="30 min"),
        pytest.param(10, Queue.WAITING, timedelta(hours=11, minutes=59), id="12 h"),
    ],
)
def test_a_long_wait_lies_on_the_queue_without_a_trigger(
    app: Deployment, attempts: int, queue: Queue, hidden: timedelta
) -> None:
    """Design §2, Waiting: over ten minutes; the timer of each minute needs a minute ahead."""
    app.subscribe()
    app.pusher.script(URL, NO_ANSWER)

    app.run(a_message([a_delivery(attempts=attempts - 1)]))

    assert app.waiting(queue) == [(hidden, [0])]
    assert len(app.all_stored()) == 1


def test_failures_due_together_share_a_retry_message(app: Deployment) -> None:
    app.directory.topics["orders"] = a_topic(profile="2020")  # without probation
    app.subscribe()
    app.pusher.script(URL, answered(200), answered(500), answered(408), answered(502))

    app.run(a_message([a_delivery(number) for number in range(4)]))

    assert app.waiting(Queue.RETRIES) == [(10 * SECOND, [1, 3]), (2 * MINUTE, [2])]


class Troubled(ScriptedPusher):
    """A bug of ours in the middle of a group."""

    def send(
        self, request: OutboundRequest, timeout: timedelta, late: Late | None = None
    ) -> Exchange:
        if b"e-1" in request.body:
            raise RuntimeError("a bug")
        return super().send(request, timeout, late)


def test_an_exception_while_pushing_is_that_events_outcome(app: Deployment) -> None:
    """Design §2, order of writes 6."""
    app.subscribe()
    app.deliver = replace(app.deliver, pusher=Troubled(app.clock))

    app.run(a_message([a_delivery(number) for number in range(3)]))

    (message,) = app.on(Queue.RETRIES)
    last = message.deliveries[0].last
    assert [each.position for each in message.deliveries] == [1]
    assert last is not None
    assert (last.outcome, last.status) == (Outcome.GENERIC_ERROR, None)


def test_an_event_that_cannot_be_written_never_harms_its_group(app: Deployment) -> None:
    app.subscribe()

    app.run(a_message([a_delivery(0, text="[]"), a_delivery(1)]))

    assert app.waiting(Queue.RETRIES) == [(10 * SECOND, [0])]
    assert len(app.pusher.sent) == 1


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


def test_without_a_destination_it_is_dropped_and_counted(app: Deployment, logged: Logged) -> None:
    app.subscribe()
    app.pusher.script(URL, answered(413))

    app.run(a_message())

    assert app.all_stored() == {}
    (line,) = logged("delivery.dropped")
    assert (line["reason"], line["count"]) == ("UndeliverableDueToHttpPayloadTooLarge", 1)


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
    app.directory.fail_next("fresh")
    app.pusher.script(URL, answered(401))

    app.run(a_message())

    assert app.all_stored() == {Queue.RETRIES: 1}


def test_many_final_answers_cost_one_look(app: Deployment) -> None:
    app.subscribe()
    app.pusher.script(URL, answered(400))
    looks = []
    fresh = app.directory.fresh
    app.directory.fresh = lambda *names: (looks.append(names), fresh(*names))[1]  # type: ignore[method-assign,func-returns-value]

    app.run(a_message([a_delivery(number) for number in range(20)]))

    assert len(looks) == 1


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


def test_ends_for_different_reasons_are_told_apart(app: Deployment) -> None:
    app.subscribe(dead_letter=DEAD)
    app.pusher.script(URL, answered(400), answered(413), answered(400))

    app.run(a_message([a_delivery(number) for number in range(3)]))

    assert [positions for _, positions in app.waiting(Queue.DEADLETTERS)] == [[0, 2], [1]]


# --- early, newer, damaged


@pytest.mark.parametrize(
    ("early", "pushes"), [(2, 1), (2.001, 0), (600, 0)], ids=["2 s", "more", "10 min"]
)
def test_a_message_received_early_is_put_back_unattempted(
    app: Deployment, early: float, pushes: int
) -> None:
    """Design §2: by more than 2 s."""
    app.subscribe()
    message = a_message([a_delivery(attempts=3, last=an_attempt())], due=START + early * SECOND)

    app.run(message)

    assert len(app.pusher.sent) == pushes
    assert app.on(Queue.RETRIES) == ([] if pushes else [message])


def test_a_message_far_too_early_waits_on_the_other_queue(app: Deployment) -> None:
    app.run(a_message(due=START + HOUR))

    assert app.waiting(Queue.WAITING) == [(59 * MINUTE, [0])]


@pytest.mark.parametrize("newer", ['{"pushgrid":3}', '{"pushgrid":4,"x":"\u00fc"}'])
def test_a_newer_message_is_put_back_for_five_minutes(app: Deployment, newer: str) -> None:
    app.deliver.run(newer.encode())

    assert app.queues.texts(Queue.RETRIES) == [newer]
    assert app.queues.waits(Queue.RETRIES) == [5 * MINUTE]


def test_a_damaged_message_is_a_fault_of_ours(app: Deployment) -> None:
    with pytest.raises(MalformedMessage):
        app.deliver.run(b"damaged")

    assert app.all_stored() == {}


def test_dead_letters_are_not_delivered(app: Deployment) -> None:
    app.subscribe()

    with pytest.raises(MalformedMessage, match="dead letters"):
        app.run(a_message(dead_letter=a_note()))


# --- the subscription


def test_events_of_a_deleted_subscription_are_dropped(app: Deployment, logged: Logged) -> None:
    app.run(a_message([a_delivery(0), a_delivery(1)]))

    (line,) = logged("delivery.dropped")
    assert (line["reason"], line["count"]) == ("SubscriptionDeleted", 2)
    assert (app.pusher.sent, app.all_stored()) == ([], {})


def test_events_of_an_earlier_generation_are_dropped(app: Deployment, logged: Logged) -> None:
    """Design §2, order of writes 7."""
    app.subscribe(generation="g-2", dead_letter=DEAD)

    app.run(a_message())

    assert [line["reason"] for line in logged("delivery.dropped")] == ["SubscriptionDeleted"]
    assert (app.pusher.sent, app.all_stored()) == ([], {})


def test_events_of_an_expired_subscription_are_dropped(app: Deployment, logged: Logged) -> None:
    """From the very moment on; design §2, order of writes 4: the cache alone is not believed."""
    app.subscribe(expires_at=app.clock.now(), dead_letter=DEAD)

    app.run(a_message())

    assert [line["reason"] for line in logged("delivery.dropped")] == ["SubscriptionExpired"]
    assert (app.pusher.sent, app.all_stored()) == ([], {})

    app.directory.change(a_subscription(expires_at=app.in_a_minute()))
    app.run(a_message())
    assert len(app.pusher.sent) == 1


@pytest.mark.parametrize("known", [None, "g-0"], ids=["not known yet", "known from before"])
def test_a_subscription_is_looked_up_past_the_cache_before_its_events_end(
    app: Deployment, known: str | None
) -> None:
    if known:
        app.subscribe(generation=known, endpoint_url="https://old.example/")
    app.directory.change(a_subscription())

    app.run(a_message())

    assert [sent.request.url for sent in app.pusher.sent] == [URL]


def test_a_cached_subscription_serves_without_a_look(app: Deployment) -> None:
    app.subscribe()
    app.directory.fail_next("fresh")

    app.run(a_message())

    assert len(app.pusher.sent) == 1


@pytest.mark.parametrize("method", ["subscription", "fresh", "topic"])
def test_while_tables_fail_events_are_put_back(app: Deployment, method: str) -> None:
    app.directory.change(a_subscription())
    app.directory.fail_next(method)
    delivery = a_delivery(attempts=2, last=an_attempt())

    app.run(a_message([delivery], rounds=2))

    (message,) = app.on(Queue.RETRIES)
    assert message == a_message([delivery], rounds=2, due=START + MINUTE)
    assert (app.queues.waits(Queue.RETRIES), app.pusher.sent) == ([MINUTE], [])


# --- payloads


def test_parked_events_are_read_from_their_blob(app: Deployment) -> None:
    app.subscribe()
    name = app.payloads.write("p", START + HOUR, ["", text(id="parked")])
    origin = ORIGIN._replace(payload=name)

    app.run(a_message([a_delivery(0), a_delivery(1, text=None, origin=origin)]))

    ids = [json.loads(sent.request.body)[0]["id"] for sent in app.pusher.sent]
    assert ids == ["e-0", "parked"]


def test_a_parked_event_stays_parked_for_its_retry(app: Deployment) -> None:
    app.subscribe()
    name = app.payloads.write("p", START + HOUR, [text()])
    app.pusher.script(URL, answered(500))

    app.run(a_message([a_delivery(text=None, origin=ORIGIN._replace(payload=name))]))

    (delivery,) = app.on(Queue.RETRIES)[0].deliveries
    assert (delivery.text, delivery.origin.payload) == (None, name)


@pytest.mark.parametrize("lines", [None, ["", "x"], []], ids=["no blob", "empty line", "too short"])
def test_a_missing_payload_is_a_recorded_end(
    app: Deployment, logged: Logged, lines: Sequence[str] | None
) -> None:
    """Design §2, order of writes 5: never an exception, and the others go on."""
    app.subscribe(dead_letter=DEAD)
    if lines is not None:
        app.payloads.blobs[str(PARKED.payload)] = tuple(lines)

    app.run(a_message([a_delivery(0, text=None, origin=PARKED), a_delivery(1)]))

    assert [line["reason"] for line in logged("delivery.dropped")] == ["PayloadMissing"]
    assert (len(app.pusher.sent), app.all_stored()) == (1, {})


def test_a_payload_that_cannot_be_read_now_is_no_end(app: Deployment) -> None:
    """However long blobs fail: the host would give the message up after 20 minutes."""
    app.subscribe()
    app.payloads.fail_next("read")

    app.run(a_message([a_delivery(text=None, origin=PARKED)]))

    assert app.waiting(Queue.RETRIES) == [(MINUTE, [0])]


# --- storing what comes next


def test_a_put_that_fails_for_less_than_two_minutes_is_survived(app: Deployment) -> None:
    """Design §2, order of writes 2."""
    app.subscribe()
    app.pusher.script(URL, answered(500))
    app.queues.fail_next("put", times=10)

    app.run(a_message())

    assert len(app.on(Queue.RETRIES)) == 1
    assert app.slept == [0.2, 0.5, 1, 2, 5, 10, 10, 10, 10, 10]


def test_a_put_that_fails_for_longer_keeps_the_message(app: Deployment) -> None:
    app.subscribe()
    app.pusher.script(URL, answered(500))
    app.queues.fail_next("put", times=1000)

    with pytest.raises(StorageUnavailable):
        app.run(a_message())

    assert 120 <= sum(app.slept) < 131


def test_every_next_message_is_stored_before_the_run_returns(app: Deployment) -> None:
    """The host deletes the old one as soon as it returns."""
    app.subscribe(dead_letter=DEAD)
    app.pusher.script(URL, answered(500), answered(400), answered(404), answered(200))
    app.pool.unstarted = 1

    app.run(a_message([a_delivery(number) for number in range(5)]))

    kept = [
        delivery.position
        for queue in (Queue.RETRIES, Queue.DEADLETTERS)
        for message in app.on(queue)
        for delivery in message.deliveries
    ]
    assert sorted(kept) == [0, 1, 2, 4]


def test_deliveries_that_found_no_slot_are_put_back_uncounted(app: Deployment) -> None:
    app.subscribe()
    app.pool.unstarted = 2
    tried = a_delivery(2, attempts=4, last=an_attempt())

    app.run(a_message([a_delivery(0), a_delivery(1), tried], rounds=1))

    (message,) = app.on(Queue.RETRIES)
    assert message == a_message([a_delivery(1), tried], due=START + 10 * SECOND)
    assert app.pool.keys == ["orders/crm"]


class Slow(ScriptedPusher):
    """Every push takes a second; meanwhile this many retry messages are stored."""

    def __init__(self, app: Deployment) -> None:
        super().__init__(app.clock)
        self._queues = app.queues
        self.stored: list[int] = []

    def send(
        self, request: OutboundRequest, timeout: timedelta, late: Late | None = None
    ) -> Exchange:
        self.stored.append(len(self._queues.texts(Queue.RETRIES)))
        self._clock.advance(SECOND)
        return super().send(request, timeout, late)


def test_failures_are_stored_while_slow_ones_go_on(app: Deployment) -> None:
    """What failed a second ago is stored: a crash repeats little, and waits are kept."""
    app.subscribe()
    slow = Slow(app)
    slow.script(URL, answered(500))
    app.deliver = replace(app.deliver, pusher=slow)

    app.run(a_message([a_delivery(number) for number in range(4)]))

    dues = [message.due for message in app.on(Queue.RETRIES)]
    assert slow.stored == [0, 0, 2, 2]
    assert dues == [START + seconds * SECOND for seconds in (11, 12, 13, 14)]


def test_a_tagged_topic_has_its_own_profile(app: Deployment, logged: Logged) -> None:
    app.directory.topics["orders"] = a_topic(profile="latest")
    app.deliver = replace(
        app.deliver, terms=replace(app.deliver.terms, default_profile="none such")
    )
    app.subscribe()
    app.pusher.script(URL, answered(500))

    app.run(a_message())

    assert [line["profile"] for line in logged("delivery.attempted")] == ["latest"]


def test_a_failed_attempt_is_told_with_the_rule_behind_the_next(
    app: Deployment, logged: Logged
) -> None:
    app.subscribe()
    app.pusher.script(URL, answered(503))

    app.run(a_message())

    (line,) = logged("delivery.attempted")
    assert (line["attempt"], line["outcome"], line["status"]) == (1, "Busy", 503)
    assert (line["decision"], line["why"]) == ("retry", "minimum for 503: 30 s")
    assert line["next_attempt_at"] == "2026-02-09T12:00:30.0000000Z"
    assert URL not in str(logged("delivery.attempted") + logged("delivery.run"))


def test_a_whole_day_of_failures_ends_in_one_dead_letter(app: Deployment) -> None:
    """From the first push to the blob: 11 attempts, the last at 22:46:40, the end at 34:46:40."""
    app.subscribe(dead_letter=DEAD)
    app.pusher.script(URL, NO_ANSWER)
    app.queues.put(Queue.DELIVERIES, encode(a_message())[0])

    for _ in range(36 * 60 * 2):
        app.clock.advance(30 * SECOND)
        app.wake.run()
        for queue in (Queue.DELIVERIES, Queue.RETRIES):
            for received in app.queues.receive(queue, MINUTE):
                app.deliver.run(received.text.encode())
                app.queues.delete(queue, received)
        app.write_dead_letters.run(app.in_a_minute())

    assert len(app.pusher.sent) == 11
    counts = [sent.request.headers["aeg-delivery-count"] for sent in app.pusher.sent]
    assert counts == [str(number) for number in range(11)]
    (blob,) = app.dead_letters.blobs.values()
    (letter,) = json.loads(blob)
    assert (letter["deadLetterReason"], letter["deliveryAttempts"]) == ("TimeToLiveExceeded", 11)
    assert app.all_stored() == {}


def test_no_push_of_an_invocation_begins_after_a_minute(app: Deployment) -> None:
    """Design §2, Isolation: with 42 s for the push itself, far from the host's own limit."""
    app.subscribe()

    app.run(a_message())

    assert app.pool.stop_after == [timedelta(minutes=1)]
