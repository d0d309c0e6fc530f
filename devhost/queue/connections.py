"""Sends HTTP/1.1 requests to one server, on connections that are kept for the next request."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httptools

_CONNECT_SECONDS, _ANSWER_SECONDS = 5.0, 60.0
_PORTS = {"http": 80, "https": 443}


class StorageAnswer(NamedTuple):
    """An answer; the names of its headers are lower-case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Connections:
    """
    The connections to the server of *url*, all on one event loop.

    A library for the loop (aiohttp) takes three times the processor time for a request, one for
    threads (urllib3) fifteen times.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host, self._tls = parts.hostname or "", parts.scheme.lower() == "https"
        self._port = parts.port or _PORTS[parts.scheme.lower()]
        self._authority = parts.netloc
        self._context: ssl.SSLContext | None = None
        # The one used last comes last, and is taken first.
        self._idle: list[_Connection] = []

    @property
    def server(self) -> str:
        """Return the server's name and port, for messages."""
        return f"{self._host}:{self._port}"

    async def request(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes
    ) -> StorageAnswer:
        """
        Send a request and return its answer, with the whole body.

        Raises:
            OSError: no connection, or no whole answer in time.
        """
        lines = [f"{method} {target} HTTP/1.1\r\nHost: {self._authority}\r\n"]
        lines += (f"{name}: {value}\r\n" for name, value in headers.items())
        if body or method in ("PUT", "POST"):
            lines.append(f"Content-Length: {len(body)}\r\n")
        data = "".join((*lines, "\r\n")).encode("latin-1") + body
        while self._idle:
            kept = self._idle.pop()
            if kept.is_open:
                try:
                    return await self._exchange(kept, data)
                except ConnectionError:
                    break  # The server has closed it just now; a new one will do.
        return await self._exchange(await self._connect(), data)

    def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._idle.pop().abort()

    async def _connect(self) -> _Connection:
        if self._tls and self._context is None:
            self._context = ssl.create_default_context()
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(_CONNECT_SECONDS):
            _, connection = await loop.create_connection(
                _Connection, self._host, self._port, ssl=self._context
            )
        return connection

    async def _exchange(self, connection: _Connection, data: bytes) -> StorageAnswer:
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                answer = await connection.ask(data)
        except BaseException:
            connection.abort()
            raise
        if connection.is_open:
            self._idle.append(connection)
        return answer


class _Connection(asyncio.Protocol):
    """One connection, which carries one request at a time."""

    def __init__(self) -> None:
        self.is_open = True
        self._answer: asyncio.Future[StorageAnswer] | None = None

    def ask(self, data: bytes) -> asyncio.Future[StorageAnswer]:
        """Send a request; its answer, or a ConnectionError, is in the future."""
        self._answer = asyncio.get_running_loop().create_future()
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._parts: list[bytes] = []
        self._transport.write(data)
        return self._answer

    def abort(self) -> None:
        """Close it at once."""
        self.is_open = False
        self._transport.abort()

    def connection_made(self, transport: Any) -> None:
        """Keep the transport; the loop calls this and the next two."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Parse what has arrived; what nobody has asked for ends the connection."""
        try:
            if self._answer is None:
                raise httptools.HttpParserError("unasked")  # noqa: TRY301 - closed below
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the request that is under way."""
        self.is_open = False
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionResetError(str(exc or "closed")))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header; the parser calls this and the next two."""
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        """Add a part of the body."""
        self._parts.append(body)

    def on_message_complete(self) -> None:
        """Answer the request."""
        if not self._parser.should_keep_alive():
            self.abort()
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            status = self._parser.get_status_code()
            answer.set_result(StorageAnswer(status, self._headers, b"".join(self._parts)))
