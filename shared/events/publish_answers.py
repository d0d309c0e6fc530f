"""Builds the answers of the data plane, exactly as Event Grid's."""

from __future__ import annotations

import re

from shared.errors import AppError, MethodNotAllowed, TooLarge
from shared.events.data_plane import data_plane
from shared.events.literals import dumps
from shared.events.schema_rules import SCHEMA_NAMES
from shared.events.topic import Topic
from shared.http import HttpAnswer, HttpRequest

_RETRY_AFTER_SECONDS = "5"
_UNAVAILABLE = 503
_CLIENT_REQUEST_ID = "x-ms-client-request-id"
_ECHOED = re.compile(r"[!-~](?:[ -~]{0,126}[!-~])?")  # short, and any header can carry it


def accepted_answer(request: HttpRequest, request_id: str) -> HttpAnswer:
    """Answer that all events are stored: 200, the only status that the official clients accept."""
    body = data_plane(request).accepted
    headers = _headers(request, request_id) | ({"Content-Type": "application/json"} if body else {})
    wants_echo = request.headers.get("x-ms-return-client-request-id", "").lower() == "true"
    client_id = request.headers.get(_CLIENT_REQUEST_ID, "")
    if wants_echo and _ECHOED.fullmatch(client_id):
        headers[_CLIENT_REQUEST_ID] = client_id
    return HttpAnswer(status=200, headers=headers, body=body)


def options_answer(request: HttpRequest, topic: Topic, request_id: str) -> HttpAnswer:
    """
    Answer OPTIONS with the input schema of *topic*.

    Source: Event Grid "Get the type of schema supported by an Azure Event Grid topic" (2022-07-14).
    """
    headers = {
        **_headers(request, request_id),
        "Allow": "POST,OPTIONS",
        "aeg-input-event-schema": SCHEMA_NAMES[topic.input_schema],
    }
    return HttpAnswer(status=200, headers=headers)


def error_answer(request: HttpRequest, error: AppError, request_id: str) -> HttpAnswer:
    """
    Answer with *error* in Event Grid's form, with the id by which the log has it.

    Source: recorded answers of the service (contract §1.6, with what differs); 413 has no id.
    """
    reference = "" if isinstance(error, TooLarge) else f" Request ID {request_id}."
    document = {
        "error": {
            "code": error.code,
            "message": error.message + reference,
            "details": [
                {"code": fault.code, "message": fault.message + reference} for fault in error.faults
            ],
        }
    }
    headers = {"Content-Type": "application/json; charset=utf-8", "x-ms-request-id": request_id}
    if isinstance(error, MethodNotAllowed):
        headers["Allow"] = ", ".join(data_plane(request).methods)
    if error.status == _UNAVAILABLE:
        headers["Retry-After"] = _RETRY_AFTER_SECONDS
    return HttpAnswer(status=error.status, headers=headers, body=dumps(document).encode())


def _headers(request: HttpRequest, request_id: str) -> dict[str, str]:
    versions = ", ".join(data_plane(request).api_versions)
    return {"api-supported-versions": versions, "x-ms-request-id": request_id}
