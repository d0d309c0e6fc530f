"""Delivering one queue message: what is pushed, and what is stored before it may be deleted."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from pushgrid.testing.memory import START, ScriptedPusher, answered
from shared.delivery.outcome import Outcome
from shared.engine.ports import Queue
from shared.errors import StorageUnavailable
from shared.http import Exchange, Failure, LateAnswerHandler, NotAnswered, OutboundRequest
from tests.builders import (
    DEAD,
    PARKED,
    URL,
    a_delivery,
    a_message,
    a_topic,
    an_attempt,
)
from tests.functional.deployment import MINUTE, SECOND, Deployment, Logged

NO_ANSWER = NotAnswered(Failure.SOCKET, "refused", 0.1)


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

    async def send(
        self, request: OutboundRequest, timeout: timedelta, late: LateAnswerHandler | None = None
    ) -> Exchange:
        if b"e-1" in request.body:
            raise RuntimeError("a bug")
        return await super().send(request, timeout, late)


def test_an_exception_while_pushing_is_that_events_outcome(app: Deployment) -> None:
    """Design §2, order of writes 6: while its request is built, or sent."""
    app.subscribe()
    app.push_with(Troubled(app.clock))

    app.run(a_message([a_delivery(0, text="[]"), a_delivery(1), a_delivery(2)]))

    (message,) = app.on(Queue.RETRIES)
    ends = [(each.position, each.last and each.last[:2]) for each in message.deliveries]
    assert ends == [(0, (Outcome.GENERIC_ERROR, None)), (1, (Outcome.GENERIC_ERROR, None))]


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
    app.pusher.script(URL, answered(500), answered(400), answered(200), answered(404))
    app.pusher.takes = 15 * SECOND

    app.run(a_message([a_delivery(number) for number in range(5)]))

    kept = [
        delivery.position
        for queue in (Queue.RETRIES, Queue.DEADLETTERS)
        for message in app.on(queue)
        for delivery in message.deliveries
    ]
    assert sorted(kept) == [0, 1, 3, 4]


def test_deliveries_that_are_not_pushed_in_time_are_put_back_uncounted(app: Deployment) -> None:
    app.limit_pushes(1)
    app.subscribe()
    app.pusher.takes = 61 * SECOND
    tried = a_delivery(2, attempts=4, last=an_attempt())

    app.run(a_message([a_delivery(0), a_delivery(1), tried], rounds=1))

    (message,) = app.on(Queue.RETRIES)
    assert message == a_message([a_delivery(1), tried], due=message.due)
    assert message.due
    assert 61 * SECOND <= message.due - START <= 62 * SECOND


def test_failures_are_stored_while_slow_ones_go_on(app: Deployment) -> None:
    """What failed a second ago is stored: a crash repeats little, and waits are kept."""
    app.directory.topics["orders"] = a_topic(profile="2020")  # without probation
    app.subscribe()
    app.pusher.script(URL, answered(500))
    held = app.hold("e-3")
    task = app.begin(a_message([a_delivery(number) for number in range(5)]))
    assert app.all_stored() == {}

    app.loop.advance(SECOND)

    assert app.waiting(Queue.RETRIES) == [(9 * SECOND, [0, 1, 2, 4])]
    assert not task.done()
    held.let_go()
    app.loop.settle()
    assert task.done()
    assert app.waiting(Queue.RETRIES)[1:] == [(10 * SECOND, [3])]


def test_a_failed_attempt_is_logged_with_the_rule_behind_the_next(
    app: Deployment, logged: Logged
) -> None:
    app.subscribe()
    app.pusher.script(URL, answered(503))

    app.run(a_message())

    (line,) = logged("delivery.attempted")
    assert (line["attempt"], line["outcome"], line["status"]) == (1, "Busy", 503)
    assert (line["decision"], line["why"]) == ("retry", "minimum for 503: 30 s")
    assert line["profile"] == "latest"
    assert line["next_attempt_at"] == "2026-02-09T12:00:30.0000000Z"
    assert URL not in str(logged("delivery.attempted") + logged("delivery.run"))


def test_no_push_begins_after_a_minute(app: Deployment) -> None:
    """Design §2, Isolation: with 42 s for the push itself, far from the host's own limit."""
    app.limit_pushes(1)
    app.subscribe()
    app.pusher.takes = 25 * SECOND

    app.run(a_message([a_delivery(number) for number in range(5)]))

    assert [sent.at - START for sent in app.pusher.sent] == [0 * SECOND, 25 * SECOND, 50 * SECOND]


def test_without_a_thread_to_read_by_deliveries_are_put_back_uncounted(app: Deployment) -> None:
    """A shortage of ours is nobody's attempt, and no message is poison for it."""

    async def refuse(_: Callable[[], object]) -> Any:
        raise StorageUnavailable

    app.subscribe()
    app.deliver = replace(app.deliver, off_loop=refuse)

    app.run(a_message([a_delivery(origin=PARKED, text=None)]))

    assert app.waiting(Queue.RETRIES) == [(MINUTE, [0])]
    assert app.on(Queue.RETRIES)[0].deliveries[0].attempts == 0
