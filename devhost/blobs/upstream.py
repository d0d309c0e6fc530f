"""Sends requests to the blob service, and streams their bodies both ways."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import h11

_CONNECT_SECONDS = 5.0
_READ = 65536
_MOST_HEADERS = 65536  # bytes


class Exchange:
    """One request and its answer, on a connection of their own."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MOST_HEADERS)

    async def send(self, event: h11.Request | h11.Data | h11.EndOfMessage) -> None:
        """
        Send a part of the request; returns when there is room for the next.

        Raises:
            OSError: the connection has failed.
            h11.LocalProtocolError: the request is malformed.
        """
        self._writer.write(self._http.send(event) or b"")
        await self._writer.drain()

    async def answer(self) -> h11.Response:
        """
        Wait for the answer and return its head.

        Raises:
            OSError: the connection has failed.
            h11.RemoteProtocolError: what arrives is no answer.
        """
        while not isinstance(event := await self._next(), h11.Response):
            pass  # 100 Continue
        return event

    async def body(self) -> AsyncIterator[bytes]:
        """Yield the parts of the answer's body; raises what `answer` does."""
        while isinstance(event := await self._next(), h11.Data):
            yield bytes(event.data)

    async def _next(self) -> object:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(await self._reader.read(_READ))
        return event


@contextlib.asynccontextmanager
async def exchange(host: str, port: int) -> AsyncIterator[Exchange]:
    """
    Connect for one request.

    Raises:
        OSError: nobody listens there.
    """
    async with asyncio.timeout(_CONNECT_SECONDS):
        reader, writer = await asyncio.open_connection(host, port)
    try:
        yield Exchange(reader, writer)
    finally:
        writer.transport.abort()
