"""Defines HTTP requests and answers, inbound and outbound, as values."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

MAX_ANSWER = 64 * 1024  # bytes of an endpoint's answer that are read


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """An inbound request."""

    method: str
    url: str  # absolute, as the client sent it
    headers: Mapping[str, str]  # names in lower case
    params: Mapping[str, str] = field(default_factory=dict)  # of the route
    # Decoded, names in lower case; of a repeated name the last value.
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


def query_of(url: str) -> dict[str, str]:
    """Return the parameters of *url*, as `HttpRequest.query` has them."""
    pairs = parse_qsl(urlsplit(url).query, keep_blank_values=True)
    return {name.lower(): value for name, value in pairs}


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """The answer to an inbound request."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


Answering = Callable[[HttpRequest], Awaitable[HttpAnswer]]


class Audience(NamedTuple):
    """The audience of a token, in Entra ID."""

    tenant: str
    application: str  # id or URI


class QueueAddress(NamedTuple):
    """A queue of a storage account."""

    account: str
    queue: str
    keep_seconds: int  # for each message; -1: for ever


class OutboundRequest(NamedTuple):
    """
    An outbound request to an endpoint; the sender adds the headers Host, Content-Length and
    Connection.
    """

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes
    audience: Audience | None = None  # of the bearer token that the sender adds
    # The time limit covers the whole answer; else the body is read as it comes promptly.
    wants_body: bool = False
    # Over a new connection; the exchange tells who was at its other end.
    examines_peer: bool = False
    queue: QueueAddress | None = None  # where the body is put as a message


class Certificate(NamedTuple):
    """An endpoint's certificate; subject and issuer are in the form of RFC 4514."""

    subject: str
    issuer: str
    valid_until: datetime
    names: tuple[str, ...]  # host names and addresses that it is for
    matches: bool  # the endpoint's host is among them


class Peer(NamedTuple):
    """The other end of a connection."""

    address: str | None  # unknown behind a proxy
    certificate: Certificate | None  # ``None``: without TLS


class Answered(NamedTuple):
    """The endpoint answered within the time limit."""

    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes  # at most the first `MAX_ANSWER` bytes, and only what came promptly
    seconds: float  # from the start of the send to the end of the response headers
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
    SHORTAGE = "a local shortage"  # of descriptors, ports, memory or a proxy: no attempt


class NotAnswered(NamedTuple):
    """The endpoint gave no usable answer."""

    failure: Failure
    detail: str  # for the operator's log only
    seconds: float
    peer: Peer | None = None
    status: int = 0  # of an answer which ended, or stopped, within its head; 0: not even that


Exchange = Answered | NotAnswered


class LateAnswerHandler(NamedTuple):
    """The receiver of an answer after the time limit."""

    within: timedelta  # this time of the send's start
    # Called at most once, on the event loop; must not raise; no body is read.
    report: Callable[[Answered], None]
