"""Queues that are missing, and the deployment's first start."""

from __future__ import annotations

from datetime import timedelta

import pytest

from pushgrid.testing.memory import START
from shared.clock import timestamp
from shared.engine.ports import STATE, Queue, Table
from shared.engine.timers.preparation import AGAIN_AFTER, Preparation, first_start
from shared.engine.timers.queue_watch import WatchQueues
from tests.functional.deployment import MINUTE, Deployment


def preparation(app: Deployment) -> Preparation:
    def sleep(seconds: float) -> None:
        app.clock.advance(timedelta(seconds=seconds))

    return Preparation(watch=app.queues, state=app.resources, clock=app.clock, sleep=sleep)


def began_at(app: Deployment) -> str:
    began = first_start(app.resources.list(Table.TOPICS, STATE))
    return timestamp(began) if began else ""


def test_a_process_makes_all_queues_and_the_first_one_records_the_start(app: Deployment) -> None:
    preparation(app).run()
    app.clock.advance(MINUTE)
    preparation(app).run()

    assert app.queues.made == set(Queue)
    assert began_at(app) == timestamp(START)


@pytest.mark.parametrize("method", ["make", "get", "put"])
def test_while_storage_fails_it_tries_again_each_minute(app: Deployment, method: str) -> None:
    (app.queues if method == "make" else app.resources).fail_next(method, 2)

    preparation(app).run()

    assert app.queues.made == set(Queue)
    assert began_at(app) == timestamp(START + 2 * AGAIN_AFTER)


def test_the_first_of_two_processes_that_start_together_records_the_start(
    app: Deployment,
) -> None:
    def other() -> None:
        app.resources.answered = lambda: None
        app.clock.advance(-MINUTE)
        preparation(app).run()
        app.clock.advance(MINUTE)

    app.resources.answered = other  # after the first has read that there is no row

    preparation(app).run()

    assert began_at(app) == timestamp(START - MINUTE)


def test_a_damaged_row_names_no_start(app: Deployment) -> None:
    preparation(app).run()
    app.resources.damage(Table.TOPICS, STATE, "first-start", {"at": 1})

    assert began_at(app) == ""


def test_the_timer_makes_a_queue_that_it_finds_missing_and_asks_for_no_other(
    app: Deployment,
) -> None:
    watch = WatchQueues(watch=app.queues, clock=app.clock)
    watch.run(app.in_a_minute())
    made = set(app.queues.made)
    app.queues.fail_next("make")  # a further call
    app.clock.advance(2 * MINUTE)
    watch.run(app.in_a_minute())

    assert made == set(Queue)
