"""Wake, what it takes in, and the timer that runs its jobs one after the other."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from pushgrid.testing.memory import START
from shared.clock import Deadline
from shared.delivery.messages.message import VERSION
from shared.engine.ports import Queue
from shared.engine.timers import receiving
from shared.engine.timers.timer_runs import Job, JobsFailed, Timer
from shared.errors import StorageUnavailable
from tests.builders import a_delivery, a_message, a_note
from tests.functional.deployment import MINUTE, SECOND, Deployment, Logged
from tests.unit.delivery.messages.wire import read_parts, together


@pytest.mark.parametrize(
    ("due", "attempts", "queue", "hidden", "bounded"),
    [
        pytest.param(50, 0, Queue.RETRIES, 50, [], id="within a minute"),
        pytest.param(3600, 7, Queue.WAITING, 3540, [], id="not yet"),
        pytest.param(6 * 3600, 0, Queue.RETRIES, 0, [6 * 3600], id="no rule has made it"),
    ],
)
def test_what_is_due_is_brought_back(
    app: Deployment,
    logged: Logged,
    due: int,
    attempts: int,
    queue: Queue,
    hidden: int,
    bounded: list[int],
) -> None:
    app.put(Queue.WAITING, a_message([a_delivery(attempts=attempts)], due=START + due * SECOND))

    app.wake.run(app.in_a_minute())

    assert app.all_stored() == {queue: 1}
    assert app.waiting(queue) == [(hidden * SECOND, [0])]
    assert bounded or app.on(queue)[0].due == START + due * SECOND
    assert [line["seconds"] for line in logged("clock.bounded")] == bounded


def test_messages_of_a_subscription_are_merged(app: Deployment) -> None:
    """Design §2, Waiting: per subscription, and only what is due together."""
    for number in range(40):
        app.put(Queue.WAITING, a_message([a_delivery(number)], due=START + number % 2 * MINUTE))
    app.put(Queue.WAITING, a_message([a_delivery(99)], subscription="billing"))
    app.put(Queue.WAITING, a_message([a_delivery(98)], generation="g-2"))

    app.wake.run(app.in_a_minute())

    waiting = app.waiting(Queue.RETRIES)
    assert [(wait, len(events)) for wait, events in waiting] == [
        (timedelta(), 20),
        (MINUTE, 20),
        (timedelta(), 1),
        (timedelta(), 1),
    ]
    assert app.queues.texts(Queue.WAITING) == []


def test_what_is_merged_is_due_with_the_last_of_it(app: Deployment) -> None:
    """No retry comes before its time."""
    for number, due in enumerate((30, 32, 31)):
        app.put(Queue.WAITING, a_message([a_delivery(number)], due=START + due * SECOND))

    app.wake.run(app.in_a_minute())

    assert app.waiting(Queue.RETRIES) == [(32 * SECOND, [0, 2, 1])]
    assert [part.due for part in app.on(Queue.RETRIES)] == [START + 32 * SECOND]


def test_what_was_held_together_stays_together(app: Deployment) -> None:
    """Messages of the same subscriptions are merged, others are not mixed."""
    due = START + 5 * SECOND
    for numbers, names in [(range(16), "ab"), (range(16, 32), "ba"), (range(32, 35), "ac")]:
        events = [a_delivery(number, attempts=1) for number in numbers]
        parts = [a_message(events, subscription=name, due=due) for name in names]
        app.queues.put(Queue.WAITING, together(*parts))

    app.wake.run(app.in_a_minute())

    moved = [read_parts(text) for text in app.queues.texts(Queue.RETRIES)]
    found = [{part.subscription: len(part.deliveries) for part in parts} for parts in moved]
    assert found == [{"a": 32, "b": 32}, {"a": 3, "c": 3}]
    assert {part.due for parts in moved for part in parts} == {due}
    assert app.queues.texts(Queue.WAITING) == []


def test_a_failing_delete_duplicates_and_never_loses(app: Deployment) -> None:
    app.put(Queue.WAITING, a_message())
    app.queues.fail_next("delete")

    with pytest.raises(StorageUnavailable):
        app.wake.run(app.in_a_minute())
    app.clock.advance(10 * MINUTE)
    app.wake.run(app.in_a_minute())

    assert app.all_stored() == {Queue.RETRIES: 2}


def test_wake_ends_though_every_message_is_kept(app: Deployment, logged: Logged) -> None:
    app.queues.put(Queue.WAITING, f'{{"pushgrid":{VERSION + 1}}}')

    app.wake.run(app.in_a_minute())

    assert app.queues.waits(Queue.WAITING) == [5 * MINUTE]
    assert [each["version"] for each in logged("message.other_version")] == [VERSION + 1]


def test_wake_moves_more_than_one_intake_holds(
    app: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiving, "MAX_INTAKE_EVENTS", 3)
    app.put(Queue.WAITING, *[a_message([a_delivery(n)], subscription=f"s-{n}") for n in range(40)])

    app.wake.run(app.in_a_minute())

    assert app.all_stored() == {Queue.RETRIES: 40}


@pytest.mark.parametrize(
    ("limit", "value", "taken"), [("MAX_INTAKE_BYTES", 1, 32), ("MAX_INTAKE_MESSAGES", 33, 64)]
)
def test_an_intake_is_bounded(
    app: Deployment, monkeypatch: pytest.MonkeyPatch, limit: str, value: int, taken: int
) -> None:
    """Memory is, and what a run leaves hidden when its time is over."""
    monkeypatch.setattr(receiving, limit, value)
    app.put(Queue.WAITING, *[a_message()] * 80)

    assert len(app.intake.take(Queue.WAITING, app.in_a_minute())) == taken


def test_what_is_taken_is_hidden_for_longer_than_a_run(app: Deployment) -> None:
    """Two runs at a time would do everything twice; after a crash it comes again."""
    app.put(Queue.WAITING, a_message())
    app.intake.take(Queue.WAITING, app.in_a_minute())

    app.clock.advance(5 * MINUTE - SECOND)
    assert app.intake.take(Queue.WAITING, app.in_a_minute()) == []
    app.clock.advance(SECOND)
    assert len(app.intake.take(Queue.WAITING, app.in_a_minute())) == 1


def test_what_was_received_is_handled_though_receiving_then_fails(
    app: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is hidden for ten minutes already, and retries should not be that late."""
    app.put(Queue.WAITING, *[a_message()] * 40)
    receive, calls = app.queues.receive, iter([None, StorageUnavailable()])

    def failing(queue: Queue, hidden_for: timedelta) -> object:
        if error := next(calls, None):
            raise error
        return receive(queue, hidden_for)

    monkeypatch.setattr(app.queues, "receive", failing)

    assert len(app.intake.take(Queue.WAITING, app.in_a_minute())) == 32


def test_half_of_the_time_is_left_for_what_was_received(
    app: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a slow queue, runs would receive what they have no time to move, again and again."""
    app.put(Queue.WAITING, *[a_message()] * 1000)
    receive = app.queues.receive

    def slow(*args: Any) -> object:
        app.clock.advance(10 * SECOND)
        return receive(*args)

    monkeypatch.setattr(app.queues, "receive", slow)

    taken = app.intake.take(Queue.WAITING, app.in_a_minute())

    assert (len(taken), app.clock.now() - START) == (3 * 32, MINUTE / 2)


def test_nothing_is_received_after_the_deadline_and_a_failure_is_reported(app: Deployment) -> None:
    app.put(Queue.WAITING, a_message())
    app.queues.fail_next("receive")

    app.wake.run(Deadline(timedelta(), app.clock.monotonic))
    assert app.all_stored() == {Queue.WAITING: 1}
    with pytest.raises(StorageUnavailable):
        app.intake.take(Queue.WAITING, app.in_a_minute())


def test_what_cannot_be_read_becomes_a_record(app: Deployment) -> None:
    app.queues.put(Queue.WAITING, "damaged \u00fc")
    app.put(Queue.WAITING, a_message())

    app.wake.run(app.in_a_minute())

    assert app.all_stored() == {Queue.RETRIES: 1}
    ((path, body),) = app.dead_letters.poison.items()
    record = json.loads(body)
    assert path.startswith("waiting/2026/2/9/12/")
    assert (record["body"], record["queue"], record["events"]) == ("damaged \u00fc", "waiting", [])
    assert record["reason"].startswith("not a delivery message")
    assert record["recordedAt"] == "2026-02-09T12:00:00.0000000Z"


def test_a_record_that_cannot_be_written_never_blocks_the_rest(
    app: Deployment, logged: Logged
) -> None:
    app.queues.put(Queue.WAITING, "damaged")
    app.put(Queue.WAITING, a_message())
    app.dead_letters.fail_next("write_poison")

    app.wake.run(app.in_a_minute())
    after_first = app.all_stored()
    app.clock.advance(10 * MINUTE)
    app.wake.run(app.in_a_minute())

    assert after_first == {Queue.WAITING: 1, Queue.RETRIES: 1}
    assert (app.all_stored(), len(app.dead_letters.poison)) == ({Queue.RETRIES: 1}, 1)
    assert len(logged("message.unhandled")) == 1


@pytest.mark.parametrize("queue", [Queue.WAITING, Queue.RETRIES_POISON, Queue.DELIVERIES_POISON])
def test_dead_letters_among_deliveries_become_a_record(app: Deployment, queue: Queue) -> None:
    app.put(queue, a_message(dead_letter=a_note()))

    assert app.intake.take(queue, app.in_a_minute()) == []
    assert (app.all_stored(), len(app.dead_letters.poison)) == ({}, 1)


@dataclass
class Recorded:
    """A job that tells when it was run, and may fail."""

    error: Exception | None = None
    deadlines: list[Deadline] = field(default_factory=list)

    def run(self, deadline: Deadline) -> None:
        self.deadlines.append(deadline)
        if self.error:
            raise self.error


@pytest.mark.parametrize("error", [StorageUnavailable(), KeyError("a bug"), ValueError("a bug")])
def test_a_failing_job_does_not_stop_the_others(
    app: Deployment, error: Exception, logged: Logged
) -> None:
    jobs: dict[str, Job] = {
        "first": Recorded(error),
        "second": Recorded(),
        "third": Recorded(error),
    }

    with pytest.raises(JobsFailed, match="first, third"):
        Timer(
            name="deadletter",
            jobs=jobs,
            state=app.resources,
            clock=app.clock,
            monotonic=app.clock.monotonic,
        ).run()

    deadlines = [each.deadlines for each in jobs.values() if isinstance(each, Recorded)]
    app.clock.advance(39 * SECOND)
    assert [[each.has_passed for each in its] for its in deadlines] == [[False]] * 3
    app.clock.advance(SECOND)
    assert [[each.has_passed for each in its] for its in deadlines] == [[True]] * 3
    assert [line["job"] for line in logged("timer.failed")] == ["first", "third"]
