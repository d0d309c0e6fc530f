"""The sender on an event loop of the test's choice, for tests that wait on their own thread."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import timedelta
from functools import cache
from threading import Thread
from time import monotonic
from typing import Any, Self, TypeVar

import uvloop

from shared.adapters.http import http_pusher
from shared.adapters.http.connection import HttpConnection
from shared.adapters.http.request_writer import Server
from shared.adapters.http.tls import client_tls
from shared.adapters.threads import Bridge
from shared.clock import Deadline
from shared.http import (
    Answered,
    Exchange,
    Failure,
    LateAnswerHandler,
    NotAnswered,
    OutboundRequest,
)

T = TypeVar("T")

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}
PATIENCE = 30.0  # seconds after which a wait ends for what does not come
PATIENT = timedelta(seconds=PATIENCE)
_bridges = [Bridge()]  # the last one is in use
_loops: list[asyncio.AbstractEventLoop] = []  # likewise


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run *coroutine* on the loop in use."""
    return _bridges[-1].run(coroutine)


def begin(coroutine: Coroutine[Any, Any, T]) -> Future[T]:
    """Begin to run *coroutine* on the loop in use."""
    return asyncio.run_coroutine_threadsafe(coroutine, _loops[-1])


@contextmanager
def running_loop(kind: str) -> Iterator[None]:
    """Use a loop of this kind until the block ends, on a thread of its own."""
    loop = LOOPS[kind]()
    bridge = Bridge()
    thread = Thread(target=loop.run_forever)
    thread.start()
    # First: a bridge that runs something before it is attached makes a loop of its own.
    asyncio.run_coroutine_threadsafe(_attach(bridge), loop).result()
    _bridges.append(bridge)
    _loops.append(loop)
    try:
        yield
    finally:
        _bridges.remove(bridge)
        _loops.remove(loop)
        bridge.run(_cancel_all())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _attach(bridge: Bridge) -> None:
    bridge.attach()


async def _cancel_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for each in tasks:
        each.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@cache
def system_tls() -> ssl.SSLContext:
    """Trust what the system trusts: to read that once for each test takes longer than the tests."""
    return client_tls()


class HttpPusher:
    """An ``HttpPusher`` whose coroutines run on the loop in use, for callers on threads."""

    def __init__(self, *given: Any, **named: Any) -> None:
        self.real = http_pusher.HttpPusher(*given, **{"tls": system_tls()} | named)

    @classmethod
    def over(cls, real: http_pusher.HttpPusher) -> Self:
        """Return the face of *real*."""
        made = cls.__new__(cls)
        made.real = real
        return made

    def send(
        self, request: OutboundRequest, timeout: timedelta, late: LateAnswerHandler | None = None
    ) -> Exchange:
        return run(self.real.send(request, timeout, late))

    def push(
        self,
        url: str,
        timeout: timedelta = PATIENT,
        *,
        method: str = "POST",
        headers: dict[str, str] | None = None,
        body: bytes = b"[]",
    ) -> Exchange:
        return self.send(OutboundRequest(method, url, headers or {}, body), timeout)

    def answer(self, url: str, timeout: timedelta = PATIENT, **options: Any) -> Answered:
        """Push a request, which must be answered."""
        return answer_of(self.push(url, timeout, **options))

    def unanswered(self, url: str, timeout: timedelta = PATIENT, **options: Any) -> NotAnswered:
        """Push a request, which must not be answered."""
        return unanswered(self.push(url, timeout, **options))

    def close(self) -> None:
        run(self.real.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def answer_of(exchange: Exchange) -> Answered:
    """Return *exchange*, which must have been answered."""
    assert isinstance(exchange, Answered), exchange
    return exchange


def unanswered(exchange: Exchange) -> NotAnswered:
    """Return *exchange*, which must not have been answered."""
    assert isinstance(exchange, NotAnswered), exchange
    return exchange


def failure_of(exchange: Exchange) -> Failure:
    """Return why *exchange* was not answered, as it must not have been."""
    return unanswered(exchange).failure


async def answer_over(connected: socket.socket, request: bytes) -> tuple[bool, int]:
    """Send *request*; return whether all of it was sent, and the status of the answer."""
    connected.setblocking(False)
    connection = HttpConnection(connected, Server("http", "peer.test", 80))
    connection.send(request)
    await connection.await_head(Deadline(timedelta(minutes=1), monotonic))
    connection.close()
    return connection.is_all_sent, connection.answer.status
