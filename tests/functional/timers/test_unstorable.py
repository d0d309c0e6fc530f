"""Messages that nobody can handle: each costs only itself, is tried again, and ends as a record."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import cache
from typing import Any

import pytest

from pushgrid.testing.memory import START
from shared.engine.ports import Queue, Receipt
from shared.engine.timers.receiving import MAX_RECEIVES
from shared.engine.timers.timer_runs import Job
from shared.errors import StorageUnavailable
from shared.metrics import Metric
from tests.builders import (
    CRM,
    ORIGIN,
    PARKED,
    a_delivery,
    a_message,
    a_note,
    compact,
    encode,
    noise,
    text,
)
from tests.functional.deployment import MINUTE, SECOND, Deployment, Logged
from tests.functional.timers.dead_letters import HOUR
from tests.unit.delivery.messages.wire import read, read_parts, together, wire


@cache
def an_unstorable() -> str:
    """Write a message that fits as it is, and no more when its event is compressed as we do."""
    pieces = [noise(40, seed) for seed in range(100)]
    event = compact("".join(f"{pieces[n % 100]}{n % 7}" for n in range(50_000)))
    packed = base64.b64encode(zlib.compress(event.encode(), 9)).decode()
    return compact(wire(a_message([a_delivery(9)])) | {"packed": packed, "due": 0})


def run(app: Deployment, job: Callable[[], object], times: int = MAX_RECEIVES) -> list[Exception]:
    """Run a job again and again, as its messages become visible; return what it raised."""
    raised = []
    for _ in range(times):
        try:
            job()
        except Exception as fault:  # noqa: BLE001 - returned
            raised.append(fault)
        app.clock.advance(5 * MINUTE)
    return raised


def job_of(app: Deployment, queue: Queue) -> Callable[[], object]:
    jobs: dict[Queue, Job] = {
        Queue.WAITING: app.wake,
        Queue.DEADLETTERS: app.write_dead_letters,
    }
    return lambda: jobs.get(queue, app.return_poison).run(app.in_a_minute())


def recorded(app: Deployment) -> list[dict[str, Any]]:
    return [json.loads(body) for body in app.dead_letters.poison.values()]


@pytest.mark.parametrize(
    "queue", [Queue.WAITING, Queue.DELIVERIES_POISON, Queue.RETRIES_POISON], ids=str
)
def test_what_cannot_be_stored_again_becomes_a_record_and_the_rest_goes_on(
    app: Deployment, queue: Queue, logged: Logged
) -> None:
    """It stopped the whole run, each time."""
    app.queues.put(queue, an_unstorable())
    app.put(queue, a_message([a_delivery(1)], due=START), a_message([a_delivery(2)], due=START))

    raised = run(app, job_of(app, queue), times=1)

    left = sorted(each.position for message in app.on(Queue.RETRIES) for each in message.deliveries)
    assert left == [1, 2]
    assert (len(raised), len(app.queues.texts(queue)), recorded(app)) == (1, 1, [])
    raised = run(app, job_of(app, queue), times=MAX_RECEIVES - 1)
    assert len(raised) == MAX_RECEIVES - 2  # At last it is recorded, and the run succeeds.
    assert app.queues.texts(queue) == []
    (record,) = recorded(app)
    assert record["body"] == an_unstorable()
    assert record["reason"].startswith("it can't be handled: Unstorable(")
    assert record["events"] == [json.loads(read(an_unstorable()).deliveries[0].text or "")]
    assert len(logged("message.unhandled")) == MAX_RECEIVES
    assert app.metrics.of(Metric.AWAITING_BLOB) == {}  # It was not given up.


def test_a_payload_that_cannot_be_read_costs_only_its_own_message(app: Deployment) -> None:
    """Its bytes are damaged."""
    parked = a_delivery(text=None, origin=ORIGIN._replace(payload="2026/x"))

    app.payloads.read = lambda _: b"\xff".decode()  # type: ignore[method-assign, assignment]
    note = a_note(keep_until=START + 24 * HOUR)
    app.put(Queue.DEADLETTERS, a_message([parked], dead_letter=note))
    app.put(Queue.DEADLETTERS, a_message([a_delivery(1)], dead_letter=note))

    run(app, job_of(app, Queue.DEADLETTERS))

    (blob,) = (json.loads(body) for body in app.dead_letters.blobs.values())
    assert [each["id"] for each in blob] == ["e-1"]
    (record,) = recorded(app)
    assert (record["events"], app.all_stored()) == ([None], {})
    assert app.metrics.of(Metric.AWAITING_BLOB) == {CRM: -2}  # nor does what became a record wait


@pytest.mark.parametrize("fault", [StorageUnavailable(), RuntimeError("can't start new thread")])
def test_a_transient_fault_is_no_fault_of_the_message(app: Deployment, fault: Exception) -> None:
    app.put(Queue.WAITING, a_message([a_delivery(1)]))

    def fail(*_: Any, **__: Any) -> Any:
        raise fault

    put, app.queues.put = app.queues.put, fail  # type: ignore[method-assign]
    raised = run(app, job_of(app, Queue.WAITING), times=20)
    app.queues.put = put  # type: ignore[method-assign]
    run(app, job_of(app, Queue.WAITING), times=1)

    assert (raised, recorded(app)) == ([fault] * 20, [])
    assert app.all_stored() == {Queue.RETRIES: 1}


def test_after_its_time_a_run_with_a_fault_begins_nothing_more(app: Deployment) -> None:
    """Each put is repeated for half of the time that is left."""
    app.put(Queue.WAITING, *[a_message(subscription=f"s-{number}") for number in range(9)])
    app.queues.fail_next("put", 1000)
    began = app.clock.now()

    (fault,) = run(app, job_of(app, Queue.WAITING), times=1)

    assert isinstance(fault, StorageUnavailable)
    # A minute, a pause before the last try, and the time until the next run.
    assert app.clock.now() - began < MINUTE + 11 * SECOND + 5 * MINUTE
    assert app.all_stored() == {Queue.WAITING: 9}


def test_poison_that_is_not_reached_in_time_is_left_untouched(
    app: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a slow queue a run went on for hours, with messages that another could receive."""
    app.put(Queue.RETRIES_POISON, *[a_message([a_delivery(number)]) for number in range(200)])
    put = app.queues.put

    def slow(*args: Any, **named: Any) -> Receipt:
        app.clock.advance(16 * SECOND)
        return put(*args, **named)

    with monkeypatch.context() as patched:
        patched.setattr(app.queues, "put", slow)
        began = app.clock.now()
        app.return_poison.run(app.in_a_minute())
        took = app.clock.now() - began
    left = app.on(Queue.RETRIES_POISON)

    assert took < MINUTE + 17 * SECOND
    assert len(left) == 200 - len(app.on(Queue.RETRIES))
    assert {each.rounds for each in left} == {0}


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
