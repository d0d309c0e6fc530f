"""Runs uvicorn on a reserved port, without its own logging and signal handling."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import socket
from collections.abc import Callable, Coroutine, Iterator
from ipaddress import ip_address
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from devhost.errors import HostError

LOOPBACK = "127.0.0.1"
_KEEP_ALIVE_SECONDS = 75
_BACKLOG = 2048
_TICK_SECONDS = 1.0
_IN_USE = "port {} is in use: choose another with --port"


@contextlib.contextmanager
def reserved_port(
    port: int, address: str = LOOPBACK, *, is_shared: bool = False
) -> Iterator[socket.socket]:
    """
    Bind *port* (0: a free one) of an IPv4 *address* without listening on it yet.

    If it *is_shared*, other processes of this user that say so bind it, too, and each gets a part
    of the connections.

    Raises:
        HostError: the port is in use or not permitted, or the address is not this machine's.
    """
    # asyncio disables Nagle's algorithm only if the protocol is named; it costs 40 ms a response.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if is_shared:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            taken.bind((address, port))
        except OSError as fault:
            if fault.errno == errno.EADDRINUSE:
                raise HostError(_IN_USE.format(port)) from fault
            raise HostError(f"{address}:{port} cannot be used: {fault.strerror}") from fault
        yield taken


@contextlib.contextmanager
def sole_host(port: int, address: str) -> Iterator[None]:
    """
    Keep other hosts of this user from *port* (0: from none).

    Two that start at the same moment could both bind it: the system refuses only what is listened
    on, and workers share theirs.

    Raises:
        HostError: the port is in use.
    """
    if not port:
        yield
        return
    path = Path(gettempdir(), f"devhost-{os.getuid()}-{address}-{port}.lock")
    try:
        lock = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW, 0o600)
    except OSError as fault:
        raise HostError(f"{path}: {fault.strerror}") from fault
    with os.fdopen(lock):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise HostError(_IN_USE.format(port)) from None
        yield


def reachable(bound: tuple[str, int]) -> str:
    """Return the address and port at which this machine reaches those that are *bound*."""
    address, port = bound
    return f"{LOOPBACK if ip_address(address).is_unspecified else address}:{port}"


class _Protocol(HttpToolsProtocol):
    """Drops the trailers of a chunked body, which uvicorn takes for headers if they come early."""

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self.headers = _Dropped()


class _Dropped(list[tuple[bytes, bytes]]):
    """Keeps nothing, however much is sent."""

    def append(self, _: tuple[bytes, bytes]) -> None:
        """Forget it."""


class HttpServer(uvicorn.Server):
    """Serves an ASGI application on a reserved port; *is_up* when it accepts connections."""

    def __init__(
        self,
        app: Callable[..., Coroutine[Any, Any, None]],
        taken: socket.socket,
        *,
        drain_seconds: int,
        certificate: Path | None = None,
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                loop="asyncio",
                http=_Protocol,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                headers=[("X-Content-Type-Options", "nosniff")],  # its own answers have it, too
                proxy_headers=False,
                backlog=_BACKLOG,
                timeout_keep_alive=_KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=drain_seconds,
                ssl_certfile=certificate,
            )
        )
        self._taken = taken
        self.scheme = "https" if certificate else "http"
        self.is_up = asyncio.Event()
        # Set together with `should_exit`, which `main_loop` would have to poll.
        self._wake = asyncio.Event()

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until stopped, then finish the requests in progress."""
        await super().serve(sockets or [self._taken])

    def stop(self) -> None:
        """Accept no more requests; those in progress are finished."""
        self.should_exit = True
        self._wake.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to the host."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen."""
        await super().startup(sockets)
        self.is_up.set()

    async def main_loop(self) -> None:
        """Wait until stopped."""
        # A tick renews the Date header. uvicorn's own ten a second are half of an idle host's cost.
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TICK_SECONDS):
                    await self._wake.wait()
