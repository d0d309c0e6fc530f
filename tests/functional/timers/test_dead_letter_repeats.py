"""Runs that ended half-way: what they wrote is not written again."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from pushgrid.testing.memory import START
from shared.engine.ports import Queue, Receipt
from shared.errors import StorageUnavailable
from tests.builders import a_delivery, a_message, a_note
from tests.functional.deployment import MINUTE, Deployment

HOUR = timedelta(hours=1)


def dead(position: int) -> Any:
    note = a_note(keep_until=START + 24 * HOUR)
    return a_message([a_delivery(position)], dead_letter=note)


def run(app: Deployment) -> None:
    app.write_dead_letters.run(app.in_a_minute())


def written(app: Deployment) -> list[str]:
    """Return the ids of all records, by blob."""
    blobs = map(json.loads, app.dead_letters.blobs.values())
    return [each["id"] for blob in blobs for each in blob]


class Killed(BaseException):
    """The process ends."""


def kill(app: Deployment, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """End the process at a request to storage: *after* so many others."""
    calls = iter(range(1000))
    for store, verb in (
        (app.queues, "replace"),
        (app.queues, "delete"),
        (app.queues, "receive"),
        (app.dead_letters, "write"),
    ):
        act = getattr(store, verb)

        def counted(*args: Any, act: Any = act, **named: Any) -> Any:
            if next(calls) == after:
                raise Killed
            return act(*args, **named)

        monkeypatch.setattr(store, verb, counted)


@pytest.mark.parametrize("later", [5 * MINUTE, 3 * HOUR], ids=["soon", "in another hour"])
@pytest.mark.parametrize("after", range(18))
def test_a_run_that_is_killed_anywhere_loses_and_repeats_nothing(
    app: Deployment, monkeypatch: pytest.MonkeyPatch, after: int, later: timedelta
) -> None:
    """A kill between its deletes repeated each record not yet deleted, 41 of 207."""
    app.put(Queue.DEADLETTERS, *map(dead, range(7)))
    with monkeypatch.context() as patched:
        kill(app, patched, after)
        with pytest.raises(Killed):
            run(app)

    app.clock.advance(later)
    app.put(Queue.DEADLETTERS, dead(7))  # which came meanwhile
    run(app)

    assert sorted(written(app)) == [f"e-{number}" for number in range(8)]
    assert app.all_stored() == {}


@pytest.mark.parametrize("after", range(6))
def test_a_message_that_fills_several_blobs_repeats_none_of_them(
    app: Deployment, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    note = a_note(keep_until=START + 24 * HOUR)
    letters = [a_delivery(number, text=f'{{"id":"e-{number}"}}') for number in range(2100)]
    app.put(Queue.DEADLETTERS, a_message(letters, batch_size=5000, dead_letter=note))
    assert len(app.queues.texts(Queue.DEADLETTERS)) == 1
    with monkeypatch.context() as patched:
        kill(app, patched, after)
        with pytest.raises(Killed):
            run(app)

    app.clock.advance(5 * MINUTE)
    run(app)

    assert sorted(written(app)) == sorted(f"e-{number}" for number in range(2100))
    assert len(app.dead_letters.blobs) == 3
    assert app.all_stored() == {}


def test_what_another_run_has_received_meanwhile_is_left_to_it(
    app: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The five minutes for which it was hidden are over."""
    app.put(Queue.DEADLETTERS, dead(0), dead(1))
    replace = app.queues.replace
    receipts = iter([None])

    def lost_once(*args: Any) -> Receipt | None:
        return next(receipts, replace(*args))

    monkeypatch.setattr(app.queues, "replace", lost_once)

    run(app)

    assert written(app) == ["e-1"]
    assert app.waiting(Queue.DEADLETTERS) == [(5 * MINUTE, [0])]


@pytest.mark.parametrize("unanswered", range(3))
def test_a_message_that_may_have_been_told_a_path_is_not_taken_for_written(
    app: Deployment, monkeypatch: pytest.MonkeyPatch, unanswered: int
) -> None:
    """The path was stored, its answer was lost, and the SDK's repeat found the receipt stale."""
    app.put(Queue.DEADLETTERS, *map(dead, range(3)))
    replace, calls = app.queues.replace, iter(range(1000))

    def unanswered_once(*args: Any) -> Receipt | None:
        done = replace(*args)
        return None if next(calls) == unanswered else done

    monkeypatch.setattr(app.queues, "replace", unanswered_once)
    run(app)
    app.clock.advance(5 * MINUTE)

    run(app)

    assert sorted(written(app)) == ["e-0", "e-1", "e-2"]
    assert app.all_stored() == {}


def test_a_repeat_of_what_was_written_needs_the_destination_to_answer(app: Deployment) -> None:
    app.put(Queue.DEADLETTERS, dead(0), dead(1))
    app.queues.fail_next("delete")
    with pytest.raises(StorageUnavailable):
        run(app)
    app.clock.advance(5 * MINUTE)
    app.dead_letters.fail_next("find")

    run(app)
    left = app.queues.waits(Queue.DEADLETTERS)
    app.clock.advance(MINUTE)
    run(app)

    assert (left, app.all_stored()) == ([MINUTE] * 2, {})
    assert written(app) == ["e-0", "e-1"]
