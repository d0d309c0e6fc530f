"""The rows of replay jobs, when others write them at the same time or a process ends."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from pushgrid.testing.deployment import Pushgrid
from pushgrid.testing.driven_app import Refused
from pushgrid.testing.topic import Subscriber
from shared.engine.ports import Queue, Table
from shared.engine.replaying import batches, jobs, step
from shared.errors import Conflict
from tests.functional.deployment import SECOND, Logged
from tests.functional.replaying.replays import PLACED, before, ids, replayed
from tests.kills import Killed

HOUR = timedelta(hours=1)

STATE, JOB = "state", "job"  # partitions of the table
IsNow = Callable[[str, Any], bool]  # of a partition and a document
OnPut = Callable[[IsNow, Callable[[], object]], None]


@pytest.fixture
def on_put(pushgrid: Pushgrid, monkeypatch: pytest.MonkeyPatch) -> OnPut:
    """Give a function that acts once, before the first row that meets a condition is put."""

    def on(is_now: IsNow, act: Callable[[], object]) -> None:
        left = [act]

        def watched(table: Table, partition: str, _: str, document: Any, __: str | None) -> None:
            if table is Table.REPLAYS and left and is_now(partition, document):
                left.pop()()

        before(monkeypatch, pushgrid._app.resources, "put", watched)

    return on


def ends_a_batch(partition: str, document: Any) -> bool:
    return partition == JOB and document.get("batches", 0) > 0


def conflict() -> None:
    raise Conflict


def test_a_step_that_loses_its_race_is_tried_again(
    pushgrid: Pushgrid, crm: Subscriber, on_put: OnPut, logged: Logged
):
    on_put(ends_a_batch, conflict)

    job = replayed(pushgrid)

    assert (job["state"], job["replayed"], job["repeated"], len(ids(crm))) == ("Done", 3, 0, 3)
    assert len(logged("replay.deferred")) == 1


def test_a_job_that_is_cancelled_in_a_step_ends_with_what_it_has_put(
    pushgrid: Pushgrid, crm: Subscriber, on_put: OnPut, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(step, "SPAN", 1)
    job = pushgrid.arm("POST", "replays", {"rate": 1})
    path = f"replays/{job['id']}"
    on_put(
        lambda partition, job: partition == JOB and not job["under_way"],  # a step ends
        lambda: pushgrid.arm("POST", f"{path}/cancel"),
    )

    pushgrid.advance(minutes=5)
    ended = pushgrid.arm("GET", path)

    assert ended["state"] == "Cancelled"
    assert ended["endedAt"]
    assert 0 < ended["replayed"] == len(ids(crm)) < 3
    assert replayed(pushgrid)["replayed"] == 3 - ended["replayed"]
    assert sorted(ids(crm)) == ["e-1", "e-2", "e-3"]


def test_a_cancellation_that_loses_its_race_is_tried_again(
    pushgrid: Pushgrid, crm: Subscriber, on_put: OnPut, logged: Logged
):
    pushgrid._app.dead_letters.away.add("testing")
    job = pushgrid.arm("POST", "replays", {})
    on_put(lambda _, document: document.get("state") == "Cancelled", conflict)

    assert pushgrid.arm("POST", f"replays/{job['id']}/cancel")["state"] == "Cancelled"
    assert [line["by"] for line in logged("replay.ended")] == ["the admin key"]
    assert ids(crm) == []


def test_of_two_that_start_at_once_one_is_refused_and_leaves_nothing(
    pushgrid: Pushgrid, crm: Subscriber, on_put: OnPut
):
    pushgrid._app.dead_letters.away.add("testing")
    first: list[Any] = []
    on_put(
        lambda partition, _: partition == JOB,
        lambda: first.append(pushgrid.arm("POST", "replays", {"rate": 7})),
    )

    with pytest.raises(Refused, match="is running"):
        pushgrid.arm("POST", "replays", {"rate": 8})

    assert [each["rate"] for each in pushgrid.arm("GET", "replays")["value"]] == [7]
    pushgrid._app.dead_letters.away.clear()
    pushgrid.advance(minutes=5)
    assert pushgrid.arm("GET", f"replays/{first[0]['id']}")["state"] == "Done"
    assert len(ids(crm)) == 3


def test_a_process_that_ends_before_it_claims_its_job_leaves_that_to_the_first_step(
    pushgrid: Pushgrid, crm: Subscriber, on_put: OnPut
):
    def kill() -> None:
        raise Killed

    pushgrid._app.dead_letters.away.add("testing")
    on_put(lambda partition, _: partition == STATE, kill)
    with pytest.raises(Killed):
        pushgrid.arm("POST", "replays", {})
    pushgrid.advance(seconds=1)

    with pytest.raises(Refused, match="is running"):
        pushgrid.arm("POST", "replays", {})
    pushgrid._app.dead_letters.away.clear()
    pushgrid.advance(minutes=5)

    assert [each["state"] for each in pushgrid.arm("GET", "replays")["value"]] == ["Done"]
    assert len(ids(crm)) == 3


def test_a_job_whose_start_failed_halfway_is_deleted_by_the_next(
    pushgrid: Pushgrid, crm: Subscriber
):
    pushgrid._app.resources.fail_next("put", after=True)
    with pytest.raises(Refused, match="safe to retry"):
        pushgrid.arm("POST", "replays", {"rate": 7})
    assert [each["rate"] for each in pushgrid.arm("GET", "replays")["value"]] == [7]

    assert replayed(pushgrid, rate=8)["state"] == "Done"

    assert [each["rate"] for each in pushgrid.arm("GET", "replays")["value"]] == [8]
    assert pushgrid._app.queues.texts(Queue.RETRIES) == []
    assert len(ids(crm)) == 3


def test_the_latest_jobs_are_kept(
    pushgrid: Pushgrid, crm: Subscriber, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(jobs, "KEPT", 2)
    found = [replayed(pushgrid) for _ in range(3)]

    assert pushgrid.arm("GET", "replays")["value"] == found[:0:-1]
    assert len(ids(crm)) == 3


def test_a_job_has_started_though_an_old_one_cannot_be_deleted(
    pushgrid: Pushgrid, crm: Subscriber, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(jobs, "KEPT", 1)
    replayed(pushgrid)
    pushgrid._app.resources.fail_next("delete")

    job = replayed(pushgrid, again=True)

    assert (job["state"], len(ids(crm))) == ("Done", 6)
    assert len(pushgrid.arm("GET", "replays")["value"]) == 2


def test_an_account_may_be_away_again_and_again(
    pushgrid: Pushgrid, crm: Subscriber, monkeypatch: pytest.MonkeyPatch
):
    """An hour without an answer counts from the last answer."""
    crm.answer(400)
    crm.topic.publish(PLACED)
    pushgrid.advance(hours=1)
    crm.answer(200)
    read, away = pushgrid._app.dead_letters.read, pushgrid._app.dead_letters.away
    monkeypatch.setattr(step, "MAX_BLOBS", 1)

    def last(*given: Any) -> Any:
        found = read(*given)
        away.add("testing")
        return found

    monkeypatch.setattr(pushgrid._app.dead_letters, "read", last)
    job = pushgrid.arm("POST", "replays", {})
    for _ in range(2):
        pushgrid.advance(minutes=50)
        away.clear()
        pushgrid.advance(minutes=1)

    assert pushgrid.arm("GET", f"replays/{job['id']}")["replayed"] == 4
    assert len(ids(crm)) == 4


def test_events_whose_put_was_not_answered_are_repeated_and_counted(
    pushgrid: Pushgrid, crm: Subscriber, on_put: OnPut
):
    on_put(ends_a_batch, lambda: pushgrid._app.queues.fail_next("put", after=True))

    job = replayed(pushgrid)

    assert (job["state"], job["replayed"], job["repeated"]) == ("Done", 3, 2)
    assert len(ids(crm)) == 3 + 2


def test_a_chosen_event_whose_put_failed_is_not_taken_for_put(
    pushgrid: Pushgrid, crm: Subscriber, on_put: OnPut
):
    on_put(ends_a_batch, lambda: pushgrid._app.queues.fail_next("put"))

    job = replayed(pushgrid, event="e-3", again=True)

    assert (job["state"], job["replayed"], ids(crm)) == ("Done", 1, ["e-3"])


def test_the_time_that_a_step_takes_is_part_of_the_rate(
    pushgrid: Pushgrid, crm: Subscriber, monkeypatch: pytest.MonkeyPatch
):
    app = pushgrid._app
    monkeypatch.setattr(step, "MAX_BLOBS", 1)
    two_events = 2 * SECOND
    before(monkeypatch, app.dead_letters, "read", lambda *_: app.clock.advance(two_events))
    job = pushgrid.arm("POST", "replays", {"rate": 1})
    pushgrid.advance()

    assert pushgrid.arm("GET", f"replays/{job['id']}")["blobs"] == 2
    pushgrid.advance(seconds=5)
    assert len(ids(crm)) == 3


def test_a_step_lasts_a_while_and_no_longer(
    pushgrid: Pushgrid, crm: Subscriber, monkeypatch: pytest.MonkeyPatch
):
    app = pushgrid._app
    before(monkeypatch, app.dead_letters, "read", lambda *_: app.clock.advance(step.RUN_FOR))
    job = pushgrid.arm("POST", "replays", {})

    assert pushgrid.arm("GET", f"replays/{job['id']}")["blobs"] == 1
    pushgrid.advance(minutes=5)
    assert pushgrid.arm("GET", f"replays/{job['id']}")["blobs"] == 2
    assert len(ids(crm)) == 3


def test_a_step_ends_between_two_batches_of_a_blob(
    pushgrid: Pushgrid, crm: Subscriber, monkeypatch: pytest.MonkeyPatch
):
    """On a slow queue it went on to the end of the blob, beyond the time of a function."""
    app = pushgrid._app
    monkeypatch.setattr(batches, "MAX_EVENTS", 1)
    before(monkeypatch, app.store.sender, "put_all", lambda *_: app.clock.advance(step.RUN_FOR))
    job = pushgrid.arm("POST", "replays", {})

    seen = [(found := pushgrid.arm("GET", f"replays/{job['id']}"))["replayed"]]
    while found["state"] == "Running":
        pushgrid.advance(minutes=1)
        found = pushgrid.arm("GET", f"replays/{job['id']}")
        seen.append(found["replayed"])

    assert next(filter(None, seen)) == 1  # of the two in the first blob
    assert (found["repeated"], ids(crm)) == (0, ["e-1", "e-2", "e-3"])


@pytest.mark.usefixtures("crm")
def test_a_clock_that_is_set_ends_no_step(pushgrid: Pushgrid, monkeypatch: pytest.MonkeyPatch):
    """Each blob was a step of its own."""
    app = pushgrid._app
    before(monkeypatch, app.dead_letters, "read", lambda *_: app.clock.jump(6 * HOUR))

    job = pushgrid.arm("POST", "replays", {})

    found = app.replays.find(job["id"])
    assert found
    assert (found.job.step, found.job.progress.blobs) == (1, 2)


@pytest.mark.usefixtures("crm")
def test_an_account_that_is_away_is_not_given_up_because_a_clock_jumps(pushgrid: Pushgrid):
    app = pushgrid._app
    app.dead_letters.away.add("testing")
    job = pushgrid.arm("POST", "replays", {})
    pushgrid.advance(minutes=2)
    [following] = app.queues.texts(Queue.RETRIES)
    app.queues.stored[Queue.RETRIES].clear()
    app.clock.jump(2 * HOUR)

    app.work(following, Queue.RETRIES)

    found = app.replays.find(job["id"])
    assert found
    assert found.job.state == "Running"
