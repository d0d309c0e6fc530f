"""A proxy in front of Azurite that counts requests by operation and fails them on demand."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from email.utils import format_datetime, parsedate_to_datetime
from enum import StrEnum
from functools import partial
from typing import NamedTuple
from urllib.parse import urlsplit

from devhost.azurite import Azurite
from testbed.storage_requests import kind_of

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_DEQUEUED = re.compile(rb"<DequeueCount>(\d+)</DequeueCount>")
_DATE = re.compile(rb"(\r\nDate: )(\w{3}, \d\d \w{3} \d{4} [0-9:]{8} GMT)")
_LONGEST = 64  # bytes of what that finds
_LINGER_NOT = struct.pack("ii", 1, 0)  # closing resets the connection


class Failure(StrEnum):
    """A way in which a request fails."""

    ERROR = "500"
    BUSY = "503"
    TIMEOUT = "timeout"
    RESET = "reset before"
    UNANSWERED = "done, unanswered"
    STALLED = "done, timeout"
    TRUNCATED = "answer truncated"


_REFUSALS = {
    Failure.ERROR: b"HTTP/1.1 500 Internal Server Error\r\nx-ms-error-code: InternalError\r\n"
    b"Content-Length: 0\r\n\r\n",
    Failure.BUSY: b"HTTP/1.1 503 Server Busy\r\nx-ms-error-code: ServerBusy\r\n"
    b"Content-Length: 0\r\n\r\n",
}
_PASSED_ON = (None, Failure.UNANSWERED, Failure.STALLED, Failure.TRUNCATED)
HANGING = (Failure.TIMEOUT, Failure.STALLED)  # until the client gives up


class StorageRequest(NamedTuple):
    """A request to storage."""

    service: str
    verb: str
    target: str
    kind: str  # the operation, such as ``queue put deliveries``
    body: bytes


class Attack(NamedTuple):
    """How a request fails."""

    failure: Failure | None  # None: it succeeds, but its answer waits for what is called
    when_done: Callable[[], object] = lambda: None  # called when Azurite has answered it


@dataclass(slots=True, kw_only=True)
class StorageProxy:
    """
    A running proxy.

    What it calls runs on its thread, which serves no other request meanwhile.
    """

    azurite: Azurite  # as reached through the proxy
    ports: dict[str, int] = field(default_factory=dict)  # where it really listens
    requests: Counter[str] = field(default_factory=Counter)  # by operation
    # Queue messages received again, or put without an answer that reached the client.
    doubled: int = 0
    # Returns how a request fails, if it does.
    attack: Callable[[StorageRequest], Attack | None] | None = None
    # Returns the target to request instead; a signed request does not survive that.
    rewrite: Callable[[StorageRequest], str] | None = None
    # How far ahead the time of answers is.
    ahead: timedelta = timedelta()

    def stand_before(self, azurite: Azurite) -> None:
        """Pass requests on to *azurite*, which may have been started again elsewhere."""
        self.ports = {
            service: urlsplit(url).port or 0
            for service, url in zip(("blob", "queue", "table"), _urls(azurite), strict=True)
        }

    def judge(self, request: StorageRequest) -> Attack | None:
        """Count a request; return how it fails, if it does."""
        self.requests[request.kind] += 1
        return self.attack(request) if self.attack else None

    def rewritten(self, service: str, head: bytes, body: bytes) -> tuple[StorageRequest, bytes]:
        """Return a request and its head, as they go on."""
        request = _read(service, head, body)
        if self.rewrite is None:
            return request, head
        before, after = (f" {each} ".encode() for each in (request.target, self.rewrite(request)))
        head = head.replace(before, after, 1)
        return _read(service, head, body), head


def _read(service: str, head: bytes, body: bytes) -> StorageRequest:
    verb, target, _ = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ", 2)
    return StorageRequest(service, verb, target, kind_of(service, verb, target), body)


def _urls(azurite: Azurite) -> tuple[str, str, str]:
    return azurite.blob_url, azurite.queue_url, azurite.table_url


@contextlib.contextmanager
def running_storage_proxy(azurite: Azurite) -> Iterator[StorageProxy]:
    """Run a proxy for each of Azurite's services until the block ends."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    proxy = StorageProxy(azurite=azurite)
    proxy.stand_before(azurite)
    servers: list[asyncio.Server] = []
    connection_string, urls = azurite.connection_string, []
    try:
        for (service, behind), url in zip(proxy.ports.items(), _urls(azurite), strict=True):
            server = asyncio.run_coroutine_threadsafe(_listen(proxy, service), loop).result()
            servers.append(server)
            port = server.sockets[0].getsockname()[1]
            connection_string = connection_string.replace(f":{behind}/", f":{port}/")
            urls.append(url.replace(f":{behind}/", f":{port}/"))
        blob, queue, table = urls
        proxy.azurite = replace(
            azurite,
            connection_string=connection_string,
            blob_url=blob,
            queue_url=queue,
            table_url=table,
        )
        yield proxy
    finally:
        asyncio.run_coroutine_threadsafe(_end(servers), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _listen(proxy: StorageProxy, service: str) -> asyncio.Server:
    under_way: set[asyncio.Task[None]] = set()  # since Python 3.13 asyncio keeps none of them

    def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving = asyncio.create_task(_serve(proxy, service, reader, _Client(writer)))
        under_way.add(serving)
        serving.add_done_callback(under_way.discard)
        # Closed here, as a task that is cancelled before it begins closes nothing.
        serving.add_done_callback(lambda _: writer.close())

    return await asyncio.start_server(serve, "127.0.0.1", 0, limit=2**20)


@dataclass(slots=True)
class _Client:
    """A client's connection, and the request under way."""

    writer: asyncio.StreamWriter
    request: StorageRequest | None = None
    attack: Attack | None = None
    tail: bytes = b""  # the end of what was answered

    @property
    def has_open_put(self) -> bool:
        """Whether a queue message is being put whose answer has not reached the client."""
        return self.request is not None and self.request.kind.startswith("queue put ")

    def received_again(self, data: bytes) -> int:
        """Return how many messages of an answer, of which *data* is the next part, are not new."""
        if self.request is None or not self.request.kind.startswith("queue get "):
            self.tail = b""
            return 0
        text, end, again = self.tail + data, 0, 0
        for found in _DEQUEUED.finditer(text):
            again, end = again + (found[1] != b"1"), found.end()
        self.tail = text[max(end, len(text) - _LONGEST) :]
        return again

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    def reset(self) -> None:
        client: socket.socket = self.writer.get_extra_info("socket")
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
        self.writer.transport.abort()


async def _serve(
    proxy: StorageProxy, service: str, reader: asyncio.StreamReader, client: _Client
) -> None:
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
        inner_reader, inner = await asyncio.open_connection("127.0.0.1", proxy.ports[service])
        answers = asyncio.create_task(_pass_on(proxy, inner_reader, client))
        try:
            await _requests(proxy, service, reader, inner, client)
        finally:
            proxy.doubled += client.has_open_put
            answers.cancel()
            inner.close()


async def _requests(
    proxy: StorageProxy,
    service: str,
    reader: asyncio.StreamReader,
    inner: asyncio.StreamWriter,
    client: _Client,
) -> None:
    while True:
        head = await reader.readuntil(b"\r\n\r\n")
        found = _LENGTH.search(head)
        body = await reader.readexactly(int(found[1])) if found else b""
        request, head = proxy.rewritten(service, head, body)
        attack = proxy.judge(request)
        if attack is None or attack.failure in _PASSED_ON:
            client.request, client.attack = request, attack
            inner.write(head + body)
            await inner.drain()
        elif attack.failure is Failure.RESET:
            client.reset()
            return
        elif attack.failure is not Failure.TIMEOUT:
            await client.send(_REFUSALS[attack.failure])


async def _pass_on(proxy: StorageProxy, reader: asyncio.StreamReader, client: _Client) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(2**16):
            proxy.doubled += client.received_again(data)
            if proxy.ahead:
                data = _DATE.sub(partial(_moved, proxy.ahead), data)
            attack, client.attack = client.attack, None
            if attack:
                attack.when_done()
                if attack.failure is Failure.UNANSWERED:
                    client.reset()
                    return
                if attack.failure is Failure.STALLED:
                    await asyncio.get_running_loop().create_future()  # until the client leaves
            if attack and attack.failure:
                await client.send(data[: len(data) // 2])
                break
            await client.send(data)
            if client.has_open_put:
                client.request = None
    client.writer.close()  # Azurite closes idle connections: the client must see that, not wait.


def _moved(by: timedelta, found: re.Match[bytes]) -> bytes:
    """Return a header ``Date`` of the same length, moved *by* that much."""
    said = parsedate_to_datetime(found[2].decode()) + by
    return found[1] + format_datetime(said, usegmt=True).encode()


async def _end(servers: list[asyncio.Server]) -> None:
    # Accept no more, and let begin what has been accepted, before the servers are closed: asyncio
    # leaves a connection open that arrives at a closed server, or is cancelled before it begins.
    loop = asyncio.get_running_loop()
    for listener in [each for server in servers for each in server.sockets]:
        loop.remove_reader(listener)
    for _ in range(2):
        await asyncio.sleep(0)
    for server in servers:
        server.close()
    while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
