"""The 3-minute rule: a success after the timeout cancels what was stored. Contract §3.5."""

from __future__ import annotations

import pytest

from pushgrid.testing.memory import START, answered
from shared.delivery.policy import EndState
from shared.engine.delivering.in_flight import InFlightRequest
from shared.engine.delivering.results import Attempted, Shortage
from shared.engine.ports import Queue
from shared.metrics import Metric
from shared.subscriptions.subscription import Batching
from tests.builders import DEAD, URL, a_delivery, a_message, noise, text
from tests.functional.delivering.late import ONE_ATTEMPT, TIMEOUT, answer_late, time_out
from tests.functional.deployment import MINUTE, SECOND, Deployment, Logged
from tests.unit.delivery.messages.wire import together


@pytest.mark.parametrize("time_scale", [1, 60])
def test_answers_are_awaited_as_long_as_the_profile_says(
    app: Deployment, time_scale: float
) -> None:
    """Not scaled: it is the endpoint's time, not the schedule's."""
    app.set_terms(time_scale=time_scale)

    time_out(app)

    (sent,) = app.pusher.sent
    assert sent.late
    assert (sent.timeout, sent.late.within) == (30 * SECOND, 3 * MINUTE)


@pytest.mark.parametrize("profile", ["2017", "ns"])
def test_a_profile_without_the_rule_awaits_nothing(app: Deployment, profile: str) -> None:
    time_out(app, profile=profile)

    assert app.pusher.sent[0].late is None


def test_a_late_success_takes_the_retry_back(app: Deployment, logged: Logged) -> None:
    time_out(app)
    app.clock.advance(5 * SECOND)

    answer_late(app)

    assert app.all_stored() == {}
    (line,) = logged("delivery.answered_late")
    assert (
        line.items()
        >= {
            "topic": "orders",
            "subscription": "crm",
            "event_ids": ["e-0"],
            "status": 200,
            "seconds": 35,
            "cancelled": True,
        }.items()
    )
    for metric in (Metric.ANSWERED_LATE, Metric.DELIVERY_SUCCESS):
        assert app.metrics.of(metric) == {("orders", "crm"): 1}


@pytest.mark.parametrize("status", [503, 206])
def test_a_late_failure_changes_nothing(app: Deployment, logged: Logged, status: int) -> None:
    """Success is what the profile calls so."""
    time_out(app)

    answer_late(app, status=status)

    assert app.all_stored() == {Queue.RETRIES: 1}
    assert logged("delivery.answered_late") == []


def test_a_group_shrinks_and_keeps_its_time(app: Deployment) -> None:
    """The rest is due when it was, not its whole wait from now on."""
    time_out(app, events=3)
    app.clock.advance(4 * SECOND)

    answer_late(app, event=1)

    assert app.waiting(Queue.RETRIES) == [(6 * SECOND, [0, 2])]
    assert app.on(Queue.RETRIES)[0].due == START + 10 * SECOND
    answer_late(app, event=0)
    answer_late(app, event=2)
    assert app.all_stored() == {}


def test_a_message_without_the_event_stays_as_it_is(app: Deployment) -> None:
    held = app.hold('"e-1"')
    time_out(app, events=2)  # the first is stored before the second one fails

    app.pusher.script(URL, answered(200))
    held.let_go()
    app.loop.settle()

    assert [positions for _, positions in app.waiting(Queue.RETRIES)] == [[0]]


def test_a_batch_is_answered_as_one(app: Deployment, logged: Logged) -> None:
    time_out(app, events=5, batching=Batching(max_events=3))

    answer_late(app, 0)

    assert len(app.pusher.sent) == 2
    assert [positions for _, positions in app.waiting(Queue.RETRIES)] == [[3, 4]]
    (line,) = logged("delivery.answered_late")
    assert (line["count"], line["event_ids"]) == (3, ["e-0", "e-1", "e-2"])


def test_a_request_of_two_messages_is_taken_back_from_both(app: Deployment) -> None:
    """Each has stored a retry of its own."""
    app.limit_pushes(1)
    app.subscribe(batching=Batching(max_events=10))
    app.pusher.script(URL, answered(200), TIMEOUT)
    held = app.hold("e-0")
    for number in range(3):
        app.begin(a_message([a_delivery(number)], batch_size=10))
    held.let_go()
    app.loop.advance(SECOND)
    assert [positions for _, positions in app.waiting(Queue.RETRIES)] == [[1], [2]]

    answer_late(app, 1)

    assert app.all_stored() == {}


def test_what_became_several_messages_is_known_apart(app: Deployment) -> None:
    """A group that no longer fits into one message: each knows which deliveries it has."""
    big = [text(id=f"e-{number}", data=noise(30_000, number)) for number in range(3)]
    deliveries = [a_delivery(number, text=each) for number, each in enumerate(big)]
    requeue = app.deliver.requeue

    stored = app.loop.run(requeue.at_due(a_message(deliveries, due=app.in_a_minute())))
    shrunk = [app.loop.run(requeue.shrink(each, [])) for each in stored[1::-1]]

    assert all(shrunk)
    assert app.waiting(Queue.RETRIES) == [(MINUTE, [2])]


def test_what_somebody_has_received_is_left_alone(app: Deployment, logged: Logged) -> None:
    """The retry has begun: it is a duplicate, which "best effort" allows."""
    time_out(app, events=2)
    app.clock.advance(11 * SECOND)
    app.queues.receive(Queue.RETRIES, MINUTE)

    answer_late(app, 0)
    answer_late(app, 1)

    assert [positions for _, positions in app.waiting(Queue.RETRIES)] == [[0, 1]]
    assert [line["cancelled"] for line in logged("delivery.answered_late")] == [False, False]
    assert [each.state for each in app.attempts.records] == [None, None]
    assert app.metrics.of(Metric.DELIVERY_SUCCESS) == {}  # The retry's own success is counted.


def test_dead_letters_shrink_and_keep_their_time(app: Deployment) -> None:
    time_out(app, events=2, retry_policy=ONE_ATTEMPT, dead_letter=DEAD)
    app.clock.advance(MINUTE)

    answer_late(app, 0)

    assert app.waiting(Queue.DEADLETTERS) == [(4 * MINUTE, [1])]
    assert app.on(Queue.DEADLETTERS)[0].dead_letter is not None
    answer_late(app, 1)
    assert app.all_stored() == {}


def test_what_was_dropped_stays_so(app: Deployment, logged: Logged) -> None:
    time_out(app, retry_policy=ONE_ATTEMPT)

    answer_late(app)

    assert [line["cancelled"] for line in logged("delivery.answered_late")] == [False]
    assert len(logged("delivery.dropped")) == 1


def test_the_log_of_attempts_has_the_end(app: Deployment) -> None:
    time_out(app)
    app.clock.advance(5 * SECOND)

    answer_late(app)

    attempt, end = app.attempts.records
    assert (attempt.number, attempt.outcome is None, attempt.state) == (1, False, None)
    assert (end.number, end.outcome, end.state) == (1, None, EndState.DELIVERED)
    assert (end.event_id, end.system_id) == (attempt.event_id, attempt.system_id)
    assert (end.at, end.why) == (START + 5 * SECOND, "a late success, after 35 s")


def test_a_fault_of_ours_with_one_subscription_is_not_another_ones(
    app: Deployment, logged: Logged
) -> None:
    for name in ("broken", "late"):
        app.subscribe(name=name, endpoint_url=f"https://{name}.example/")
    app.pusher.script("https://late.example/", TIMEOUT)
    push = app.push

    async def pushing(request: InFlightRequest) -> Attempted | Shortage:
        if request.part.subscription.name == "broken":
            raise RuntimeError("a bug")
        return await push(request)

    app.push = pushing  # type: ignore[assignment]
    parts = [a_message(subscription=name) for name in ("broken", "late")]
    app.work(together(*parts))

    answer_late(app)

    assert [part.subscription for part in app.on(Queue.RETRIES)] == ["broken"]
    assert [line["cancelled"] for line in logged("delivery.answered_late")] == [True]
