"""A late success beside the storing of what it cancels, and beside storage that fails."""

from __future__ import annotations

from datetime import timedelta

import pytest

from pushgrid.testing.memory import ScriptedPusher, answered
from shared.engine.ports import Queue, Receipt
from shared.http import Exchange, LateAnswerHandler, OutboundRequest
from tests.builders import DEAD, a_delivery, a_message, a_topic
from tests.functional.delivering.late import ONE_ATTEMPT, TIMEOUT, answer_late, time_out
from tests.functional.deployment import Deployment, Logged


class EarlyAnswer(ScriptedPusher):
    """Every push times out, and its answer comes before anything is stored."""

    async def send(
        self, request: OutboundRequest, timeout: timedelta, late: LateAnswerHandler | None = None
    ) -> Exchange:
        await super().send(request, timeout, late)
        if late and b'"e-0"' in request.body:
            late.report(answered(200, seconds=30.1))
        return TIMEOUT


@pytest.mark.parametrize(
    ("overrides", "queue", "counted"),
    [
        pytest.param({}, Queue.RETRIES, "retried", id="retry"),
        pytest.param(
            {"retry_policy": ONE_ATTEMPT, "dead_letter": DEAD},
            Queue.DEADLETTERS,
            "dead_lettered",
            id="dead letter",
        ),
        pytest.param({"retry_policy": ONE_ATTEMPT}, None, "dropped", id="drop"),
    ],
)
def test_a_success_before_anything_is_stored_leaves_its_event_out(
    app: Deployment,
    logged: Logged,
    overrides: dict[str, object],
    queue: Queue | None,
    counted: str,
) -> None:
    app.directory.topics["orders"] = a_topic(profile="2020")  # without probation
    app.subscribe(**overrides)
    app.push_with(EarlyAnswer(app.clock))

    app.run(a_message([a_delivery(0), a_delivery(1)]))

    left = (
        [each.position for message in app.on(queue) for each in message.deliveries]
        if queue
        else [1]
    )
    assert left == [1]
    (run,) = logged("delivery.run")
    assert (run["delivered"], run[counted]) == (1, 1)
    assert [line["cancelled"] for line in logged("delivery.answered_late")] == [True]


def test_a_success_before_anything_is_stored_leaves_no_empty_message(app: Deployment) -> None:
    app.subscribe()
    app.push_with(EarlyAnswer(app.clock))

    app.run(a_message([a_delivery(0)]))

    assert app.all_stored() == {}


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


def test_storage_that_fails_leaves_the_retry(app: Deployment, logged: Logged) -> None:
    time_out(app)
    app.queues.fail_next("take_back")

    answer_late(app)

    assert app.all_stored() == {Queue.RETRIES: 1}
    assert [line["cancelled"] for line in logged("delivery.answered_late")] == [False]


def test_storage_that_loses_an_answer_costs_a_duplicate_at_most(app: Deployment) -> None:
    """The message was changed, but nobody knows its new receipt: the rest stays as it is."""
    time_out(app, events=3)
    app.queues.fail_next("replace", after=True)

    for event in range(3):
        answer_late(app, event)

    assert [positions for _, positions in app.waiting(Queue.RETRIES)] == [[1, 2]]
