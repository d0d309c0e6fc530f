"""Checks an endpoint's URL and a request, and writes the request as HTTP/1.1."""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import IPv6Address
from typing import NamedTuple

from shared import VERSION
from shared.adapters.http.no_answer import NoAnswer
from shared.http import Failure, OutboundRequest

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^#]*)(?:#.*)?")
_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:@%]+)(?::([0-9]{0,5}))?")
_NAME = re.compile(r"(?=.{1,253}\.?\Z)[A-Za-z0-9_-]{1,63}(?:\.[A-Za-z0-9_-]{1,63})*\.?")
_SENDABLE = re.compile(r"[\x21-\x7e]*")
TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # such as the name of a header
_ILLEGAL_VALUE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]|[^\x00-\xff]")
_FRAMING = frozenset({"host", "content-length", "connection", "transfer-encoding", "upgrade"})
_METHODS = frozenset({"POST", "OPTIONS", "GET"})  # pushes, handshakes, keys of tokens
_USER_AGENT = f"User-Agent: pushgrid/{VERSION}\r\n"
_PORTS = {"http": 80, "https": 443}
_MAX_PORT = 65535


class Server(NamedTuple):
    """Where requests of some URLs go; connections to it are used for all of them."""

    scheme: str
    host: str  # in lower case
    port: int


class ParsedUrl(NamedTuple):
    """Where a URL points to."""

    server: Server
    authority: str  # its host and port for the Host header
    path: str  # and query, exactly as given


@lru_cache(maxsize=4096)
def parse_url(url: str) -> ParsedUrl:
    """
    Take an endpoint's URL apart. The fragment is left out, as always in HTTP.

    Raises:
        NoAnswer: it can't be sent to: another scheme, userinfo, no host, a bad port, a zone id,
            spaces, control characters or anything else that is not ASCII.
    """
    whole = _URL.fullmatch(url)
    if whole is None:
        raise _unsendable("not an absolute URL")
    scheme, authority, path = whole[1].lower(), whole[2], whole[3]
    if scheme not in _PORTS:
        raise _unsendable("neither http nor https")
    if not _SENDABLE.fullmatch(path):
        raise _unsendable("a space, control or non-ASCII character in the path")
    parts = _AUTHORITY.fullmatch(authority)
    if parts is None:
        raise _unsendable("no host, userinfo, a zone id or a bad port")
    port = int(parts[2]) if parts[2] else _PORTS[scheme]
    if not 1 <= port <= _MAX_PORT:
        raise _unsendable("port out of range")
    _check_host(parts[1])
    name = parts[1].lower()
    return ParsedUrl(
        server=Server(scheme, name.strip("[]"), port),
        authority=name if port == _PORTS[scheme] else f"{name}:{port}",
        path=path if path.startswith("/") else f"/{path}",
    )


def write_request(request: OutboundRequest, target: ParsedUrl) -> bytes:
    """
    Write head and body as one piece: sent at once they cost one system call and one packet.

    Exactly the request's headers are sent, plus Host, User-Agent unless it is among them, and, but
    for OPTIONS and GET without a body, Content-Length.

    Raises:
        NoAnswer: a header that HTTP can't carry, or that the sender writes itself; a method
            whose answers are not understood here.
    """
    if request.method not in _METHODS:
        raise _unsendable("none of POST, OPTIONS and GET")
    lines = [f"{request.method} {target.path} HTTP/1.1\r\nHost: {target.authority}\r\n"]
    headers = request.headers
    names = {check_name(name) for name in headers}
    if _ILLEGAL_VALUE.search("".join(headers.values())):
        name = next(name for name, value in headers.items() if _ILLEGAL_VALUE.search(value))
        raise _unsendable(f"illegal value of header {name}")
    lines += [f"{name}: {value}\r\n" for name, value in headers.items()]
    if "user-agent" not in names:
        lines.append(_USER_AGENT)
    if request.body or request.method == "POST":
        lines.append(f"Content-Length: {len(request.body)}\r\n")
    lines.append("\r\n")
    return "".join(lines).encode("latin-1") + request.body


@lru_cache(maxsize=1024)
def check_name(name: str) -> str:
    """
    Check a header's name, and return it in lower case. Few are ever used: they are remembered.

    Raises:
        NoAnswer: it is illegal, or one that frames the message and so is ours alone to write.
    """
    if not TOKEN.fullmatch(name):
        raise _unsendable("illegal header name")
    if name.lower() in _FRAMING:
        raise _unsendable(f"header {name} is written by the sender")
    return name.lower()


def _check_host(host: str) -> None:
    if not host.startswith("["):
        if not _NAME.fullmatch(host):
            raise _unsendable("illegal host name")
        return
    try:
        IPv6Address(host[1:-1])
    except ValueError as error:
        raise _unsendable("illegal IPv6 address") from error


def _unsendable(detail: str) -> NoAnswer:
    return NoAnswer(Failure.UNSENDABLE, detail)
