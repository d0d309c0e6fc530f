"""
Publishes events over keep-alive connections, in a process of its own that takes little CPU time.

Stdin has the load as JSON, stdout gets what was published as JSON.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import string
import sys
import time
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from urllib.parse import urlsplit

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_EVENT = (
    b'{"id":"%b","subject":"/orders/17","eventType":"Shop.OrderPlaced",'
    b'"eventTime":"2026-01-01T00:00:00Z","dataVersion":"1.0",'
    b'"data":{"sentAt":%.6f,"filler":"%b"}}'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishLoad:
    """What to publish."""

    # URLs of one host, each with its ``aeg-sas-key``; they take turns.
    targets: Sequence[tuple[str, str]]
    events: int
    batch: int  # events of a request
    publishers: int  # connections
    rate: float | None = None  # events per second in all; ``None``: as fast as possible
    seconds: float | None = None  # after these no request begins


@dataclass(slots=True, kw_only=True)
class Published:
    """What was published."""

    began: float  # Unix time
    seconds: float = 0.0  # to the last answer
    events: int = 0
    acks: list[float] = field(default_factory=list)


def event(filler: bytes) -> bytes:
    """Return an event of about 1 KB that holds its time of publishing, for the sink."""
    return _EVENT % (uuid.uuid4().hex.encode(), time.time(), filler)


def fillers() -> list[bytes]:
    """Return random texts of 800 characters, which compress as badly as real data."""
    letters = string.ascii_letters + string.digits + " "
    chance = random.Random(7)
    return ["".join(chance.choices(letters, k=800)).encode() for _ in range(200)]


class _Publisher:
    """Gives each connection its next request until all are answered."""

    def __init__(self, load: PublishLoad) -> None:
        self.load = load
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.published = Published(began=time.time())
        self._texts, self._heads = fillers(), [_head(*target) for target in load.targets]
        self._requests = load.events // load.batch
        self._begun = 0
        self._began = time.perf_counter()

    async def run(self) -> Published:
        """Connect, publish, and return once the last request is answered."""
        loop, parts = asyncio.get_running_loop(), urlsplit(self.load.targets[0][0])
        host, port = parts.hostname or "", parts.port or 80
        connections = [
            (await loop.create_connection(lambda: _Connection(self), host, port))[1]
            for _ in range(self.load.publishers)
        ]
        self.published.began, self._began = time.time(), time.perf_counter()
        for connection in connections:
            self.give_work(connection)
        await self.done
        self.published.seconds = time.perf_counter() - self._began
        return self.published

    def give_work(self, connection: _Connection) -> None:
        """Send the next request on *connection* when it is due, if there is one."""
        number, load, elapsed = self._begun, self.load, time.perf_counter() - self._began
        if number == self._requests or (load.seconds and elapsed >= load.seconds):
            self._requests = number
            if len(self.published.acks) == number and not self.done.done():
                self.done.set_result(None)
            return
        self._begun += 1
        if load.rate:
            due = number * load.batch / load.rate - elapsed
            asyncio.get_running_loop().call_later(due, connection.send, number)
        else:
            connection.send(number)

    def request(self, number: int) -> bytes:
        """Return request *number*."""
        texts, batch, heads = self._texts, self.load.batch, self._heads
        events = (event(texts[(number + i) % len(texts)]) for i in range(batch))
        body = b"[%b]" % b",".join(events)
        return b"%b%d\r\n\r\n%b" % (heads[number % len(heads)], len(body), body)

    def fail(self, reason: str) -> None:
        """End with an error."""
        if not self.done.done():
            self.done.set_exception(RuntimeError(reason))


def _head(url: str, key: str) -> bytes:
    parts = urlsplit(url)
    head = f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\naeg-sas-key: {key}"
    return f"{head}\r\nContent-Type: application/json\r\nContent-Length: ".encode()


class _Connection(asyncio.Protocol):
    """One keep-alive connection, with at most one request under way."""

    def __init__(self, publisher: _Publisher) -> None:
        self._publisher = publisher
        self._buffer = b""
        self._sent_at = 0.0
        self._is_idle = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._write = transport.write  # type: ignore[attr-defined]

    def send(self, number: int) -> None:
        request = self._publisher.request(number)
        self._is_idle, self._sent_at = False, time.perf_counter()
        self._write(request)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, ended, body = self._buffer.partition(b"\r\n\r\n")
        found = _LENGTH.search(head)
        if not ended or (found and len(body) < int(found[1])):
            return
        if not found or not head.startswith(b"HTTP/1.1 200 "):
            self._publisher.fail(f"a request was answered {self._buffer[:500]!r}")
            return
        self._is_idle, self._buffer = True, b""
        published = self._publisher.published
        published.acks.append(time.perf_counter() - self._sent_at)
        published.events += self._publisher.load.batch
        self._publisher.give_work(self)

    def connection_lost(self, error: Exception | None) -> None:
        if not self._is_idle:
            self._publisher.fail(f"a connection was closed: {error}")


async def _run(load: PublishLoad) -> Published:
    return await _Publisher(load).run()


if __name__ == "__main__":
    print(json.dumps(asdict(asyncio.run(_run(PublishLoad(**json.load(sys.stdin)))))))
