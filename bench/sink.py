"""
Runs a minimal subscriber in its own process, which counts events and their delays.

It answers 200, at ``/busy`` 503, and at ``/slow`` 200 after 29 s. Delays count from the time in the
event's data; an event is distinct at each path. ``GET /stats?reset`` returns the counts and resets
them.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_SENT = re.compile(rb'"sentAt": ?([0-9.]+)')
_CODE = re.compile(rb'"validationCode": ?"([^"]+)"')
_ID = re.compile(rb'"id": ?"([^"]+)"')
_OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
_SLOW = b""  # answered later
_SLOW_SECONDS = 29
_BUSY = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"


class _Stats:
    def __init__(self) -> None:
        self.delays: list[float] = []
        self.ids: set[tuple[bytes, bytes]] = set()
        self.requests = 0
        self.last = 0.0

    def count(self, path: bytes, body: bytes) -> None:
        self.last = now = time.time()
        self.requests += 1
        self.delays.extend(now - float(sent) for sent in _SENT.findall(body))
        self.ids.update((path, each) for each in _ID.findall(body))

    def take(self) -> bytes:
        delays = self.delays
        delays.sort()  # in place: mostly sorted since the last time
        answer = {
            "requests": self.requests,
            "count": len(delays),
            "distinct": len(self.ids),
            "last": self.last,
            "p50": delays[len(delays) // 2] if delays else None,
            "p99": delays[len(delays) * 99 // 100] if delays else None,
        }
        return json.dumps(answer).encode()


class _Sink(asyncio.Protocol):
    stats = _Stats()

    def __init__(self) -> None:
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

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
            write, answer = self._transport.write, self._answer(head, body)  # type: ignore[attr-defined]
            if answer is _SLOW:
                asyncio.get_running_loop().call_later(_SLOW_SECONDS, write, _OK)
            else:
                write(answer)

    def _answer(self, head: bytes, body: bytes) -> bytes:
        if head.startswith(b"GET /stats"):
            stats = _Sink.stats.take()
            if b"?reset" in head.split(b"\r\n", 1)[0]:
                _Sink.stats = _Stats()
            return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(stats), stats)
        if b"SubscriptionValidation" in head and (found := _CODE.search(body)):
            answer = b'{"validationResponse":"%b"}' % found[1]
            return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(answer), answer)
        _Sink.stats.count(head.split(b" ", 2)[1], body)
        if head.startswith(b"POST /slow"):
            return _SLOW
        return _BUSY if head.startswith(b"POST /busy") else _OK


async def _serve() -> None:
    server = await asyncio.get_running_loop().create_server(_Sink, "127.0.0.1", 0, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    # The parent holds stdin open: the sink ends with it.
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_serve())
