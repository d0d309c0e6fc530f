"""Publishing: 200 only after everything that matches is stored (design §2, order of writes 1)."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from pushgrid.testing.memory import START
from shared.engine.ports import Queue
from shared.http import HttpAnswer
from shared.subscriptions.filters import EventFilter
from tests.builders import TOPIC_ID, noise
from tests.functional.deployment import MINUTE, Deployment, Logged
from tests.functional.publish_requests import (
    URL,
    code,
    event,
    nothing_stored,
    publish,
    publish_request,
)
from tests.unit.events.publishing import sign


def test_an_accepted_event_is_on_the_queue(app: Deployment) -> None:
    app.subscribe()

    answer = publish(app, event())

    assert (answer.status, answer.body) == (200, b"")
    (message,) = app.on(Queue.DELIVERIES)
    (delivery,) = message.deliveries
    assert json.loads(delivery.text or "") == event() | {
        "topic": TOPIC_ID,
        "dataVersion": "",
        "metadataVersion": "1",
    }
    assert (delivery.origin.published_at, delivery.attempts) == (START, 0)
    assert (message.due, app.queues.waits(Queue.DELIVERIES)) == (None, [timedelta()])


def test_events_that_nobody_wants_are_accepted(app: Deployment, logged: Logged) -> None:
    app.subscribe(filter=EventFilter(subject_begins_with="/returns"))

    answer = publish(app, event(), event(1, data=noise(200_000)))

    assert answer.status == 200
    assert nothing_stored(app)
    assert [line["unmatched"] for line in logged("event.published")] == [2]


def test_what_is_too_large_goes_to_one_payload_blob_for_four_days(app: Deployment) -> None:
    """Design §2, order of writes 5: longer than any message can live."""
    for number in range(3):
        app.subscribe(name=f"s-{number}")

    publish(app, event(0), event(1, data=noise(90_000, 1)), event(2, data=noise(90_000, 2)))

    ((name, lines),) = app.payloads.blobs.items()
    expires = START + timedelta(days=4)
    assert name.startswith(f"{expires:%Y%m%d%H}")
    assert START + timedelta(hours=24 + 12 + 4 + 4, minutes=5) < expires
    assert [bool(line) for line in lines] == [False, True, True]
    assert len(app.on(Queue.DELIVERIES)) == 3
    for message in app.on(Queue.DELIVERIES):
        assert [each.origin.payload for each in message.deliveries] == [None, name, name]


@pytest.mark.parametrize(
    "fail",
    [
        pytest.param(lambda app: app.directory.fail_next("topic"), id="topic"),
        pytest.param(lambda app: app.directory.fail_next("of_topic"), id="subscriptions"),
        pytest.param(lambda app: app.payloads.fail_next("write"), id="payload"),
        pytest.param(lambda app: app.payloads.fail_next("write", after=True), id="payload, late"),
        pytest.param(lambda app: app.queues.fail_next("put"), id="message"),
        pytest.param(lambda app: app.queues.fail_next("put", after=True), id="message, late"),
    ],
)
def test_while_storage_fails_the_publisher_is_asked_to_retry(
    app: Deployment, fail: Callable[[Deployment], None]
) -> None:
    for number in range(3):
        app.subscribe(name=f"s-{number}")
    fail(app)

    answer = publish(app, event(0), event(1, data=noise(90_000)))

    assert (answer.status, code(answer)) == (503, "ServiceUnavailable")
    assert int(answer.headers["Retry-After"]) > 0
    assert app.payloads.blobs or app.all_stored() == {}
    assert publish(app, event(0), event(1, data=noise(90_000))).status == 200


def system_ids(app: Deployment) -> list[str]:
    found = [
        delivery.system_id(message.key)
        for message in app.on(Queue.DELIVERIES)
        for delivery in message.deliveries
    ]
    app.queues.stored.clear()
    return found


def test_a_repeated_request_has_the_same_system_ids(app: Deployment) -> None:
    """Design §2: the SDKs keep x-ms-client-request-id on their retries."""
    app.subscribe()
    publish(app, event(0), event(1), x_ms_client_request_id="r-1")
    first = system_ids(app)

    app.clock.advance(MINUTE)
    publish(app, event(0), event(1), x_ms_client_request_id="r-1")

    assert system_ids(app) == first
    assert len(set(first)) == 2


@pytest.mark.parametrize(
    ("number", "first", "second"),
    [
        pytest.param(0, "r-1", "r-2", id="id"),
        pytest.param(1, "r-1", "r-1", id="body"),
        pytest.param(0, "r-1", "", id="no id"),
        pytest.param(0, "", "", id="no ids"),
    ],
)
def test_another_request_has_other_system_ids(
    app: Deployment, number: int, first: str, second: str
) -> None:
    app.subscribe()
    publish(app, event(0), x_ms_client_request_id=first)
    before = system_ids(app)

    publish(app, event(number), x_ms_client_request_id=second)

    assert not set(before) & set(system_ids(app))


# --- what is answered where nothing is stored


CREDENTIALS = {
    "none": {},
    "a key": {"aeg-sas-key": "d3Jvbmc="},
    "an empty key": {"aeg-sas-key": ""},
    "a key in the query": {},
    "a signature": {"aeg-sas-token": sign(URL, key="d3Jvbmc=")},
    "no signature": {"aeg-sas-token": "x"},
    "a token": {"authorization": "Bearer x"},
    "another scheme": {"authorization": "Basic eDp5"},
}


@pytest.mark.parametrize("method", ["POST", "OPTIONS", "GET"])
@pytest.mark.parametrize("credential", CREDENTIALS)
def test_without_a_key_an_unknown_topic_looks_like_one_that_takes_keys(
    app: Deployment, credential: str, method: str
) -> None:
    query = {"aeg-sas-key": "d3Jvbmc="} if credential == "a key in the query" else {}
    request = publish_request(event(), method=method)
    headers = {"content-type": "application/json"} | CREDENTIALS[credential]

    known, unknown = (
        app.answer(replace(request, headers=headers, query=query, params={"topic": topic}))
        for topic in ("orders", "returns")
    )

    assert known.status >= 400
    assert replace(known, headers={}, body=b"") == replace(unknown, headers={}, body=b"")
    assert known.headers.keys() == unknown.headers.keys()
    assert without_id(known) == without_id(unknown)


def test_only_the_log_says_that_a_topic_does_not_exist(app: Deployment, logged: Logged) -> None:
    publish(app, event(), topic="returns")
    publish(app, event(), aeg_sas_key="d3Jvbmc=")

    unknown, known = logged("publish.refused")
    assert (unknown["topic"], unknown["unknown_topic"]) == ("returns", True)
    assert "unknown_topic" not in known
    assert "d3Jvbmc=" not in str(known)


def without_id(answer: HttpAnswer) -> str:
    return answer.body.decode().replace(answer.headers["x-ms-request-id"], "")


def test_the_name_of_a_topic_has_no_case(app: Deployment) -> None:
    app.subscribe()

    assert publish(app, event(), topic="ORDERS").status == 200
    assert len(app.on(Queue.DELIVERIES)) == 1


def test_the_log_names_the_limit_that_a_body_is_above(app: Deployment, logged: Logged) -> None:
    publish(app, body=b" " * 1_536_001)

    (line,) = logged("publish.refused")
    assert (line["code"], line["status"]) == ("PayloadTooLarge", 413)
    assert "1536000" in line["detail"]


def test_options_tells_the_schema(app: Deployment) -> None:
    answer = publish(app, method="OPTIONS", body=b"")

    assert answer.status == 200
    assert answer.headers["Allow"] == "POST,OPTIONS"
    assert answer.headers["aeg-input-event-schema"] == "EventGridEvent"


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(json.dumps([event(0), {"id": "e-1"}]).encode(), id="one bad event"),
    ],
)
def test_of_bad_input_nothing_is_stored(app: Deployment, body: bytes) -> None:
    """Contract §1.1: all or nothing."""
    app.subscribe()

    answer = publish(app, body=body)

    assert (answer.status, code(answer)) == (400, "InputJsonInvalid")
    assert answer.headers["x-ms-request-id"] in json.loads(answer.body)["error"]["message"]
    assert nothing_stored(app)
