"""Reads requests from an ASGI server: from whom they come, for which URL, and their bodies."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any
from urllib.parse import unquote_to_bytes

from shared.http import HttpRequest, query_of
from shared.settings.network_settings import Network

Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Address = IPv4Address | IPv6Address

_FOR, _PROTO, _HOST = "x-forwarded-for", "x-forwarded-proto", "x-forwarded-host"
_ENCODED_SLASH = re.compile(r"(%2[fF])")
_SLASHES = re.compile(r"/{2,}")
_AUTHORITY = re.compile(r"[A-Za-z0-9._~:\[\]-]{1,255}")
_PORT = re.compile(r"\[([^\]]*)\](?::\d+)?|([^:]*):\d+")


class BadRequest(Exception):
    """The request can't be for anybody; the text says why."""


class BodyTooLarge(Exception):
    """The body, or the length that was announced, is over the limit."""


class TooManyBodies(Exception):
    """There is no room for the body beside the others."""


class ClientGone(Exception):
    """The client has closed the connection, or sends no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestReader:
    """
    Reads requests, and believes the forwarded headers of *proxies*.

    *client_header* gets the address of the client, whatever a request says there.
    """

    proxies: Sequence[Network] = ()
    client_header: str

    def read(self, scope: Scope) -> HttpRequest:
        """
        Return the request of *scope* without its body, for the URL that its client has asked for.

        Raises:
            BadRequest: it has not exactly one header ``Host``.
        """
        headers = _headers(scope["headers"])
        peer = peer_of(scope)
        scheme, host, client = scope["scheme"], headers.get("host", ""), peer
        if sum(name == b"host" for name, _ in scope["headers"]) != 1 or not _is_authority(host):
            raise BadRequest("The request needs one header Host with a name or an address.")
        if self.is_proxy(peer):
            client = self._forwarded_client(headers, peer)
            scheme = _last(headers, _PROTO).lower() or scheme
            host = _last(headers, _HOST) or host
            if scheme not in {"http", "https"} or not _is_authority(host):
                raise BadRequest("X-Forwarded-Proto or X-Forwarded-Host is malformed.")
        headers.pop(self.client_header, None)
        if client:
            headers[self.client_header] = str(client)
        path = _one_slash(scope["raw_path"].decode("latin-1"))
        query = scope["query_string"].decode("latin-1")
        url = f"{scheme}://{host}{path}" + (f"?{query}" if query else "")
        return HttpRequest(method=scope["method"], url=url, headers=headers, query=query_of(url))

    def is_proxy(self, peer: Address | None) -> bool:
        """Tell whether the forwarded headers of *peer* count."""
        return peer is not None and any(peer in network for network in self.proxies)

    def _forwarded_client(self, headers: Mapping[str, str], peer: Address | None) -> Address | None:
        """Return the nearest hop that is no proxy; its sender has written what stands before it."""
        client = peer
        for hop in reversed(headers.get(_FOR, "").split(",")):
            if not hop.strip():
                continue
            client = _address(hop.strip())
            if not self.is_proxy(client):
                break
        return client


def peer_of(scope: Scope) -> Address | None:
    """Return the address at the other end of the connection."""
    client = scope.get("client")
    return _address(client[0]) if client else None


@dataclass(slots=True, kw_only=True, eq=False)
class BodyBudget:
    """
    Bounds the bytes of all bodies until they are answered: most come from nobody knows whom.

    A body of up to *small* bytes always has room. Where the larger ones together have more than
    *most*, those that have been coming longest are given up: so unfinished ones keep out nobody.
    """

    most: int = 128 * 1024 * 1024
    small: int = 64 * 1024
    _coming: dict[asyncio.Timeout, int] = field(default_factory=dict)  # sizes, the oldest first
    _complete: int = 0  # bytes of those that have come and are being answered

    def take(self, reading: asyncio.Timeout, size: int) -> None:
        """Note how much has come; what is given up times out."""
        if size > self.small and reading.when() is None:  # else it is given up already
            self._coming[reading] = size
        self._make_room()

    def free(self, reading: asyncio.Timeout) -> None:
        """Note that nothing more comes of it."""
        self._coming.pop(reading, None)

    @contextmanager
    def answering(self, size: int) -> Iterator[None]:
        """
        Count a body that has come, until it is answered.

        Raises:
            TooManyBodies: those that are being answered leave no room for it.
        """
        counted = size if size > self.small else 0
        if counted and self._complete + counted > self.most:
            raise TooManyBodies
        self._complete += counted
        try:
            self._make_room()
            yield
        finally:
            self._complete -= counted

    def _make_room(self) -> None:
        while self._coming and sum(self._coming.values()) + self._complete > self.most:
            oldest = next(iter(self._coming))
            del self._coming[oldest]
            oldest.reschedule(asyncio.get_running_loop().time())


async def read_body(scope: Scope, receive: Receive, limit: int, budget: BodyBudget) -> bytes:
    """
    Return the body, of at most *limit* bytes; a chunked one is counted while it arrives.

    Raises:
        BodyTooLarge: it is larger.
        TooManyBodies: *budget* has no room for it any more.
        ClientGone: it does not come to its end.
    """
    announced = dict(scope["headers"]).get(b"content-length", b"0")
    if int(announced) > limit:
        raise BodyTooLarge
    body, reading = bytearray(), asyncio.timeout(None)
    try:
        async with reading:
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientGone
                body += message.get("body", b"")
                if len(body) > limit:
                    raise BodyTooLarge
                if not message.get("more_body"):
                    return bytes(body)
                budget.take(reading, len(body))
    except TimeoutError:
        raise TooManyBodies from None
    finally:
        budget.free(reading)
        body.clear()  # What was raised keeps it alive while the rest is discarded.


@lru_cache(maxsize=256)
def decoded_path(raw: str) -> str:
    """
    Return the path of a request for routing: decoded but for ``%2F``, without a leading slash.
    """
    parts = _ENCODED_SLASH.split(_one_slash(raw))
    decoded = "".join(
        part if _ENCODED_SLASH.fullmatch(part) else unquote_to_bytes(part).decode(errors="replace")
        for part in parts
    )
    segments: list[str] = []
    for segment in decoded.removeprefix("/").split("/"):
        if segment == "..":
            del segments[-1:]
        elif segment != ".":
            segments.append(segment)
    return "/".join(segments)


def _one_slash(path: str) -> str:
    """Return *path* with doubled slashes, as clients join URLs carelessly, as one."""
    return _SLASHES.sub("/", path)


def _headers(raw: Sequence[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return headers by names in lower case; repeated ones are joined by a comma."""
    headers: dict[str, str] = {}
    for raw_name, raw_value in raw:
        name, value = raw_name.decode("latin-1").lower(), _text(raw_value)
        headers[name] = f"{headers[name]},{value}" if name in headers else value
    return headers


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _last(headers: Mapping[str, str], name: str) -> str:
    """Return the last entry of a list, which the proxy itself has written."""
    return headers.get(name, "").rpartition(",")[2].strip()


def _is_authority(host: str) -> bool:
    return _AUTHORITY.fullmatch(host) is not None


def _address(text: str) -> Address | None:
    found = _PORT.fullmatch(text)
    try:
        address = ip_address((found[1] or found[2]) if found else text)
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        return address.ipv4_mapped
    return address
