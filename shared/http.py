"""HTTP as values: what came in, what goes back, what is sent out and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import NamedTuple


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """
    A request to us.

    *url* is absolute, as the client sent it. Header names are lower-case. *params* are the parts
    that the route names; *query* the decoded query, the last value of a repeated name.
    """

    method: str
    url: str
    headers: Mapping[str, str]
    params: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """Our answer to a request."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


class Audience(NamedTuple):
    """For whom a token is: an *application*, by its id or URI, in a *tenant* of Entra ID."""

    tenant: str
    application: str


class OutboundRequest(NamedTuple):
    """
    A request of ours to somebody's endpoint.

    *headers* hold everything but Host, Content-Length and Connection, which the sender adds, and
    the bearer token for *audience*. With *wants_body* the time limit is that of the whole answer;
    else its headers are what counts, and little is waited for behind them.
    """

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes
    audience: Audience | None = None
    wants_body: bool = False


class Answered(NamedTuple):
    """
    The endpoint answered within the time limit.

    *headers* have lower-case names. *body* is at most its first 64 KiB, and only what came
    promptly. *seconds* is from the start of the send to the end of the response headers.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    seconds: float


class Failure(StrEnum):
    """Why there is no answer."""

    TIMED_OUT = "timed out"  # no complete response headers in time, or no connection
    RESOLUTION = "name not resolved"
    SOCKET = "connection failed"  # refused, reset, closed early
    TLS = "TLS failed"
    NOT_ALLOWED = "address not allowed"  # refused by the outbound guard; nothing was sent
    UNSENDABLE = "request can't be sent"  # a URL or header that HTTP can't carry; nothing was sent
    MALFORMED = "answer is not HTTP"
    UNAUTHORIZED = "no token for the endpoint"  # Entra ID gave none; nothing was sent


class NotAnswered(NamedTuple):
    """The endpoint gave no usable answer. *detail* is for the operator's log, never for tenants."""

    failure: Failure
    detail: str
    seconds: float


Exchange = Answered | NotAnswered


class Late(NamedTuple):
    """
    Who wants an answer that comes after the time limit, but within *until* of the send's start.

    *tell* is called at most once, in a thread of the sender's, and must not raise; no body is read.
    """

    until: timedelta
    tell: Callable[[Answered], None]
