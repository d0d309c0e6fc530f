"""Defines how publishing to custom topics and to namespace topics differs, as values."""

from __future__ import annotations

import re
from dataclasses import dataclass

from shared.clip import clip
from shared.errors import InvalidEvents, WrongPath
from shared.events.topic import SourceTopic, TopicName
from shared.http import HttpRequest

MAX_REQUEST_EVENTS = 5000  # Event Grid "Quotas and limits" (2023-11-15)
_PUBLISH = "publish"
_PULL = frozenset({"receive", "acknowledge", "release", "reject", "renewLock"})
_LONGEST_SHOWN = 160  # characters of a path in an answer
_NAME = "[A-Za-z0-9-]{3,50}"
# What a URL near those of topics names: a namespace, or two names with a full stop, and a topic.
_NEAR = re.compile(
    rf"[^/]*//[^/]*/(?:namespaces/({_NAME})/)?topics/(?:({_NAME})\.)?({_NAME})(:publish)?(?:[/:].*)?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataPlane:
    """The requirements of one kind of topic for publish requests."""

    api_versions: tuple[str, ...]  # in ascending order
    methods: tuple[str, ...]
    schemes: tuple[str, ...]  # of the header ``Authorization``
    carriers: tuple[str, ...]  # headers and query parameters that can replace it
    key_owner: str  # the kind of resource that has the keys
    max_request_size: int  # bytes
    max_events: int
    accepted: bytes  # the body of a 200


# Contract §1.1, §1.5 and §1.7; the size is that of the official SDK's tests, documented is 1 MB.
CUSTOM = DataPlane(
    api_versions=("2018-01-01",),
    methods=("OPTIONS", "POST"),
    schemes=("SharedAccessSignature", "Bearer"),
    carriers=("aeg-sas-token", "aeg-sas-key"),
    key_owner="topic",
    max_request_size=1_536_000,
    max_events=MAX_REQUEST_EVENTS,
    accepted=b"",
)
# Contract §1.8; "1 MB" is read as a mebibyte. An event can be as large as its request.
NAMESPACE = DataPlane(
    api_versions=("2023-06-01-preview", "2023-11-01", "2024-06-01"),
    methods=("POST",),
    schemes=("SharedAccessKey", "Bearer"),
    carriers=(),
    key_owner="namespace",
    max_request_size=1_048_576,
    max_events=1000,
    accepted=b"{}",
)


def data_plane(request: HttpRequest) -> DataPlane:
    """Return the data plane that the route of *request* belongs to."""
    return NAMESPACE if "namespace" in request.params else CUSTOM


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
