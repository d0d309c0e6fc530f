"""The 3-minute rule: a success after the timeout cancels what was stored. Contract §3.5."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from pushgrid.testing.memory import START, answered
from pushgrid.testing.memory.pushing import Sent
from shared.delivery.pace import FIRST
from shared.delivery.policy import EndState
from shared.engine.ports import Queue, Receipt
from shared.errors import StorageUnavailable
from shared.http import Exchange
from shared.metrics import Metric
from shared.subscriptions.subscription import Batching
from tests.builders import DEAD, URL, a_delivery, a_message, a_topic
from tests.functional.delivering.failing import (
    ONE_ATTEMPT,
    TIMEOUT,
    answer_by,
    answer_late,
    break_pushes,
    groups,
    is_of,
    let_live,
    time_out,
)
from tests.functional.deployment import MINUTE, SECOND, Deployment, Logged, known
from tests.unit.delivery.messages.wire import together

DEAD_LETTERED = {"retry_policy": ONE_ATTEMPT, "dead_letter": DEAD}


@pytest.mark.parametrize(
    ("profile", "time_scale", "timeout", "within"),
    [
        ("2020", 1, 30, 3 * MINUTE),
        ("2020", 60, 30, 3 * MINUTE),  # it is the endpoint's time, not the schedule's
        ("ns", 1, 30, None),
    ],
)
def test_answers_are_awaited_as_long_as_the_profile_says(
    app: Deployment, profile: str, time_scale: float, timeout: int, within: timedelta | None
) -> None:
    app.set_terms(time_scale=time_scale)

    time_out(app, profile=profile)

    (sent,) = app.pusher.sent
    assert (sent.timeout, sent.late and sent.late.within) == (timeout * SECOND, within)


def test_a_late_success_takes_the_retry_back(app: Deployment, logged: Logged) -> None:
    """Log, counts and the log of attempts have the end."""
    time_out(app)
    app.clock.advance(5 * SECOND)

    answer_late(app)

    assert app.all_stored() == {}
    (line,) = logged("delivery.answered_late")
    expected = {
        "topic": "orders",
        "subscription": "crm",
        "event_ids": ["e-0"],
        "status": 200,
        "seconds": 35,
        "cancelled": True,
    }
    assert line.items() >= expected.items()
    for metric in (Metric.ANSWERED_LATE, Metric.DELIVERY_SUCCESS):
        assert app.metrics.of(metric) == {("orders", "crm"): 1}
    attempt, end = app.attempts.records
    assert (attempt.number, attempt.outcome is None, attempt.state) == (1, False, None)
    assert (end.number, end.outcome, end.state) == (1, None, EndState.DELIVERED)
    assert (end.event_id, end.system_id) == (attempt.event_id, attempt.system_id)
    assert (end.at, end.why) == (START + 5 * SECOND, "a late success, after 35 s")


@pytest.mark.parametrize(
    ("takes", "delivered", "limit"),
    [
        pytest.param(29 * SECOND, 64, 80, id="in time: the control"),
        pytest.param(31 * SECOND, 64, 16, id="late"),
        pytest.param(timedelta(days=1), 0, 4, id="never"),
    ],
)
def test_who_answers_a_little_late_keeps_its_limit(
    app: Deployment, takes: timedelta, delivered: int, limit: int
) -> None:
    """What never answers falls to one request at a time."""
    subscription = app.subscribe()
    app.pusher.takes = takes

    for number in range(64):
        app.begin(a_message([a_delivery(number)]))
    let_live(app, 3 * MINUTE)

    found = app.metrics.of(Metric.DELIVERY_SUCCESS).get(subscription.key, 0)
    assert (found, app.deliver.endpoints.of(subscription).limit.value) == (delivered, limit)
    assert len(app.pusher.sent) == (delivered or 17)


@pytest.mark.parametrize(("late", "limit"), [(0, 8), (2, 10), (FIRST - 1, FIRST)])
def test_late_successes_make_a_failure_beside_them_good(
    app: Deployment, late: int, limit: int
) -> None:
    """As those in time do: one failure now and then leaves no endpoint at one request for ever."""
    app.pusher.takes = 30 * SECOND
    time_out(app, events=FIRST)

    for event in range(FIRST - late, FIRST):
        answer_late(app, event)

    (endpoint,) = known(app.deliver.endpoints)
    assert endpoint.limit.value == limit


def test_late_successes_count_as_what_the_endpoint_takes(app: Deployment) -> None:
    """What is requeued comes back at that pace, not one event in each 30 s of a push."""
    app.pusher.takes = 30 * SECOND
    time_out(app, events=FIRST)
    for event in range(FIRST):
        answer_late(app, event)
    (endpoint,) = known(app.deliver.endpoints)

    async def book() -> datetime:
        return endpoint.book_return([None])

    first, second = (app.loop.run(book()) for _ in range(2))

    assert second - first < SECOND


def test_a_late_success_whose_retry_has_begun_gives_nothing_back(app: Deployment) -> None:
    """The endpoint gets the event twice: it is sent less, or it would get ever later."""
    limits = []
    for wait in (9, 11):
        process = app.deliver = app.new_process()
        time_out(app)
        app.clock.advance(wait * SECOND)
        app.queues.receive(Queue.RETRIES, MINUTE)

        answer_late(app, -1)
        (endpoint,) = known(process.endpoints)
        limits.append(endpoint.limit.value)

    assert limits == [FIRST, FIRST // 2]


@pytest.mark.parametrize("status", [503, 206])
def test_a_late_failure_changes_nothing(app: Deployment, logged: Logged, status: int) -> None:
    """Success is what the profile calls so."""
    time_out(app)

    answer_late(app, status=status)

    assert app.all_stored() == {Queue.RETRIES: 1}
    assert logged("delivery.answered_late") == []


def given_up(app: Deployment) -> float:
    """Return how many events are counted as given up whose blob is not written."""
    return sum(app.metrics.of(Metric.AWAITING_BLOB).values())


@pytest.mark.parametrize(
    ("subscription", "queue", "wait"),
    [({}, Queue.RETRIES, 10 * SECOND), (DEAD_LETTERED, Queue.DEADLETTERS, 5 * MINUTE)],
    ids=["retry", "dead letters"],
)
@pytest.mark.parametrize("jump", [timedelta(), timedelta(hours=2)], ids=["", "the clock is set"])
def test_a_message_shrinks_and_keeps_its_time(
    app: Deployment,
    subscription: dict[str, Any],
    queue: Queue,
    wait: timedelta,
    jump: timedelta,
) -> None:
    """The rest is due when it was, not its whole wait from now on."""
    time_out(app, events=3, **subscription)
    (before,) = app.on(queue)
    assert given_up(app) == (3 if queue is Queue.DEADLETTERS else 0)
    app.clock.advance(4 * SECOND)
    app.clock.jump(jump)

    answer_late(app, event=1)

    assert app.waiting(queue) == [(wait - 4 * SECOND, [0, 2])]
    (after,) = app.on(queue)
    assert (after.due, after.dead_letter) == (before.due, before.dead_letter)
    assert given_up(app) == (2 if queue is Queue.DEADLETTERS else 0)
    answer_late(app, event=0)
    answer_late(app, event=2)
    assert app.all_stored() == {}
    assert given_up(app) == 0


def test_a_message_without_the_event_stays_as_it_is(app: Deployment) -> None:
    held = app.hold('"e-1"')
    time_out(app, events=2)  # the first is stored before the second one fails

    app.pusher.script(URL, answered(200))
    held.let_go()
    app.loop.settle()

    assert groups(app) == [[0]]


def test_a_batch_is_answered_as_one(app: Deployment, logged: Logged) -> None:
    time_out(app, events=5, batching=Batching(max_events=3))

    answer_late(app, 0)

    assert len(app.pusher.sent) == 2
    assert groups(app) == [[3, 4]]
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
    assert groups(app) == [[1], [2]]

    answer_late(app, 1)

    assert app.all_stored() == {}


def test_an_internal_error_with_one_subscription_is_not_another_ones(
    app: Deployment, logged: Logged
) -> None:
    for name in ("broken", "late"):
        app.subscribe(name=name, endpoint_url=f"https://{name}.example/")
    app.pusher.script("https://late.example/", TIMEOUT)
    break_pushes(app, RuntimeError("a bug"), is_of("broken"))
    app.work(together(*(a_message(subscription=name) for name in ("broken", "late"))))

    (late,) = (each for each in app.pusher.sent if "late" in each.request.url)
    answer_late(app, app.pusher.sent.index(late))

    assert [part.subscription for part in app.on(Queue.RETRIES)] == ["broken"]
    assert [line["cancelled"] for line in logged("delivery.answered_late")] == [True]


@pytest.mark.parametrize(
    ("subscription", "events", "left", "counted"),
    [
        pytest.param({}, 2, {Queue.RETRIES: [[1]]}, "retried", id="retry"),
        pytest.param(
            DEAD_LETTERED, 2, {Queue.DEADLETTERS: [[1]]}, "dead_lettered", id="dead letter"
        ),
        pytest.param({"retry_policy": ONE_ATTEMPT}, 2, {}, "dropped", id="drop"),
        pytest.param({}, 1, {}, None, id="no empty message"),
    ],
)
def test_a_success_before_anything_is_stored_leaves_its_event_out(
    app: Deployment,
    logged: Logged,
    subscription: dict[str, object],
    events: int,
    left: dict[Queue, list[list[int]]],
    counted: str | None,
) -> None:
    app.directory.topics["orders"] = a_topic(profile="2020")  # without probation
    app.subscribe(**subscription)

    def answer(sent: Sent) -> Exchange:
        if sent.late and b'"e-0"' in sent.request.body:
            sent.late.report(answered(200, seconds=30.1))
        return TIMEOUT

    answer_by(app, answer)

    app.run(a_message([a_delivery(number) for number in range(events)]))

    assert {queue: groups(app, queue) for queue in app.all_stored()} == left
    assert given_up(app) == len(left.get(Queue.DEADLETTERS, ()))
    (run,) = logged("delivery.run")
    assert (run["delivered"], counted is None or run[counted]) == (1, 1)
    assert [line["cancelled"] for line in logged("delivery.answered_late")] == [True]


def test_a_success_while_its_retry_is_being_stored_takes_it_back(
    app: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = app.queues.put

    def slow_put(queue: Queue, text: str, visible_in: timedelta) -> Receipt:
        receipt = put(queue, text, visible_in)
        answer_late(app)  # It waits until the receipt is known.
        assert app.all_stored() == {Queue.RETRIES: 1}
        return receipt

    monkeypatch.setattr(app.queues, "put", slow_put)
    time_out(app)

    assert app.all_stored() == {}


def test_nothing_is_cancelled_of_a_message_that_comes_again(
    app: Deployment, logged: Logged
) -> None:
    """Its retry could not be stored, so the event is pushed again: that success is counted."""
    app.queues.fail_next("put", 10_000)
    with pytest.raises(StorageUnavailable):
        time_out(app)

    answer_late(app)

    assert [line["cancelled"] for line in logged("delivery.answered_late")] == [False]
    assert app.metrics.of(Metric.DELIVERY_SUCCESS) == {}


def test_storage_that_loses_an_answer_costs_a_duplicate_at_most(app: Deployment) -> None:
    """The message was changed, but nobody knows its new receipt: the rest stays as it is."""
    time_out(app, events=3)
    app.queues.fail_next("replace", after=True)

    for event in range(3):
        answer_late(app, event)

    assert groups(app) == [[1, 2]]


def receive_all(app: Deployment) -> None:
    app.clock.advance(11 * SECOND)
    app.queues.receive(Queue.RETRIES, MINUTE)


@pytest.mark.parametrize(
    ("subscription", "meanwhile", "left"),
    [
        pytest.param({}, receive_all, [[0, 1]], id="received: the retry has begun"),
        pytest.param({}, lambda app: app.queues.fail_next("replace"), [[0, 1]], id="storage fails"),
        pytest.param({"retry_policy": ONE_ATTEMPT}, lambda _: None, [], id="dropped"),
    ],
)
def test_what_can_not_be_taken_back_is_a_duplicate_or_stays_dropped(
    app: Deployment,
    logged: Logged,
    subscription: dict[str, Any],
    meanwhile: Callable[[Deployment], object],
    left: list[list[int]],
) -> None:
    """ "Best effort" allows it. The success is not counted: that of the retry will be."""
    time_out(app, events=2, **subscription)
    meanwhile(app)

    answer_late(app, 0)

    assert groups(app) == left
    assert [line["cancelled"] for line in logged("delivery.answered_late")] == [False]
    assert app.metrics.of(Metric.DELIVERY_SUCCESS) == {}
    assert EndState.DELIVERED not in [each.state for each in app.attempts.records]
