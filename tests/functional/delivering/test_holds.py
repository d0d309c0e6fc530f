"""What a failing endpoint does to other events of its subscription, and what ends that. §2."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pushgrid.testing.memory import START, answered
from shared.delivery.delivery import LastAttempt
from shared.delivery.gate import Open
from shared.delivery.messages.message import EPOCH
from shared.delivery.outcome import Outcome
from shared.engine.ports import Queue
from shared.subscriptions.subscription import Batching, Pause, RetryPolicy
from tests.builders import (
    DEAD,
    URL,
    a_delivery,
    a_message,
    a_subscription,
    a_topic,
    an_attempt,
)
from tests.functional.delivering.failing import (
    TIMEOUT,
    another_process,
    answer_late,
    availability,
    fail,
    groups,
    pushed,
)
from tests.functional.deployment import MINUTE, SECOND, Deployment, Logged

TRIED = a_delivery(1, attempts=1, last=an_attempt())
PROBATION = an_attempt(Outcome.PROBATION, None)
TWICE = RetryPolicy(max_delivery_attempts=2)


def test_what_meets_probation_is_held_and_is_no_attempt(app: Deployment, logged: Logged) -> None:
    fail(app)

    app.run(a_message([a_delivery(1)]))

    assert pushed(app) == 0
    assert app.waiting(Queue.RETRIES) == [(10 * SECOND, [1])]
    untried = LastAttempt(Outcome.PROBATION, None, EPOCH)
    assert app.on(Queue.RETRIES)[0].deliveries == (a_delivery(1, last=untried),)
    line = logged("delivery.run")[-1]
    why = "503 Busy at 12:00:00Z (probation for Busy: 10 s)"
    assert (line["held"], line["held_because"]) == (1, why)
    assert line["held_until"] == "2026-02-09T12:00:10.0000000Z"


def test_a_hold_that_begins_keeps_the_rest_of_its_message(app: Deployment) -> None:
    """It begins with the second failure: one after a success is none that starts failing."""
    app.limit_pushes(1)
    app.subscribe()
    app.pusher.script(URL, answered(200), answered(503))

    app.run(a_message([a_delivery(number) for number in range(6)]))

    assert pushed(app) == 3
    assert groups(app) == [[1, 2], [3, 4, 5]]


@pytest.mark.parametrize("pause", [None, Pause(START, "ada")], ids=["probation", "pause"])
def test_what_is_held_expires_all_the_same(
    app: Deployment, logged: Logged, pause: Pause | None
) -> None:
    """With a destination it becomes a dead letter, otherwise it is dropped."""
    policy = RetryPolicy(event_time_to_live_minutes=1)
    app.subscribe(retry_policy=policy, pause=pause)
    app.subscribe(name="dead", retry_policy=policy, pause=pause, dead_letter=DEAD)
    fail(app, 404)
    app.clock.advance(MINUTE)

    app.run(a_message([a_delivery(1)]))
    app.run(a_message([a_delivery(1)], subscription="dead"))

    assert app.all_stored() == {Queue.DEADLETTERS: 1}
    (line,) = logged("delivery.dropped")
    assert (line["reason"], pushed(app)) == ("TimeToLiveExceeded", 0)


def test_held_events_come_back_one_after_the_other(app: Deployment) -> None:
    """At the rate of its pushes: each counts as a tenth of a second at least."""
    endpoint = app.deliver.endpoints.of(app.subscribe())
    fail(app)
    began = app.clock.now()
    for number in range(200):
        app.clock.advance(SECOND / 20)
        app.run(a_message([a_delivery(number)]))

    dues = [(each.due - began).total_seconds() for each in app.on(Queue.RETRIES) if each.due]

    assert len(dues) == 199  # The last one came when the hold was over, and was its probe.
    assert dues == sorted(dues)
    assert dues[0] == 10
    assert dues[-1] == pytest.approx(10 + 198 / (10 * endpoint.limit.value), rel=0.1)


@pytest.mark.parametrize(
    ("profile", "pushed_at"),
    [("2017", [0, 4, 5]), ("latest", [5])],
)
def test_the_edition_may_change_during_a_hold(
    app: Deployment, profile: str, pushed_at: list[int]
) -> None:
    """One that knows of no holds pushes at once; the others when it is over, as ever."""
    fail(app, 404)
    app.directory.topics["orders"] = a_topic(profile=profile)
    times = []
    for minute in (0, 4, 5):
        app.clock.advance(START + minute * MINUTE - app.clock.now())
        app.pusher.sent.clear()
        app.run(a_message([a_delivery(minute)]))
        if pushed(app):
            times.append(minute)

    assert times == pushed_at


def test_a_failed_batch_of_ten_new_events_delays_delivery(app: Deployment) -> None:
    """Not one that is tried again: the first attempts of different events count."""
    app.directory.topics["orders"] = a_topic(profile="2020")
    app.subscribe(batching=Batching(max_events=10, preferred_kilobytes=64))
    app.pusher.script(URL, answered(500))
    batches = [[a_delivery(10 * number + each) for each in range(10)] for number in range(3)]

    app.run(a_message([replace(each, attempts=1, last=an_attempt()) for each in batches[0]]))
    for batch in batches[1:]:
        app.run(a_message(batch))

    assert pushed(app) == 2


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
    fail(app)
    app.clock.advance(10 * SECOND)
    first, second = app.new_process(), app.new_process()
    for process in (first, second):
        availability(app, a_subscription(), process)  # both know that a probe is due
    held = app.hold("e-1")

    app.deliver = first
    probe = app.begin(a_message([a_delivery(1)]))
    app.deliver = second
    app.run(a_message([a_delivery(2)]))

    assert (held.held, pushed(app)) == (["e-1"], 0)
    assert app.waiting(Queue.RETRIES) == [(3 * SECOND, [2])]
    held.let_go()
    app.loop.settle()
    assert probe.done()


def test_the_line_waits_for_the_probe_whatever_else_ends_meanwhile(app: Deployment) -> None:
    app.subscribe()
    held = app.hold('"e-9"', '"e-1"')
    app.begin(a_message([a_delivery(9)]))
    fail(app)
    app.clock.advance(10 * SECOND)
    app.begin(a_message([a_delivery(1), a_delivery(2)]))

    held.let_go('"e-9"')
    app.loop.advance(2 * SECOND)

    assert app.all_stored() == {}
    held.let_go()
    app.loop.settle()
    assert pushed(app) == 3


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
    assert groups(app) == [[2], [3, 4]]


def test_a_late_success_releases_the_hold_its_timeout_began(app: Deployment) -> None:
    """Also for other processes: the row says so."""
    subscription = app.subscribe()
    app.pusher.script(URL, TIMEOUT)
    app.run(a_message())
    app.clock.advance(5 * SECOND)

    answer_late(app)
    another_process(app)

    assert availability(app, subscription) == Open()


def test_only_one_event_probes_while_tables_fail(app: Deployment) -> None:
    """The others wait for its answer."""
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


@pytest.mark.parametrize(
    ("switch", "status", "attempts", "reason"),
    [
        ("probation_counts_attempt", 503, 2, "MaxDeliveryAttemptsExceeded"),
        ("probation_ends_events", 404, 1, "UndeliverableDueToProbationCausedByClientError"),
    ],
)
def test_the_deployment_s_switches_end_what_is_held(
    app: Deployment, switch: str, status: int, attempts: int, reason: str
) -> None:
    """``Probation`` is the last outcome (contract §3.6). `test_held_deliveries` has the rules."""
    app.set_terms(**{switch: True})
    app.subscribe(retry_policy=TWICE, dead_letter=DEAD)
    fail(app, status)

    app.run(a_message([TRIED]))

    (message,) = app.on(Queue.DEADLETTERS)
    assert message.dead_letter
    assert message.dead_letter.reason == reason
    assert message.deliveries == (replace(TRIED, attempts=attempts, last=PROBATION),)


def test_a_held_slot_is_not_the_last_attempt_where_another_instance_allowed_more(
    app: Deployment,
) -> None:
    app.set_terms(probation_counts_attempt=True)
    app.subscribe(retry_policy=TWICE, dead_letter=DEAD)
    fail(app)
    app.directory.change(a_subscription(retry_policy=RetryPolicy(max_delivery_attempts=3)))

    app.run(a_message([TRIED]))

    assert app.on(Queue.RETRIES)[-1].deliveries == (TRIED,)
    assert app.on(Queue.DEADLETTERS) == []
