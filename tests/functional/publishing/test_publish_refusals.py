"""What publishing answers where it stores nothing."""

from __future__ import annotations

import json

import pytest

from shared.engine.ports import Queue
from tests.functional.deployment import Deployment, Logged
from tests.functional.publish_requests import URL, code, event, nothing_stored, publish


def test_an_unknown_topic_is_not_found(app: Deployment) -> None:
    answer = publish(app, event(), topic="returns")

    assert (answer.status, code(answer)) == (404, "ResourceNotFound")
    assert f"request URI '{URL}'" in json.loads(answer.body)["error"]["message"]


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
