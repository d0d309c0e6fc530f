"""What publishing answers where it stores nothing."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from shared.engine.ports import Queue
from shared.http import HttpAnswer
from tests.functional.deployment import Deployment, Logged
from tests.functional.publish_requests import (
    URL,
    code,
    event,
    nothing_stored,
    publish,
    publish_request,
)
from tests.unit.events.signing import sign

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
def test_without_a_key_an_unknown_topic_looks_like_any_other(
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


def without_id(answer: HttpAnswer) -> str:
    return answer.body.decode().replace(answer.headers["x-ms-request-id"], "")


def test_the_name_of_a_topic_has_no_case(app: Deployment) -> None:
    app.subscribe()

    assert publish(app, event(), topic="ORDERS").status == 200
    assert len(app.on(Queue.DELIVERIES)) == 1


@pytest.mark.parametrize("body", [b"", b"[" * 1000, json.dumps([event()]).encode()])
def test_a_wrong_key_is_refused_before_the_body_counts(
    app: Deployment, logged: Logged, body: bytes
) -> None:
    app.subscribe()
    for store in (app.queues, app.payloads):  # any call would answer 503
        for method in ("put", "write"):
            if hasattr(store, method):
                store.fail_next(method)
    app.directory.fail_next("of_topic")

    answer = publish(app, body=body, aeg_sas_key="d3Jvbmc=")

    assert (answer.status, code(answer)) == (401, "Unauthorized")
    assert nothing_stored(app)
    (line,) = logged("publish.refused")
    assert (line["topic"], line["status"]) == ("orders", 401)
    assert "d3Jvbmc=" not in str(line)


def test_the_log_names_the_limit_that_a_body_is_above(app: Deployment, logged: Logged) -> None:
    publish(app, body=b" " * 1_536_001)

    (line,) = logged("publish.refused")
    assert (line["code"], line["status"]) == ("PayloadTooLarge", 413)
    assert "1536000" in line["detail"]


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE"])
def test_other_methods_are_not_allowed(app: Deployment, method: str) -> None:
    answer = publish(app, event(), method=method, aeg_sas_key="")

    assert (answer.status, answer.headers["Allow"]) == (405, "OPTIONS, POST")
    assert nothing_stored(app)


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
