"""
Runs a minimal subscriber in its own process, which counts events and their delays.

It answers 200 at once. ``GET /answers?status=503&after=0.9`` changes that for what comes from then
on; with ``failing=20`` the first attempt of every twentieth event gets 500. With ``drop=1`` all
connections are closed. Given a certificate's file, it serves https.

Delays count from the time in the event's data to the first attempt; an event is distinct at each
path. ``GET /stats?reset`` returns the counts and resets them.
"""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import ClassVar
from urllib.parse import parse_qsl
from zlib import crc32

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_SENT = re.compile(rb'"sentAt": ?([0-9.]+)')
_CODE = re.compile(rb'"validationCode": ?"([^"]+)"')
_ID = re.compile(rb'"id": ?"([^"]+)"')
_AGAIN = re.compile(rb"\r\naeg-delivery-count: *[1-9]", re.IGNORECASE)
_PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999, "slowest": 1.0}
_Key = tuple[bytes, bytes]  # path and id


def _reply(status: int, body: bytes = b"") -> bytes:
    return b"HTTP/1.1 %d Said\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body)


def percentiles(values: list[float]) -> dict[str, float | None]:
    """Sort values in place, which is quick for those that were; return their percentiles."""
    values.sort()
    last = len(values) - 1
    return {
        name: values[min(int(len(values) * share), last)] if values else None
        for name, share in _PERCENTILES.items()
    }


class _Stats:
    def __init__(self) -> None:
        self.requests = self.count = self.most = 0
        self.delays: list[float] = []
        self.ids: set[_Key] = set()
        self.answered: set[_Key] = set()
        self.last = self.answered_at = 0.0

    def receive(self, head: bytes, keys: list[_Key], body: bytes) -> None:
        self.last = now = time.time()
        self.requests += 1
        self.count += len(keys)
        self.ids.update(keys)
        if not _AGAIN.search(head):
            self.delays += (now - float(sent) for sent in _SENT.findall(body))

    def answer(self, keys: Iterable[_Key]) -> None:
        self.answered_at = time.time()
        self.answered.update(keys)

    def take(self, under_way: int) -> bytes:
        names = ("requests", "count", "most", "last", "answered_at")
        told = {name: getattr(self, name) for name in names} | percentiles(self.delays)
        told |= {"distinct": len(self.ids), "answered": len(self.answered), "under_way": under_way}
        return json.dumps(told).encode()


class _Sink(asyncio.Protocol):
    """One connection; the class knows what all of them answer."""

    stats = _Stats()
    says: ClassVar[dict[str, float]] = {"status": 200, "after": 0.0, "failing": 0}
    connections: ClassVar[set[_Sink]] = set()
    under_way: ClassVar[set[_Sink]] = set()

    def __init__(self) -> None:
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]
        self.connections.add(self)

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - asyncio's own
        self.connections.discard(self)
        self.under_way.discard(self)

    def drop(self) -> None:
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while True:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            head = self._buffer[:end]
            found = _LENGTH.search(head)
            total = end + 4 + (int(found[1]) if found else 0)
            if len(self._buffer) < total:
                return
            body = self._buffer[end + 4 : total]
            self._buffer = self._buffer[total:]
            self._take(head, body)

    def _take(self, head: bytes, body: bytes) -> None:
        target = head.split(b" ", 2)[1]
        if head.startswith(b"GET "):
            self._transport.write(_reply(200, self._ask(*target.decode().split("?"))))
        elif b"SubscriptionValidation" in head and (found := _CODE.search(body)):
            self._transport.write(_reply(200, b'{"validationResponse":"%b"}' % found[1]))
        else:
            keys = [(target, each) for each in _ID.findall(body)]
            self.stats.receive(head, keys, body)
            status = self._status(head, keys)
            if after := self.says["after"]:
                self.under_way.add(self)
                self.stats.most = max(self.stats.most, len(self.under_way))
                loop = asyncio.get_running_loop()
                loop.call_later(after, self._answer, self.stats, status, keys)
            else:
                self._answer(self.stats, status, keys)

    def _status(self, head: bytes, keys: list[_Key]) -> int:
        failing = int(self.says["failing"])
        if failing and not _AGAIN.search(head) and crc32(keys[0][1]) % failing == 0:
            return 500
        return int(self.says["status"])

    def _answer(self, stats: _Stats, status: int, keys: list[_Key]) -> None:
        if self in self.connections and not self._transport.is_closing():
            self.under_way.discard(self)
            stats.answer(keys)
            self._transport.write(_reply(status))

    def _ask(self, path: str, query: str = "") -> bytes:
        if path == "/stats":
            told = self.stats.take(len(self.under_way))
            if query == "reset":
                _Sink.stats = _Stats()
            return told
        self.says.update({name: float(value) for name, value in parse_qsl(query)})
        if self.says.pop("drop", 0):
            for each in self.connections - {self}:
                each.drop()
        return b"{}"


async def _serve(certificate: str | None = None) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH) if certificate else None
    if context and certificate:
        context.load_cert_chain(certificate)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(_Sink, "127.0.0.1", 0, backlog=4096, ssl=context)
    print(server.sockets[0].getsockname()[1], flush=True)
    # The parent holds stdin open: the sink ends with it.
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    new_loop = asyncio.new_event_loop
    with suppress(ImportError):  # Windows has none
        from uvloop import new_event_loop as new_loop
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(_serve(*sys.argv[1:]))
