"""
Reads an HTTP request as the real host does, quirks included.

Source: azure-functions-host WebJobs.Script.Grpc GrpcMessageConversionExtensions.cs (2024-10).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl, unquote_to_bytes

from azure.functions.meta import Datum

# Kestrel reads a refused body for this long.
_DRAIN_SECONDS = 5
_ENCODED_SLASH = re.compile(r"(%2[fF])")
_SLASHES = re.compile(r"/{2,}")


class BodyTooLargeError(Exception):
    """The body, or the length that was announced, is over the limit."""


class UnknownCodingError(Exception):
    """The body has another transfer coding than ``chunked``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRequest:
    """An HTTP request without its body."""

    method: str
    #: Decoded, except `%2F`; no leading slash.
    path: str
    url: str
    #: Lower-cased names; repeated headers are joined by a comma.
    headers: Mapping[str, str]
    #: Without empty values; repeated parameters are joined by a comma.
    query: Mapping[str, str]

    def datum(self, route_params: Mapping[str, str], body: bytes) -> Datum:
        """Return the request in the form in which the worker receives it."""
        return Datum(
            {
                "method": _text(self.method),
                "url": _text(self.url),
                "headers": {name: _text(value) for name, value in self.headers.items()},
                "query": {name: _text(value) for name, value in self.query.items()},
                "params": {name: _text(value) for name, value in route_params.items()},
                "body": Datum(body, "bytes"),
            },
            "http",
        )


def refusal_of_host(scope: Mapping[str, Any]) -> int | None:
    """
    Return the status for an ASGI *scope*'s request that has not exactly one Host header.

    HTTP/1.0 requires none, but the real host fails without (measured, 4.1037.0).
    Source: aspnetcore Kestrel Http1Connection.cs, EnsureHostHeaderExists (2024-10).
    """
    hosts = sum(name == b"host" for name, _ in scope["headers"])
    if hosts == 1:
        return None
    return 500 if scope["http_version"] == "1.0" and not hosts else 400


def read_request(scope: Mapping[str, Any]) -> HostRequest:
    """Read all of an ASGI *scope*'s request but the body."""
    headers: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1").lower(), _header_text(raw_value)
        headers[name] = f"{headers[name]},{value}" if name in headers else value
    raw_path: bytes = scope["raw_path"]
    raw_query: bytes = scope["query_string"]
    query_string = raw_query.decode("latin-1")
    # Clients that join URLs carelessly double slashes: they count as one.
    path = _SLASHES.sub("/", raw_path.decode("latin-1"))
    return HostRequest(
        method=scope["method"],
        path=_decode_path(path),
        url=f"{scope['scheme']}://{headers['host']}{path}"
        + (f"?{query_string}" if query_string else ""),
        headers=headers,
        query=_query(query_string),
    )


async def read_body(
    headers: Mapping[str, str], receive: Callable[[], Awaitable[Mapping[str, Any]]], limit: int
) -> bytes:
    """
    Return the body, of at most *limit* bytes; a chunked one is counted while it arrives.

    Raises:
        BodyTooLargeError: it is larger.
        UnknownCodingError: it can't be read.
        ConnectionError: the client has gone, or a chunk is malformed.
    """
    length, coding = headers.get("content-length", ""), headers.get("transfer-encoding")
    if coding is None and not length.isdecimal():
        return b""
    if coding is not None and coding.strip().lower() != "chunked":
        raise UnknownCodingError
    if length.isdecimal() and int(length) > limit:
        raise BodyTooLargeError
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ConnectionError
        body += message.get("body", b"")
        if len(body) > limit:
            raise BodyTooLargeError
        if not message.get("more_body"):
            return bytes(body)


async def drain(receive: Callable[[], Awaitable[Mapping[str, Any]]]) -> None:
    """Discard what is still sent of a body, for five seconds at most."""
    try:
        async with asyncio.timeout(_DRAIN_SECONDS):
            while (await receive()).get("more_body"):
                pass
    except TimeoutError:
        return


def _text(value: str) -> Datum:
    return Datum(value, "string")


def _header_text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


@lru_cache(maxsize=256)
def _decode_path(raw: str) -> str:
    decoded = "".join(
        part if _ENCODED_SLASH.fullmatch(part) else unquote_to_bytes(part).decode(errors="replace")
        for part in _ENCODED_SLASH.split(raw)
    )
    segments: list[str] = []
    for segment in decoded.removeprefix("/").split("/"):
        if segment == "..":
            del segments[-1:]
        elif segment != ".":
            segments.append(segment)
    return "/".join(segments)


def _query(query_string: str) -> dict[str, str]:
    # ASP.NET's parameter names are case-insensitive, with the first spelling kept.
    spelling: dict[str, str] = {}
    values: dict[str, str] = {}
    for name, value in parse_qsl(query_string, keep_blank_values=False):
        first = spelling.setdefault(name.lower(), name)
        values[first] = f"{values[first]},{value}" if first in values else value
    return values
