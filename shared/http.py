"""Defines HTTP requests and answers, inbound and outbound, as values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """
    An inbound request.

    *url* is absolute, as the client sent it. Header names are lower-case. *params* are the route's
    parameters; *query* is decoded and has the last value of a repeated name.
    """

    method: str
    url: str
    headers: Mapping[str, str]
    params: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """The answer to an inbound request."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


class Audience(NamedTuple):
    """The audience of a token: an *application*, by id or URI, in a *tenant* of Entra ID."""

    tenant: str
    application: str


class QueueAddress(NamedTuple):
    """A *queue* of a storage *account*, which keeps a message *keep_seconds*; -1: for ever."""

    account: str
    queue: str
    keep_seconds: int


class OutboundRequest(NamedTuple):
    """
    An outbound request to an endpoint.

    The sender adds the headers Host, Content-Length and Connection, and a bearer token for
    *audience*. With *queue* it puts the body there, as a message. With *wants_body* the time limit
    covers the whole answer, otherwise only its headers; the body is then read as far as it comes
    promptly. With *examines_peer* it goes over a new connection, and the exchange tells who was at
    its other end.
    """

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes
    audience: Audience | None = None
    wants_body: bool = False
    examines_peer: bool = False
    queue: QueueAddress | None = None


class Certificate(NamedTuple):
    """
    An endpoint's certificate.

    *subject* and *issuer* are in the form of RFC 4514, *names* are the host names and addresses
    that it is for. *matches*: the endpoint's host is among them.
    """

    subject: str
    issuer: str
    valid_until: datetime
    names: tuple[str, ...]
    matches: bool


class Peer(NamedTuple):
    """
    The other end of a connection.

    *address* is unknown behind a proxy; without TLS there is no *certificate*.
    """

    address: str | None
    certificate: Certificate | None


class Answered(NamedTuple):
    """
    The endpoint answered within the time limit.

    *headers* have lower-case names. *body* has at most the first 64 KiB, and only what came
    promptly. *seconds* is the time from the start of the send to the end of the response headers.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    seconds: float
    peer: Peer | None = None


class Failure(StrEnum):
    """The reason why there is no answer."""

    TIMED_OUT = "timed out"  # no complete response headers in time, or no connection
    RESOLUTION = "name not resolved"
    SOCKET = "connection failed"  # refused, reset, closed early
    TLS = "TLS failed"
    NOT_ALLOWED = "address not allowed"  # refused by the outbound guard; nothing was sent
    UNSENDABLE = "request can't be sent"  # a URL or header that HTTP can't carry; nothing was sent
    MALFORMED = "answer is not HTTP"
    UNAUTHORIZED = "no token for the endpoint"  # Entra ID refused it; nothing was sent
    NO_AUTHORITY = "Entra ID did not answer"  # so there is no token; nothing was sent
    FAULT = "fault of the sender"  # an error of ours; nothing is known of what was sent
    SHORTAGE = "a shortage of ours"  # of descriptors, ports, memory or a proxy: no attempt


class NotAnswered(NamedTuple):
    """
    The endpoint gave no usable answer. *detail* is for the operator's log only.

    *status* is that of an answer which ended, or stopped, within its head; 0: not even that.
    """

    failure: Failure
    detail: str
    seconds: float
    peer: Peer | None = None
    status: int = 0


Exchange = Answered | NotAnswered


class LateAnswerHandler(NamedTuple):
    """
    The receiver of an answer after the time limit, but *within* that time of the send's start.

    *report* is called at most once, on the event loop, and must not raise. No body is read.
    """

    within: timedelta
    report: Callable[[Answered], None]
