"""A step of a replay that the host has given up ends its job: no other could begin."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shared.deadletter.selection import Selection
from shared.delivery.messages.message import ReplayStep
from shared.delivery.messages.message_writer import encode_step
from shared.engine.ports import Queue, Table
from shared.engine.replaying.job import JobState, ReplayJob, ReplaySource
from shared.errors import Conflict, StorageUnavailable
from tests.functional.deployment import MINUTE, Deployment

STEP = 3


@pytest.fixture
def job(app: Deployment) -> ReplayJob:
    """A job that runs, in its third step."""
    job = ReplayJob(
        id="r-1",
        by="the admin key",
        started_at=app.clock.now(),
        sources=(ReplaySource("orders", "crm", "dead", "testing", "CRM"),),
        selection=Selection(),
        to=None,
        rate=50,
        is_dry_run=False,
        again=False,
        step=STEP,
    )
    return app.replays.start(job)


def poisoned(app: Deployment, job: ReplayJob, number: int = STEP) -> None:
    step = encode_step(ReplayStep(job=job.id, number=number))
    app.queues.put(Queue.RETRIES_POISON, step)
    app.return_poison.run(app.in_a_minute())


def test_it_ends_and_the_next_may_begin(app: Deployment, job: ReplayJob) -> None:
    poisoned(app, job)

    (found,) = app.replays.list()
    assert (found.state, found.ended_at) == (JobState.FAILED, app.clock.now())
    assert found.why == "Its step 3 failed again and again."
    assert (len(app.dead_letters.poison), app.queues.texts(Queue.RETRIES_POISON)) == (1, [])
    assert app.replays.start(replace(job, id="r-2")).state is JobState.RUNNING


def test_a_step_that_a_later_one_has_replaced_ends_nothing(app: Deployment, job: ReplayJob) -> None:
    poisoned(app, job, STEP - 1)

    assert [each.state for each in app.replays.list()] == [JobState.RUNNING]
    assert len(app.dead_letters.poison) == 1


def test_a_job_that_has_ended_stays_as_it_is(app: Deployment, job: ReplayJob) -> None:
    app.replays.cancel(job.id, "an operator")

    poisoned(app, job)

    assert [each.state for each in app.replays.list()] == [JobState.CANCELLED]


@pytest.mark.parametrize("method", ["get", "put"])
@pytest.mark.parametrize("fault", [StorageUnavailable, Conflict])
def test_until_that_is_stored_the_message_is_kept(
    app: Deployment,
    job: ReplayJob,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    fault: type[Exception],
) -> None:
    def fail(*_: object) -> None:
        raise fault

    with monkeypatch.context() as patch:
        patch.setattr(app.resources, method, fail)
        poisoned(app, job)
    assert len(app.queues.texts(Queue.RETRIES_POISON)) == 1
    assert app.dead_letters.poison == {}

    app.clock.advance(5 * MINUTE)
    app.return_poison.run(app.in_a_minute())

    assert [each.state for each in app.replays.list()] == [JobState.FAILED]


def test_an_unreadable_job_keeps_no_message(app: Deployment, job: ReplayJob) -> None:
    app.resources.damage(Table.REPLAYS, "job", job.id)

    poisoned(app, job)

    assert (len(app.dead_letters.poison), app.queues.texts(Queue.RETRIES_POISON)) == (1, [])
