"""What a failing endpoint does to other events of its subscription. Design §2, Health."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from shared.delivery.outcome import Outcome
from shared.engine.ports import Queue, Resource, Table
from shared.http import Failure, NotAnswered
from shared.subscriptions.subscription import RetryPolicy
from tests.builders import (
    DEAD,
    URL,
    a_delivery,
    a_message,
    a_subscription,
    a_topic,
    an_attempt,
    text,
)
from tests.fakes import START, InlinePushPool, answered
from tests.functional.deployment import MINUTE, SECOND, Deployment, Logged

TIMEOUT = NotAnswered(Failure.TIMED_OUT, "no answer in time", 30)
PROBATION = an_attempt(Outcome.PROBATION, None)


def fail(app: Deployment, status: int = 503, events: int = 1) -> None:
    """Let events fail, each in a message of its own, and forget what is stored for them."""
    if not app.directory.known:
        app.subscribe()
    app.pusher.script(URL, answered(status))
    for number in range(events):
        app.run(a_message([a_delivery(100 + number)]))
    forget(app)
    app.pusher.script(URL, answered(200))


def forget(app: Deployment) -> None:
    app.queues.stored.clear()
    app.pusher.sent.clear()


def switch(app: Deployment, **switches: Any) -> None:
    app.deliver = replace(app.deliver, rules=replace(app.deliver.rules, **switches))


def another_process(app: Deployment) -> None:
    """Go on as a process that knows only what is stored."""
    app.deliver = replace(app.deliver, health=app.tracker())


def pushed(app: Deployment) -> int:
    return len(app.pusher.sent)


def test_what_meets_probation_is_held_and_is_no_attempt(app: Deployment, logged: Logged) -> None:
    fail(app)

    app.run(a_message([a_delivery(1)]))

    assert pushed(app) == 0
    assert app.waiting(Queue.RETRIES) == [(10 * SECOND, [1])]
    assert app.on(Queue.RETRIES)[0].deliveries == (a_delivery(1),)
    line = logged("delivery.run")[-1]
    assert (line["held"], line["held_because"]) == (1, "probation for Busy: 10 s")
    assert line["held_until"] == "2026-02-09T12:00:10.0000000Z"


def test_a_hold_that_begins_keeps_the_rest_of_its_message(app: Deployment) -> None:
    app.subscribe()
    app.pusher.script(URL, answered(200), answered(503))

    app.run(a_message([a_delivery(number) for number in range(5)]))

    assert pushed(app) == 2
    assert [each for _, each in app.waiting(Queue.RETRIES)] == [[1], [2, 3, 4]]


def test_a_long_hold_lies_on_the_queue_without_a_trigger(app: Deployment) -> None:
    """Holds over a minute must not make Azure scale out; the timer needs a minute ahead."""
    fail(app, 404)

    app.run(a_message([a_delivery(1)]))

    assert app.waiting(Queue.WAITING) == [(4 * MINUTE, [1])]
    assert app.all_stored() == {Queue.WAITING: 1}


def test_what_is_held_for_long_is_looked_at_every_five_minutes(app: Deployment) -> None:
    app.directory.topics["orders"] = a_topic(profile="2020")
    fail(app, 500, events=10)
    for wait in (1, 2, 4):
        app.clock.advance(wait * MINUTE)
        fail(app, 500)

    app.run(a_message([a_delivery(1)]))

    (message,) = app.on(Queue.WAITING)
    assert message.due == app.clock.now() + 5 * MINUTE


def test_what_is_held_expires_all_the_same(app: Deployment, logged: Logged) -> None:
    app.subscribe(retry_policy=RetryPolicy(event_time_to_live_minutes=1))
    fail(app, 404)
    app.clock.advance(MINUTE)

    app.run(a_message([a_delivery(1)]))

    assert app.all_stored() == {}
    (line,) = logged("delivery.dropped")
    assert line["reason"] == "TimeToLiveExceeded"


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
    terms = app.deliver.rules.terms(subscription)
    first, second = app.tracker(), app.tracker()
    for each in (first, second):
        each.standing(subscription, terms)

    claims = [each.claim_probe(subscription, terms) for each in (first, second)]

    assert claims == [True, False]
    app.deliver = replace(app.deliver, health=second)
    app.run(a_message([a_delivery(1)]))
    assert pushed(app) == 0
    assert app.waiting(Queue.RETRIES) == [(3 * SECOND, [1])]


def test_a_probe_that_never_ends_is_repeated(app: Deployment) -> None:
    """Its process died: after the acknowledgement timeout and 10 s another may."""
    subscription = app.subscribe()
    fail(app)
    app.clock.advance(10 * SECOND)
    died = app.tracker()
    terms = app.deliver.rules.terms(subscription)
    died.standing(subscription, terms)
    assert died.claim_probe(subscription, terms)

    app.clock.advance(39 * SECOND)
    app.run(a_message([a_delivery(1)]))
    assert pushed(app) == 0
    app.clock.advance(SECOND)
    app.run(a_message([a_delivery(1)]))

    assert pushed(app) == 1


def test_a_probe_that_found_no_slot_leaves_it_to_another(app: Deployment) -> None:
    fail(app)
    app.clock.advance(10 * SECOND)
    app.deliver = replace(app.deliver, pool=InlinePushPool(unstarted=1))
    app.run(a_message([a_delivery(1)]))
    assert (pushed(app), app.waiting(Queue.RETRIES)) == (0, [(10 * SECOND, [1])])

    app.deliver = replace(app.deliver, pool=app.pool)
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


def test_one_event_alone_keeps_its_schedule(app: Deployment) -> None:
    """All-503 comes at 0, 30, 60, 120 s (contract §3.4): its own probation never delays it."""
    app.subscribe()
    app.pusher.script(URL, answered(503))
    app.run(a_message())
    times = []
    for _ in range(3):
        (message,) = app.on(Queue.RETRIES)
        assert message.due
        app.clock.advance(message.due - app.clock.now())
        app.queues.stored.clear()
        app.run(message)
        times.append((app.clock.now() - START).total_seconds())

    assert (pushed(app), times) == (4, [30, 60, 120])


def test_ten_first_attempts_that_fail_hold_everything(app: Deployment) -> None:
    app.directory.topics["orders"] = a_topic(profile="2020")
    app.subscribe()
    app.pusher.script(URL, answered(500))

    app.run(a_message([a_delivery(number) for number in range(12)]))

    assert pushed(app) == 10
    (message,) = app.on(Queue.WAITING)
    assert [each.position for each in message.deliveries] == [10, 11]
    assert message.due
    assert MINUTE <= message.due - START < MINUTE + SECOND


def test_after_the_hold_a_success_releases_everything(app: Deployment) -> None:
    app.directory.topics["orders"] = a_topic(profile="2020")
    fail(app, 500, events=10)
    app.clock.advance(MINUTE)

    app.run(a_message([a_delivery(number) for number in range(5)]))

    assert (pushed(app), app.all_stored()) == (5, {})
    another_process(app)
    app.run(a_message([a_delivery(6)]))
    assert pushed(app) == 6


def test_a_late_success_does_not_release_the_hold_its_timeout_began(app: Deployment) -> None:
    """It was sent before the hold began; one that was sent after it does."""
    subscription = app.subscribe()
    app.pusher.script(URL, TIMEOUT)
    app.run(a_message())
    late = app.pusher.sent[0].late
    assert late
    app.clock.advance(5 * SECOND)

    late.tell(answered(200, seconds=35))

    assert app.deliver.health.held(subscription)


def test_a_late_success_sent_after_the_hold_began_releases_it(app: Deployment) -> None:
    subscription = app.subscribe()
    app.pusher.script(URL, answered(503), TIMEOUT)
    app.run(a_message())
    app.clock.advance(10 * SECOND)
    app.run(a_message([a_delivery(1)]))
    probe = app.pusher.sent[1]
    app.deliver = replace(app.deliver, health=app.tracker())  # not the one that waits for it
    assert probe.late

    probe.late.tell(answered(200, seconds=35))

    assert app.deliver.health.held(subscription) is None


@pytest.mark.parametrize("status", [404, 503])
def test_a_hold_is_seen_by_another_process(app: Deployment, status: int) -> None:
    """Also after a restart: that is another process, too."""
    fail(app, status)
    another_process(app)

    app.run(a_message([a_delivery(1)]))

    assert pushed(app) == 0


def test_delayed_delivery_is_seen_by_another_process(app: Deployment) -> None:
    """The tenth failure comes within a second of the row's last write."""
    app.directory.topics["orders"] = a_topic(profile="2020")
    fail(app, 500, events=10)
    another_process(app)

    app.run(a_message([a_delivery(1)]))

    assert pushed(app) == 0


def test_a_subscription_that_was_created_again_begins_anew(app: Deployment) -> None:
    fail(app)
    app.subscribe(generation="g-2")
    app.pusher.script(URL, answered(200), answered(404))

    app.run(a_message([a_delivery(1)], generation="g-2"))
    app.run(a_message([a_delivery(2)], generation="g-2"))
    another_process(app)
    app.run(a_message([a_delivery(3)], generation="g-2"))

    assert pushed(app) == 2
    row = app.resources.get(Table.ENDPOINT_HEALTH, "orders", "crm")
    assert row
    assert row.document["generation"] == "g-2"


def test_a_healthy_delivery_writes_nothing(app: Deployment, monkeypatch: Any) -> None:
    puts: list[object] = []
    monkeypatch.setattr(app.resources, "put", lambda *args: puts.append(args))
    app.subscribe()

    app.run(a_message([a_delivery(number) for number in range(20)]))

    assert (pushed(app), puts) == (20, [])


def test_many_failures_are_one_write_a_second(app: Deployment, monkeypatch: Any) -> None:
    puts: list[object] = []
    put = app.resources.put

    def counted(*args: Any) -> Resource:
        puts.append(args)
        return put(*args)

    monkeypatch.setattr(app.resources, "put", counted)
    app.directory.topics["orders"] = a_topic(profile="2019")
    app.subscribe()
    app.pusher.script(URL, answered(500))

    app.run(a_message([a_delivery(number, attempts=1) for number in range(9)]))
    app.run(a_message([a_delivery(number) for number in range(8)]))

    assert (pushed(app), len(puts)) == (17, 1)


@pytest.mark.parametrize("method", ["list", "get", "put"])
def test_tables_that_fail_stop_no_delivery(app: Deployment, method: str) -> None:
    fail(app)
    app.clock.advance(10 * SECOND)
    app.resources.fail_next(method, 100)

    app.run(a_message([a_delivery(number) for number in range(3)]))

    assert (pushed(app), app.all_stored()) == (3, {})


def test_a_hold_that_could_not_be_stored_is_stored_later(app: Deployment) -> None:
    app.resources.fail_next("put")
    fail(app, 404)
    app.run(a_message([a_delivery(1)]))
    app.clock.advance(5 * SECOND)
    app.run(a_message([a_delivery(1)]))
    another_process(app)

    app.run(a_message([a_delivery(2)]))

    assert pushed(app) == 0


def test_held_events_come_back_one_after_the_other(app: Deployment) -> None:
    """New ones come at 20 a second, and so do those that were held."""
    app.subscribe()
    for number in range(400):
        app.clock.advance(SECOND / 20)
        app.run(a_message([a_delivery(number)]))
    fail(app)
    began = app.clock.now()
    for number in range(200):
        app.clock.advance(SECOND / 20)
        app.run(a_message([a_delivery(number)]))

    dues = [(each.due - began).total_seconds() for each in app.on(Queue.RETRIES) if each.due]

    assert len(dues) == 199  # The last one came when the hold was over, and was its probe.
    assert dues == sorted(dues)
    assert dues[0] == 10
    assert dues[-1] == pytest.approx(10 + 198 / 20, rel=0.1)


def test_another_process_knows_how_fast_events_come(app: Deployment) -> None:
    """On Azure the retries have instances of their own, which never see a new event."""
    app.subscribe()
    for _ in range(8):
        app.run(a_message([a_delivery(number) for number in range(50)]))
    fail(app)
    app.clock.advance(2 * SECOND)
    app.run(a_message([a_delivery(1)]))
    another_process(app)
    forget(app)

    app.run(a_message([a_delivery(number) for number in range(60)], due=app.clock.now()))

    dues = [each.due for each in app.on(Queue.RETRIES) if each.due]
    assert max(dues) - START <= 13 * SECOND


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


def test_what_is_known_is_bounded(app: Deployment) -> None:
    app.pusher.script(URL, answered(503))
    for number in range(10_050):
        app.deliver.health.arrived(a_subscription(name=f"crm-{number}"), 1)

    assert len(app.deliver.health) == 10_000


def test_the_text_of_a_parked_event_that_is_held_stays_parked(app: Deployment) -> None:
    """What is put back is as it came: the blob keeps the event."""
    fail(app)
    parked = a_delivery(0, text=None)
    blob = app.payloads.write("p", START + timedelta(days=4), [text()])
    parked = replace(parked, origin=parked.origin._replace(payload=blob))

    app.run(a_message([parked]))

    assert app.on(Queue.RETRIES)[0].deliveries == (parked,)
