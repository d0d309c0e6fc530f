"""The answers of the data plane, exactly as Event Grid's."""

from __future__ import annotations

import json

import pytest

from shared.errors import (
    InvalidEvents,
    MethodNotAllowed,
    NotFound,
    StorageUnavailable,
    TooLarge,
    Unauthenticated,
)
from shared.events.publish_http import accepted_answer, error_answer, options_answer
from shared.events.topic import InputSchema
from tests.unit.events.publishing import a_request, a_topic

_ID = "3f0c1c8e-0000-4000-8000-000000000001"
POST = a_request()
_REFERENCE = f" Request ID {_ID}."
_HEADERS = {"Content-Type": "application/json; charset=utf-8", "x-ms-request-id": _ID}


_NO_RESOURCE = "No HTTP resource was found that matches the request URI 'https://a/b'."


@pytest.mark.parametrize(
    ("error", "status", "code", "detail", "message"),
    [
        (InvalidEvents("No."), 400, "BadRequest", "InputJsonInvalid", f"No.{_REFERENCE}"),
        (
            InvalidEvents("No.", detail_code="InvalidCloudEventHeader"),
            *(400, "BadRequest", "InvalidCloudEventHeader", f"No.{_REFERENCE}"),
        ),
        (Unauthenticated('"é'), 401, "Unauthorized", "Unauthorized", f'"é{_REFERENCE}'),
        (NotFound(_NO_RESOURCE), 404, "NotFound", "ResourceNotFound", _NO_RESOURCE + _REFERENCE),
        (
            TooLarge("The maximum size (1536000) has been exceeded."),
            *(413, "RequestEntityTooLarge", "PayloadTooLarge"),
            "The maximum size (1536000) has been exceeded.",
        ),
    ],
    ids=["400", "400 of a kind", "401", "404", "413"],
)
def test_errors_have_event_grids_form(error, status, code, detail, message):
    answer = error_answer(POST, error, _ID)

    assert (answer.status, answer.headers) == (status, _HEADERS)
    assert answer.body.isascii()
    assert json.loads(answer.body) == {
        "error": {
            "code": code,
            "message": message,
            "details": [{"code": detail, "message": message}],
        }
    }


@pytest.mark.parametrize(
    ("error", "headers"),
    [
        (MethodNotAllowed(), {"Allow": "OPTIONS, POST"}),  # 405
        (StorageUnavailable(), {"Retry-After": "5"}),  # 503
    ],
)
def test_some_errors_have_a_header_for_clients(error, headers):
    assert error_answer(POST, error, _ID).headers == _HEADERS | headers


_ACCEPTED = {"api-supported-versions": "2018-01-01", "x-ms-request-id": _ID}


@pytest.mark.parametrize(
    ("client_id", "wants_echo", "is_echoed"),
    [
        ("order 17 (second try)", "True", True),
        ("order 17 (second try)", "false", False),
        ("order 17 (second try)", None, False),
        (None, "true", False),
        ("x" * 128, "true", True),
        ("x" * 129, "true", False),
        ("é", "true", False),
        ("a\r\nSet-Cookie: b", "true", False),
        (" a", "true", False),
        ("", "true", False),
    ],
)
def test_acceptance_echoes_the_clients_id_if_it_is_asked_to_and_any_header_can_carry_it(
    client_id: str | None, wants_echo: str | None, *, is_echoed: bool
):
    given = {"x-ms-client-request-id": client_id, "x-ms-return-client-request-id": wants_echo}
    sent = {name: value for name, value in given.items() if value is not None}

    answer = accepted_answer(a_request(headers=sent), _ID)

    echoed = {"x-ms-client-request-id": client_id} if is_echoed else {}
    assert (answer.status, answer.headers, answer.body) == (200, _ACCEPTED | echoed, b"")


@pytest.mark.parametrize(
    ("schema", "name"),
    [(InputSchema.EVENT_GRID, "EventGridEvent"), (InputSchema.CLOUD_EVENTS, "CloudEventV10")],
)
def test_options_name_the_schema(schema, name):
    answer = options_answer(POST, a_topic(schema), _ID)

    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers == _ACCEPTED | {"Allow": "POST,OPTIONS", "aeg-input-event-schema": name}
