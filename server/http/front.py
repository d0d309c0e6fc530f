"""Serves HTTP on a socket: uvicorn's parser and protocol, with a listener and an end of our own."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from functools import partial
from socket import socket
from typing import Any

import uvicorn
from uvicorn.server import ServerState

from server.http.connections import BoundedProtocol, ConnectionLimits

AsgiApp = Callable[..., Awaitable[None]]

_BACKLOG = 2048
_TICK_SECONDS = 1.0  # a header Date is at most so old
_HANDSHAKE_SECONDS = 10.0
_NO_SNIFFING = (b"x-content-type-options", b"nosniff")


class HttpFront:
    """
    Answers requests with an ASGI *app* until it is stopped.

    uvicorn's own `Server` has no deadline for a TLS handshake, takes the signals, and polls ten
    times a second.
    """

    def __init__(
        self, app: AsgiApp, limits: ConnectionLimits, tls: ssl.SSLContext | None = None
    ) -> None:
        self._limits = limits
        self._tls = tls
        self._state = ServerState()
        self._config = uvicorn.Config(
            app,
            interface="asgi3",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=limits.keep_alive_seconds,
        )
        self._config.load()
        self._server: asyncio.Server | None = None
        self._ticking: asyncio.Task[None] | None = None
        self._gone = asyncio.Event()  # a connection
        self._closing: dict[Any, float] = {}  # since when they are being closed

    async def start(self, taken: socket) -> None:
        """Listen on *taken*. Raises OSError: somebody else listens there."""
        loop = asyncio.get_running_loop()
        self._tick()
        protocol = partial(
            BoundedProtocol,
            self._config,
            self._state,
            {},
            loop,
            limits=self._limits,
            gone=self._gone.set,
        )
        self._server = await loop.create_server(
            protocol,
            sock=taken,
            backlog=_BACKLOG,
            ssl=self._tls,
            ssl_handshake_timeout=_HANDSHAKE_SECONDS if self._tls else None,
        )
        self._ticking = asyncio.create_task(self._keep_ticking())

    async def stop(self, seconds: float) -> None:
        """Accept no more connections; requests under way get *seconds*, then they are cut off."""
        if self._server:
            self._server.close()
        for each in list(self._state.connections):
            each.shutdown()
        try:
            async with asyncio.timeout(seconds):
                await self._finished()
        except TimeoutError:
            self._cut_off()
        if self._ticking:
            self._ticking.cancel()

    async def _finished(self) -> None:
        while self._state.connections:
            self._gone.clear()
            await self._gone.wait()
        if self._state.tasks:  # of clients that have gone
            await asyncio.wait(self._state.tasks)

    def _cut_off(self) -> None:
        for task in list(self._state.tasks):
            task.cancel()
        for each in list(self._state.connections):
            each.transport.abort()

    async def _keep_ticking(self) -> None:
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            self._tick()
            self._cut_off_unread()

    def _tick(self) -> None:
        now = formatdate(usegmt=True).encode()
        self._state.default_headers = [(b"date", now), _NO_SNIFFING]

    def _cut_off_unread(self) -> None:
        """Cut connections whose clients have not read what was written before they were closed."""
        now = asyncio.get_running_loop().time()
        closing = [each for each in self._state.connections if each.transport.is_closing()]
        self._closing = {each: self._closing.get(each, now) for each in closing}
        for each, since in self._closing.items():
            if now - since > self._limits.answer_seconds:
                each.transport.abort()
