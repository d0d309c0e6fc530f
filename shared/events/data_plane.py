"""Defines how publishing to custom topics and to namespace topics differs, as values."""

from __future__ import annotations

from dataclasses import dataclass

from shared.http import HttpRequest

MAX_REQUEST_EVENTS = 5000  # Event Grid "Quotas and limits" (2023-11-15)


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
