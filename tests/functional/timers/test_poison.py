"""Messages that the host gave up: tried again, then recorded."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from pushgrid.testing.memory import START
from shared.delivery.messages.message_writer import encode
from shared.engine.ports import Queue, Receipt
from shared.errors import StorageUnavailable
from tests.builders import ORIGIN, PARKED, a_delivery, a_message, text
from tests.functional.deployment import Deployment
from tests.unit.delivery.messages.wire import read_parts, together

HOUR = timedelta(hours=1)


@pytest.mark.parametrize("queue", [Queue.DELIVERIES_POISON, Queue.RETRIES_POISON])
def test_poison_is_tried_again_for_three_rounds(app: Deployment, queue: Queue) -> None:
    """Design §2, order of writes 6."""
    message = a_message(due=START - HOUR)
    rounds = []
    for _ in range(3):
        app.put(queue, message)
        app.return_poison.run(app.in_a_minute())
        (message,) = app.on(Queue.RETRIES)
        rounds.append((message.rounds, message.due, app.queues.waits(Queue.RETRIES)))
        app.queues.stored.clear()

    app.put(queue, message)
    app.return_poison.run(app.in_a_minute())

    assert rounds == [(number, None, [timedelta()]) for number in (1, 2, 3)]
    assert app.all_stored() == {}
    (record,) = map(json.loads, app.dead_letters.poison.values())
    assert record["body"] == encode(message)[0]
    assert record["reason"] == "failed again after 3 rounds"
    assert record["events"] == [json.loads(a_delivery().text or "")]
    assert record["queue"] == queue


def a_fan_out() -> str:
    """Write two events for two subscriptions, of which one lies in a shared blob."""
    events = [a_delivery(0), a_delivery(1, origin=PARKED._replace(first_line=3), text=None)]
    names = {"topic": "returns", "subscription": "audit", "generation": "g-2"}
    return together(a_message(events), a_message(events[1:], batch_size=10, **names))


@pytest.mark.parametrize("queue", [Queue.DELIVERIES_POISON, Queue.RETRIES_POISON])
def test_a_fan_out_message_returns_as_messages_of_its_subscriptions(
    app: Deployment, queue: Queue
) -> None:
    """One of them may be what fails: the others are not recorded with it."""
    app.queues.put(queue, a_fan_out())

    app.return_poison.run(app.in_a_minute())

    parts = read_parts(a_fan_out())
    assert app.on(Queue.RETRIES) == [replace(part, rounds=1) for part in parts]
    assert app.all_stored() == {Queue.RETRIES: 2}


def test_a_fan_out_message_is_deleted_after_all_of_them_are_stored(app: Deployment) -> None:
    app.queues.put(Queue.DELIVERIES_POISON, a_fan_out())
    puts = iter([False, *[True] * 1000])
    put = app.queues.put

    def put_once(*args: Any, **named: Any) -> Receipt:
        if next(puts):
            raise StorageUnavailable
        return put(*args, **named)

    app.queues.put = put_once  # type: ignore[method-assign]

    with pytest.raises(StorageUnavailable):
        app.return_poison.run(app.in_a_minute())

    assert app.all_stored() == {Queue.RETRIES: 1, Queue.DELIVERIES_POISON: 1}


def test_a_poison_record_has_parked_events_as_far_as_they_are_there(app: Deployment) -> None:
    name = app.payloads.write("p", START + HOUR, [text(id="parked"), ""])
    origin = ORIGIN._replace(payload=name)
    deliveries = [a_delivery(number, text=None, origin=origin) for number in range(2)]
    app.put(Queue.RETRIES_POISON, a_message(deliveries, rounds=3))

    app.return_poison.run(app.in_a_minute())

    (record,) = map(json.loads, app.dead_letters.poison.values())
    assert record["events"] == [json.loads(text(id="parked")), None]


def test_an_event_that_is_no_json_is_recorded_as_it_is(app: Deployment) -> None:
    """Else its message would come back for ever."""
    app.put(Queue.RETRIES_POISON, a_message([a_delivery(text="{damaged")], rounds=3))

    app.return_poison.run(app.in_a_minute())

    (record,) = map(json.loads, app.dead_letters.poison.values())
    assert (record["events"], app.all_stored()) == (["{damaged"], {})


@pytest.mark.parametrize(
    ("rounds", "fail"),
    [
        pytest.param(0, lambda app: app.queues.fail_next("put", times=1000), id="put back"),
        pytest.param(3, lambda app: app.dead_letters.fail_next("write_poison"), id="record"),
        pytest.param(3, lambda app: app.payloads.fail_next("read"), id="events"),
    ],
)
def test_poison_is_deleted_only_after_what_replaces_it_is_stored(
    app: Deployment, rounds: int, fail: Callable[[Deployment], None]
) -> None:
    parked = a_delivery(text=None, origin=ORIGIN._replace(payload="2026/x"))
    app.put(Queue.RETRIES_POISON, a_message([parked], rounds=rounds))
    fail(app)

    with pytest.raises(StorageUnavailable):
        app.return_poison.run(app.in_a_minute())

    assert app.all_stored() == {Queue.RETRIES_POISON: 1}
