"""How publishers talk to each kind of topic: what differs between the kinds, as values."""

from __future__ import annotations

from dataclasses import dataclass

from shared.errors import Fault, InvalidEvents
from shared.events.topic import TopicName
from shared.http import HttpRequest

MAX_EVENTS = 5000  # of a request; Event Grid "Quotas and limits" (2023-11-15)
_PUBLISH = "publish"
_PULL = frozenset({"receive", "acknowledge", "release", "reject", "renewLock"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DataPlane:
    """
    What the topics of one kind ask of a publish request, and what they answer.

    *api_versions* are those that are served, the newest last. *schemes* are those of the header
    ``Authorization``; *carriers* are names of headers, and of parts of the query, that may stand
    in for it, *key_owner* what has the keys. *max_request_size* is in bytes. *accepted* is the
    body of a 200.
    """

    api_versions: tuple[str, ...]
    methods: tuple[str, ...]
    schemes: tuple[str, ...]
    carriers: tuple[str, ...]
    key_owner: str
    max_request_size: int
    max_events: int
    accepted: bytes


# Contract §1.1, §1.5 and §1.7; the official SDK's tests assert the size, documented is 1 MB.
CUSTOM = DataPlane(
    api_versions=("2018-01-01",),
    methods=("OPTIONS", "POST"),
    schemes=("SharedAccessSignature", "Bearer"),
    carriers=("aeg-sas-token", "aeg-sas-key"),
    key_owner="topic",
    max_request_size=1_536_000,
    max_events=MAX_EVENTS,
    accepted=b"",
)
# Contract §1.8; "1 MB" is taken for a mebibyte, and no event is larger than its request.
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
    """Return the kind of topic that the request's route is for."""
    return NAMESPACE if "namespace" in request.params else CUSTOM


def topic_name(request: HttpRequest) -> str | None:
    """
    Return the name of the topic that the request is for; ``None`` if there can't be one.

    Raises:
        InvalidEvents: it asks for what only pull delivery has.
    """
    if data_plane(request) is CUSTOM:
        name = request.params["topic"]
        return None if TopicName.parse(name) else name  # those of namespaces have their own route
    topic, _, action = request.params["action"].rpartition(":")
    if action in _PULL:
        message = f"Pull delivery is not supported: '{action}' is not available, events are pushed."
        raise InvalidEvents(message, faults=(Fault(code="UnsupportedOperation", message=message),))
    return TopicName(request.params["namespace"], topic).joined if action == _PUBLISH else None
