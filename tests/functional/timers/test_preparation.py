"""Queues that are missing, and the deployment's first start."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pushgrid.testing.composition import InMemoryApp
from pushgrid.testing.memory import START
from shared.clock import timestamp
from shared.engine.ports import STATE, Queue, Table
from shared.engine.timers.preparation import first_start
from shared.errors import StorageUnavailable
from tests.functional.deployment import MINUTE, Deployment, begin_background


def began_at(app: Deployment) -> str:
    began = first_start(app.resources.list(Table.TOPICS, STATE))
    return timestamp(began) if began else ""


def test_the_first_process_makes_all_queues_and_records_the_start(app: Deployment) -> None:
    assert app.preparation.run()
    made = set(app.queues.made)
    app.clock.advance(MINUTE)
    another = InMemoryApp(app.pusher, app.clock, app.store, "another")
    another.queues.fail_next("make")  # a further call
    another.resources.fail_next("put")

    assert another.preparation.run()

    assert made == set(Queue)
    assert began_at(app) == timestamp(START)
    assert app.clock.now() == START + MINUTE


def prepare(app: Deployment, times: int = 9) -> None:
    """Do what the app does by itself, for so many minutes."""
    begin_background(app)
    app.loop.advance(times * MINUTE)


@pytest.mark.parametrize(
    ("method", "stored", "began"),
    [("make", False, 0), ("get", False, 2), ("put", False, 2), ("put", True, 0)],
)
def test_while_storage_fails_it_tries_again_each_minute(
    app: Deployment, method: str, began: int, *, stored: bool
) -> None:
    (app.queues if method == "make" else app.resources).fail_next(method, 2, after=stored)

    prepare(app)

    assert app.queues.made == set(Queue)
    assert began_at(app) == timestamp(START + began * MINUTE)


def test_a_queue_that_can_not_be_made_keeps_neither_the_others_nor_the_start(
    app: Deployment,
) -> None:
    app.queues.fail_next("make", 1)

    is_done = app.preparation.run()
    made = set(app.queues.made)

    assert (made, is_done) == ({*Queue} - {next(iter(Queue))}, False)
    assert began_at(app) == timestamp(START)
    assert app.preparation.run()
    assert app.queues.made == set(Queue)


def test_the_first_of_two_processes_that_start_together_records_the_start(
    app: Deployment,
) -> None:
    another = replace(app.preparation)

    def other() -> None:
        app.resources.answered = lambda: None
        app.clock.advance(-MINUTE)
        another.run()
        app.clock.advance(MINUTE)

    app.resources.answered = other  # after the first has read that there is no row

    app.preparation.run()

    assert began_at(app) == timestamp(START - MINUTE)


def test_a_damaged_row_names_no_start(app: Deployment) -> None:
    app.preparation.run()
    app.resources.damage(Table.TOPICS, STATE, "first-start", {"at": 1})

    assert began_at(app) == ""


def test_the_timer_makes_a_queue_that_it_finds_missing_and_asks_for_no_other(
    app: Deployment,
) -> None:
    watch = app.watch_queues
    watch.run(app.in_a_minute())
    made = set(app.queues.made)
    app.queues.fail_next("make")  # a further call
    app.clock.advance(2 * MINUTE)
    watch.run(app.in_a_minute())

    assert made == set(Queue)


def test_of_queues_that_the_timer_finds_missing_one_that_can_not_be_made_keeps_no_other(
    app: Deployment,
) -> None:
    watch = app.watch_queues
    app.queues.fail_next("make")

    with pytest.raises(StorageUnavailable):
        watch.run(app.in_a_minute())
    made = set(app.queues.made)
    app.clock.advance(2 * MINUTE)
    watch.run(app.in_a_minute())

    assert made == {*Queue} - {next(iter(Queue))}
    assert app.queues.made == set(Queue)
