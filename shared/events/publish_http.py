"""The HTTP form of publishing: the topic that a path names, a request's events, and the answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from shared.clip import clip
from shared.errors import AppError, InvalidEvents, MethodNotAllowed, TooLarge, WrongPath
from shared.events import cloudevents_schema, custom_schema, eventgrid_schema
from shared.events.data_plane import CUSTOM, data_plane
from shared.events.event import Event
from shared.events.literals import dumps
from shared.events.schema_rules import SCHEMA_NAMES, Arrival
from shared.events.topic import InputSchema, SourceTopic, Topic, TopicName
from shared.http import HttpAnswer, HttpRequest

_PUBLISH = "publish"
_PULL = frozenset({"receive", "acknowledge", "release", "reject", "renewLock"})
_LONGEST_SHOWN = 160  # characters of a path in an answer
_NAME = "[A-Za-z0-9-]{3,50}"
# What a URL near those of topics names: a namespace, or two names with a full stop, and a topic.
_NEAR = re.compile(
    rf"[^/]*//[^/]*/(?:namespaces/({_NAME})/)?topics/(?:({_NAME})\.)?({_NAME})(:publish)?(?:[/:].*)?",
    re.IGNORECASE,
)
_RETRY_AFTER_SECONDS = "5"
_UNAVAILABLE = 503
_CLIENT_REQUEST_ID = "x-ms-client-request-id"
_ECHOED = re.compile(r"[!-~](?:[ -~]{0,126}[!-~])?")  # short, and any header can carry it

_Parser = Callable[[HttpRequest, Topic, Arrival], tuple[Event, ...]]
_PARSERS: Mapping[InputSchema, _Parser] = {
    InputSchema.EVENT_GRID: eventgrid_schema.parse,
    InputSchema.CLOUD_EVENTS: cloudevents_schema.parse,
    InputSchema.CUSTOM: custom_schema.parse,
}


def topic_name(request: HttpRequest) -> str:
    """
    Return the name of the topic of a request.

    Raises:
        InvalidEvents: the path is an operation of pull delivery.
        WrongPath: it is no path of a topic.
    """
    if data_plane(request) is CUSTOM:
        name = request.params.get("topic")
        # Namespace topics have their own route.
        if name is None or TopicName.parse(name):
            raise WrongPath(_wrong_path(request))
        if SourceTopic.parse(name):
            raise WrongPath(f"{no_resource(request)} Nobody publishes to the topic of a source.")
        return name
    topic, _, action = request.params["action"].rpartition(":")
    if action in _PULL:
        message = f"Pull delivery, '{action}', is not included here. Instead, subscribe a webhook."
        raise InvalidEvents(message, detail_code="UnsupportedOperation")
    if action != _PUBLISH:
        raise WrongPath(_wrong_path(request))
    return TopicName(request.params["namespace"], topic).joined


def no_resource(request: HttpRequest) -> str:
    """Say that nothing has the path of a request."""
    shown = clip(_without_query(request.url), _LONGEST_SHOWN)
    return f"No HTTP resource was found that matches the request URI '{shown}'."


def _wrong_path(request: HttpRequest) -> str:
    """Say where a request belongs, with the names in its path, as far as they can be names."""
    found = _NEAR.fullmatch(_without_query(request.url))
    of_path, joined, topic, action = found.groups() if found else (None, None, None, None)
    namespace = of_path or joined or ("NAMESPACE" if action else None)
    right = f"/topics/{topic or 'NAME'}/api/events"
    if namespace:
        right = f"/namespaces/{namespace}/topics/{topic}:publish"
    return f"{no_resource(request)} POST events to {right}."


def _without_query(url: str) -> str:
    return url.partition("?")[0]  # a query may have keys


def read_events(request: HttpRequest, topic: Topic, arrival: Arrival) -> tuple[Event, ...]:
    """
    Return the events of an authorized request, at least one.

    Raises:
        InvalidEvents: the api-version is unknown, or an event doesn't conform to the schema.
        TooLarge: the request or an event is too large.
        UnsupportedMediaType: the schema does not allow the content type.
        Unauthenticated: an event names another topic.

    Source: order of checks as observed (contract §1.6).
    """
    _check_api_version(request)
    limit = data_plane(request).max_request_size
    if len(request.body) > limit:
        raise TooLarge(f"The maximum size ({limit}) has been exceeded.")
    return _PARSERS[topic.input_schema](request, topic, arrival)


def _check_api_version(request: HttpRequest) -> None:
    served = data_plane(request).api_versions
    version = request.query.get("api-version", served[-1])
    if version not in served:
        message = f"The api-version '{clip(version)}' is not supported. Use '{served[-1]}'."
        raise InvalidEvents(message, detail_code="UnsupportedApiVersion")


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
