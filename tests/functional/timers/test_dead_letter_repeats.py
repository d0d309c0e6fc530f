"""Runs that ended half-way: what they wrote is not written again."""

from __future__ import annotations

import itertools
from contextlib import nullcontext, suppress
from datetime import timedelta
from typing import Any

import pytest

from pushgrid.testing.memory import START
from shared.deadletter import record
from shared.deadletter.reader import MAX_BLOB
from shared.delivery.messages.message import MessagePart
from shared.engine.ports import Queue, Receipt
from shared.errors import StorageUnavailable
from tests.builders import ORIGIN, a_delivery, a_message, text
from tests.functional.deployment import MINUTE, Deployment
from tests.functional.timers.dead_letters import (
    HOUR,
    LONG,
    blobs,
    dead,
    notices,
    records,
    run,
    subscribe,
    written,
)
from tests.kills import Killed, Killer


def is_killed(app: Deployment, at: int) -> bool:
    """Let a run be killed at a request to storage, from 1 on; tell if it was."""
    requests = {
        app.queues: ("replace", "delete", "receive", "put"),
        app.dead_letters: ("write", "find"),
        app.directory: ("of_topic", "topic"),
    }
    with pytest.MonkeyPatch.context() as patched:
        Killer(patched, requests, {at})
        with suppress(Killed):
            run(app)
            return False
    with suppress(StorageUnavailable):  # that nobody hears any more
        app.loop.settle()  # What the process had under way ends with it.
    return True


MANY = [dead(number, note=LONG) for number in range(7)]


@pytest.mark.parametrize("later", [5 * MINUTE, 3 * HOUR], ids=["soon", "in another hour"])
@pytest.mark.parametrize(
    ("messages", "most"),
    [(MANY, 1000), (MANY, 3), ([dead(*range(7), note=LONG)], 3)],
    ids=["one blob", "several blobs", "a message of several blobs"],
)
def test_a_run_that_is_killed_anywhere_loses_repeats_and_hides_nothing(
    monkeypatch: pytest.MonkeyPatch, messages: list[MessagePart], most: int, later: timedelta
) -> None:
    """
    At each request to storage in turn, until a run has no other: whoever subscribes is told.

    A kill between its deletes repeated each record not yet deleted, 41 of 207.
    """
    monkeypatch.setattr(record, "MAX_BLOB_RECORDS", most)
    for at in itertools.count(1):
        app = Deployment()
        subscribe(app)
        app.put(Queue.DEADLETTERS, *messages)
        is_over = not is_killed(app, at)

        app.clock.advance(later)
        app.put(Queue.DEADLETTERS, dead(7, note=LONG))  # which came meanwhile
        run(app)

        assert records(app) == [f"e-{number}" for number in range(8)]
        assert notices(app) == blobs(app)
        assert set(app.all_stored()) == {Queue.DELIVERIES}
        if is_over:
            break
    assert at > 10


@pytest.mark.slow
@pytest.mark.parametrize("killed_at", [0, 1, 2, 3])
def test_a_message_of_large_events_fills_blobs_that_can_be_read(
    app: Deployment, monkeypatch: pytest.MonkeyPatch, killed_at: int
) -> None:
    """Cyrillic text is three times as long in a blob, which escapes it."""
    subscribe(app)
    large = [text(id=f"e-{number}", data="ж" * 500_000) for number in range(6)]
    origin = ORIGIN._replace(payload=app.payloads.write("p", START + 24 * HOUR, large))
    parked = [a_delivery(number, text=None, origin=origin) for number in range(6)]
    app.put(Queue.DEADLETTERS, a_message(parked, dead_letter=LONG))
    with monkeypatch.context() as patched:
        Killer(patched, {app.dead_letters: ["write"]}, {killed_at})
        with pytest.raises(Killed) if killed_at else nullcontext():
            run(app)
    before = blobs(app)
    app.clock.advance(3 * HOUR)

    run(app)

    assert [len(events) for _, events in written(app)] == [2, 2, 2]
    assert all(len(body) <= MAX_BLOB for body in app.dead_letters.blobs.values())
    assert records(app) == [f"e-{number}" for number in range(6)]
    assert before <= blobs(app) == notices(app)
    assert set(app.all_stored()) == {Queue.DELIVERIES}


def test_what_another_run_has_received_meanwhile_is_left_to_it(
    app: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The five minutes for which it was hidden are over."""
    app.put(Queue.DEADLETTERS, dead(0, note=LONG), dead(1, note=LONG))
    replace = app.queues.replace
    receipts = iter([None])

    def lost_once(*args: Any) -> Receipt | None:
        return next(receipts, replace(*args))

    monkeypatch.setattr(app.queues, "replace", lost_once)

    run(app)

    assert records(app) == ["e-1"]
    assert app.waiting(Queue.DEADLETTERS) == [(5 * MINUTE, [0])]


@pytest.mark.parametrize("unanswered", range(3))
def test_a_message_that_may_have_been_told_a_path_is_not_taken_for_written(
    app: Deployment, monkeypatch: pytest.MonkeyPatch, unanswered: int
) -> None:
    """The path was stored, its answer was lost, and the SDK's repeat found the receipt stale."""
    app.put(Queue.DEADLETTERS, *MANY[:3])
    replace, calls = app.queues.replace, iter(range(1000))

    def unanswered_once(*args: Any) -> Receipt | None:
        done = replace(*args)
        return None if next(calls) == unanswered else done

    monkeypatch.setattr(app.queues, "replace", unanswered_once)
    run(app)
    app.clock.advance(5 * MINUTE)

    run(app)

    assert records(app) == ["e-0", "e-1", "e-2"]
    assert app.all_stored() == {}


def test_a_repeat_of_what_was_written_needs_the_destination_to_answer(app: Deployment) -> None:
    app.put(Queue.DEADLETTERS, dead(0, note=LONG), dead(1, note=LONG))
    app.queues.fail_next("delete", times=2)
    with pytest.raises(StorageUnavailable):
        run(app)
    app.clock.advance(5 * MINUTE)
    app.dead_letters.fail_next("find")

    run(app)
    left = app.queues.waits(Queue.DEADLETTERS)
    app.clock.advance(MINUTE)
    run(app)

    assert (left, app.all_stored()) == ([MINUTE] * 2, {})
    assert records(app) == ["e-0", "e-1"]


def test_a_deletion_that_fails_keeps_its_own_message_alone(app: Deployment) -> None:
    app.put(Queue.DEADLETTERS, *[dead(number, note=LONG) for number in range(20)])
    app.queues.fail_next("delete")

    with pytest.raises(StorageUnavailable):
        run(app)

    assert app.all_stored() == {Queue.DEADLETTERS: 1}


@pytest.mark.parametrize("seconds", [1.5, 16])
def test_a_run_on_a_slow_queue_ends_in_time_and_the_next_ones_go_on(
    app: Deployment, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """The host ends a function after ten minutes, and with it all that is being delivered."""
    for name in ("crm", "billing"):
        for number in range(300):
            app.put(Queue.DEADLETTERS, dead(number, note=LONG, subscription=name))
    with monkeypatch.context() as patched:
        for verb in ("replace", "delete", "hide"):
            act = getattr(app.queues, verb)

            def slow(*args: Any, act: Any = act) -> Any:
                app.clock.advance(timedelta(seconds=seconds))
                return act(*args)

            patched.setattr(app.queues, verb, slow)
        took = []
        for _ in range(3):
            began = app.clock.now()
            run(app)
            took.append(app.clock.now() - began)
    while app.all_stored():
        app.clock.advance(5 * MINUTE)
        run(app)

    assert max(took) < 4 * MINUTE
    assert records(app) == sorted(f"e-{number}" for number in range(300) for _ in range(2))
