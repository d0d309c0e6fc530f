"""Messages that can't be stored again or written: each costs only itself, and ends as a record."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable
from datetime import timedelta
from functools import cache
from typing import Any

import pytest

from pushgrid.testing.memory import START
from shared.engine.ports import Queue
from shared.engine.timers.receiving import MAX_RECEIVES
from shared.errors import StorageUnavailable, Unstorable
from shared.events.notices import WrittenBlob
from shared.subscriptions.subscription import DeadLetterDestination
from tests.builders import ORIGIN, a_delivery, a_message, a_note, compact, noise, text
from tests.functional.deployment import MINUTE, Deployment, Logged
from tests.unit.delivery.messages.wire import read, wire

SURROGATE = "\ud800"


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
    if queue is Queue.WAITING:
        return app.wake.run
    timer: Any = app.write_dead_letters if queue is Queue.DEADLETTERS else app.return_poison
    return lambda: timer.run(app.in_a_minute())


def recorded(app: Deployment) -> list[dict[str, Any]]:
    return [json.loads(body) for body in app.dead_letters.poison.values()]


def test_there_is_such_a_message(app: Deployment) -> None:
    message = read(an_unstorable())

    assert len(an_unstorable()) < 48 * 1024
    with pytest.raises(Unstorable):
        app.wake.requeue.at_due(message)
    assert app.slept == []  # it would be refused again


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


def test_a_dead_letter_that_no_path_can_name_becomes_a_record(app: Deployment) -> None:
    """A lone surrogate in a name."""
    write = app.dead_letters.write

    def strict(destination: DeadLetterDestination, path: str, *written: Any) -> WrittenBlob | None:
        path.encode()  # as every request does
        return write(destination, path, *written)

    app.dead_letters.write = strict  # type: ignore[assignment, method-assign]
    bad = a_message(dead_letter=a_note(), subscription=f"crm{SURROGATE}")
    good = a_message([a_delivery(1)], dead_letter=a_note(keep_until=START + timedelta(days=1)))
    app.put(Queue.DEADLETTERS, bad, good)

    run(app, job_of(app, Queue.DEADLETTERS), times=1)
    written = [json.loads(body) for body in app.dead_letters.blobs.values()]
    run(app, job_of(app, Queue.DEADLETTERS), times=MAX_RECEIVES - 1)

    assert [[each["id"] for each in blob] for blob in written] == [["e-1"]]
    (record,) = recorded(app)
    assert "UnicodeEncodeError" in record["reason"]
    assert (app.all_stored(), len(app.dead_letters.blobs)) == ({}, 1)


def test_a_payload_that_cannot_be_read_costs_only_its_own_message(app: Deployment) -> None:
    """Its bytes are damaged."""
    name = app.payloads.write("p", START + timedelta(days=4), [text(id="parked")])
    parked = a_delivery(text=None, origin=ORIGIN._replace(payload=name))
    read_blob = app.payloads.read
    damaged = b"\xff"

    def read_damaged(blob: str) -> Any:
        return damaged.decode() if blob == name else read_blob(blob)

    app.payloads.read = read_damaged  # type: ignore[method-assign,assignment]
    note = a_note(keep_until=START + timedelta(days=1))
    app.put(Queue.DEADLETTERS, a_message([parked], dead_letter=note))
    app.put(Queue.DEADLETTERS, a_message([a_delivery(1)], dead_letter=note))

    run(app, job_of(app, Queue.DEADLETTERS))

    (blob,) = (json.loads(body) for body in app.dead_letters.blobs.values())
    assert [each["id"] for each in blob] == ["e-1"]
    (record,) = recorded(app)
    assert (record["events"], app.all_stored()) == ([None], {})


@pytest.mark.parametrize("fault", [StorageUnavailable(), MemoryError(), OSError("no descriptor")])
def test_a_fault_of_ours_is_no_fault_of_the_message(app: Deployment, fault: Exception) -> None:
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
    """Each put is repeated for two minutes, and what was taken is hidden for five."""
    app.put(Queue.WAITING, *[a_message(subscription=f"s-{number}") for number in range(9)])
    app.queues.fail_next("put", 1000)
    began = app.clock.now()

    (fault,) = run(app, job_of(app, Queue.WAITING), times=1)

    assert isinstance(fault, StorageUnavailable)
    assert app.clock.now() - began < 8 * MINUTE  # one put's patience, and the time until the next
    assert app.all_stored() == {Queue.WAITING: 9}


@pytest.mark.parametrize("queue", [Queue.WAITING, Queue.RETRIES_POISON, Queue.DEADLETTERS], ids=str)
@pytest.mark.parametrize("events", [1, 2])
def test_what_unpacks_to_30_megabytes_is_recorded_at_once(
    app: Deployment, queue: Queue, events: int
) -> None:
    """Reading it stops at the limit of a message."""
    note = a_note() if queue is Queue.DEADLETTERS else None
    whole = a_message([a_delivery(number) for number in range(events)], dead_letter=note)
    texts = b"\n".join([b"0" * (30_000_000 // events)] * events)
    packed = base64.b64encode(zlib.compress(texts, 9)).decode()
    app.queues.put(queue, compact(wire(whole) | {"packed": packed}))
    app.put(queue, whole)

    raised = run(app, job_of(app, queue), times=1)

    (record,) = recorded(app)
    assert (raised, record["queue"], "too large" in record["reason"]) == ([], queue, True)
    assert sum(app.all_stored().values()) + len(app.dead_letters.blobs) == 1
