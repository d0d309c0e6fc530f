"""
Turns what a function returned into an HTTP response.

Source: azure-functions-host WebJobs.Script.Grpc GrpcMessageConversionExtensions.cs;
azure-functions-python-worker bindings (2024-10).
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from http.cookies import SimpleCookie
from typing import Any

from azure.functions.meta import Datum

_SET_BY_SERVER = frozenset(
    (b"content-length", b"transfer-encoding", b"connection", b"date", b"x-content-type-options")
)
_LOWEST, _HIGHEST = 200, 599
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\t -~]*")
# The attributes in the worker's protocol; others are lost.
_COOKIE_ATTRIBUTES = ("expires", "path", "domain", "max-age", "secure", "httponly", "samesite")
_COOKIE_TIME = "%a, %d %b %Y %H:%M:%S GMT"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostResponse:
    """A response, ready to be sent."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...] = ()
    body: bytes = b""

    async def send(self, send: Callable[[Mapping[str, Any]], Awaitable[None]]) -> None:
        """Send it to an ASGI server."""
        await self._start(send)
        await send({"type": "http.response.body", "body": self._sent_body()})

    async def send_and_close(
        self,
        send: Callable[[Mapping[str, Any]], Awaitable[None]],
        drain: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        """
        Send it, *drain* what the client is still sending, and have the connection closed.

        Closed before that, the connection would be reset, which can cost the client the answer.
        """
        await self._start(send, (b"connection", b"close"))
        await send({"type": "http.response.body", "body": self._sent_body(), "more_body": True})
        await drain()
        await send({"type": "http.response.body", "body": b""})

    async def _start(
        self,
        send: Callable[[Mapping[str, Any]], Awaitable[None]],
        *more: tuple[bytes, bytes],
    ) -> None:
        length = () if self._is_bodiless() else ((b"content-length", b"%d" % len(self.body)),)
        headers = [*self.headers, *length, *more]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})

    def _sent_body(self) -> bytes:
        return b"" if self._is_bodiless() else self.body

    def _is_bodiless(self) -> bool:
        return self.status in (204, 205, 304)


def from_text(status: int, text: str) -> HostResponse:
    """Return a response of plain text."""
    headers = ((b"content-type", b"text/plain; charset=utf-8"),)
    return HostResponse(status=status, headers=headers, body=text.encode())


def from_datum(datum: Datum | None) -> HostResponse:
    """
    Return the response for what a function gave to `$return`.

    Raises:
        ValueError: its status or a header cannot be sent; the real host answers 500.
    """
    if datum is None:
        return HostResponse(status=200)
    if datum.type == "string":
        return from_text(200, datum.value)
    answer = datum.value
    status = int(answer["status_code"].value)
    if not _LOWEST <= status <= _HIGHEST:
        raise ValueError(f"status {status} cannot be sent")
    headers = [
        _header(name, str(each.value))
        for name, each in answer["headers"].items()
        if each.value or name.lower() != "content-type"  # the real host sends no empty one
    ]
    return HostResponse(
        status=status,
        headers=(
            *(header for header in headers if header[0].lower() not in _SET_BY_SERVER),
            *_cookies(answer["cookies"] or ()),
        ),
        body=answer["body"].value,
    )


def _cookies(jars: Any) -> Iterator[tuple[bytes, bytes]]:
    jar: SimpleCookie
    for jar in jars:
        for morsel in jar.values():
            # The worker parses these two and fails if it cannot.
            if morsel["expires"]:
                datetime.strptime(morsel["expires"], _COOKIE_TIME).replace(tzinfo=UTC)
            float(morsel["max-age"] or 0)
            yield _header("Set-Cookie", morsel.OutputString(list(_COOKIE_ATTRIBUTES)))


@lru_cache(maxsize=256)  # most are in every answer
def _header(name: str, value: str) -> tuple[bytes, bytes]:
    text = value.strip(" \t")
    if not _HEADER_NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not a header name")
    if not _HEADER_VALUE.fullmatch(text):
        raise ValueError(f"header {name} has an invalid value: {text!r}")
    return name.encode("ascii"), text.encode("ascii")
