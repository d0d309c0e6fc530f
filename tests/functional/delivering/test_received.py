"""What a received message meets before it is pushed: its time, subscription and payload."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from pushgrid.testing.memory import START, answered
from shared.delivery.messages.message import VERSION
from shared.delivery.messages.message_writer import encode
from shared.engine.ports import Queue
from shared.errors import MalformedMessage
from tests.builders import (
    DEAD,
    ORIGIN,
    PARKED,
    URL,
    a_delivery,
    a_message,
    a_note,
    a_subscription,
    an_attempt,
    text,
)
from tests.functional.deployment import MINUTE, SECOND, Deployment, Logged
from tests.unit.delivery.messages.wire import together

HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("early", "pushes"), [(2, 1), (2.001, 0), (600, 0)], ids=["2 s", "more", "10 min"]
)
def test_a_message_received_early_is_put_back_unattempted(
    app: Deployment, early: float, pushes: int
) -> None:
    """Design §2: by more than 2 s."""
    app.subscribe()
    message = a_message([a_delivery(attempts=3, last=an_attempt())], due=START + early * SECOND)

    app.run(message)

    assert len(app.pusher.sent) == pushes
    assert app.on(Queue.RETRIES) == ([] if pushes else [message])


def test_a_message_far_too_early_waits_on_the_other_queue(app: Deployment) -> None:
    app.run(a_message([a_delivery(attempts=7)], due=START + HOUR))

    assert app.waiting(Queue.WAITING) == [(59 * MINUTE, [0])]


@pytest.mark.parametrize("newer", [f'{{"pushgrid":{VERSION + 1}}}', '{"pushgrid":9,"x":"\u00fc"}'])
def test_a_newer_message_is_put_back_for_five_minutes(app: Deployment, newer: str) -> None:
    app.work(newer)

    assert app.queues.texts(Queue.RETRIES) == [newer]
    assert app.queues.waits(Queue.RETRIES) == [5 * MINUTE]


@pytest.mark.parametrize("text", ["damaged", encode(a_message(dead_letter=a_note()))[0]])
def test_a_message_that_is_no_delivery_is_a_fault_of_ours(app: Deployment, text: str) -> None:
    app.subscribe()

    with pytest.raises(MalformedMessage):
        app.work(text)

    assert (app.pusher.sent, app.all_stored()) == ([], {})


@pytest.mark.parametrize(
    "known",
    [{}, {"generation": "g-0", "endpoint_url": "https://old.example/"}, {"expires_at": START}],
    ids=["not known yet", "known from before", "expired as known"],
)
def test_a_subscription_is_read_past_the_cache_before_its_events_end(
    app: Deployment, known: dict[str, Any]
) -> None:
    """Design §2, order of writes 4. `test_lifecycle` has the ends themselves."""
    if known:
        app.subscribe(**known)
    app.directory.change(a_subscription())

    app.run(a_message())

    assert [sent.request.url for sent in app.pusher.sent] == [URL]


def test_a_cached_subscription_needs_no_uncached_read(app: Deployment) -> None:
    app.subscribe()
    app.directory.fail_next("read_uncached")

    app.run(a_message())

    assert len(app.pusher.sent) == 1


@pytest.mark.parametrize("method", ["subscription", "read_uncached", "topic"])
def test_while_tables_fail_events_are_put_back(app: Deployment, method: str) -> None:
    app.directory.change(a_subscription())
    app.directory.fail_next(method)
    delivery = a_delivery(attempts=2, last=an_attempt())

    app.run(a_message([delivery], rounds=2))

    (message,) = app.on(Queue.RETRIES)
    assert message == a_message([delivery], rounds=2, due=START + MINUTE)
    assert (app.queues.waits(Queue.RETRIES), app.pusher.sent) == ([MINUTE], [])


def test_parked_events_are_read_from_their_blob(app: Deployment) -> None:
    app.subscribe()
    lines = [text(id="of another request"), "", text(id="parked")]
    name = app.payloads.write("p", START + HOUR, lines)
    origin = ORIGIN._replace(payload=name, first_line=1)

    app.run(a_message([a_delivery(0), a_delivery(1, text=None, origin=origin)]))

    ids = [json.loads(sent.request.body)[0]["id"] for sent in app.pusher.sent]
    assert ids == ["e-0", "parked"]


def test_a_fan_out_message_is_delivered_to_each_subscription(app: Deployment) -> None:
    for name in ("crm", "audit"):
        app.subscribe(name=name, endpoint_url=f"https://{name}.example/")
    events = [a_delivery(number) for number in range(2)]
    body = together(a_message(events), a_message(events[1:], subscription="audit"))

    app.work(body)

    found = [(sent.request.url, json.loads(sent.request.body)[0]["id"]) for sent in app.pusher.sent]
    crm, audit = "https://crm.example/", "https://audit.example/"
    assert sorted(found) == [(audit, "e-1"), (crm, "e-0"), (crm, "e-1")]
    assert app.all_stored() == {}


def test_a_parked_event_stays_parked_for_its_retry(app: Deployment) -> None:
    app.subscribe()
    name = app.payloads.write("p", START + HOUR, [text()])
    app.pusher.script(URL, answered(500))

    app.run(a_message([a_delivery(text=None, origin=ORIGIN._replace(payload=name))]))

    (delivery,) = app.on(Queue.RETRIES)[0].deliveries
    assert (delivery.text, delivery.origin.payload) == (None, name)


@pytest.mark.parametrize("lines", [None, ["", "x"], []], ids=["no blob", "empty line", "too short"])
def test_a_missing_payload_is_a_recorded_end(
    app: Deployment, logged: Logged, lines: Sequence[str] | None
) -> None:
    """Design §2, order of writes 5: never an exception, and the others go on."""
    app.subscribe(dead_letter=DEAD)
    if lines is not None:
        app.payloads.blobs[str(PARKED.payload)] = tuple(lines)

    app.run(a_message([a_delivery(0, text=None, origin=PARKED), a_delivery(1)]))

    assert [line["reason"] for line in logged("delivery.dropped")] == ["PayloadMissing"]
    assert (len(app.pusher.sent), app.all_stored()) == (1, {})


def test_a_payload_that_cannot_be_read_now_is_no_end(app: Deployment) -> None:
    """However long blobs fail: the host would give the message up after 20 minutes."""
    app.subscribe()
    app.payloads.fail_next("read")

    app.run(a_message([a_delivery(text=None, origin=PARKED)]))

    assert app.waiting(Queue.RETRIES) == [(MINUTE, [0])]
