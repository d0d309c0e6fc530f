"""A proxy in front of Azurite that counts requests by operation and can fail them on demand."""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from devhost.azurite import Azurite
from testbed.storage_requests import kind_of

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_UNAVAILABLE = (
    b"HTTP/1.1 503 Server Busy\r\nx-ms-error-code: ServerBusy\r\nContent-Length: 0\r\n\r\n"
)

Fault = Callable[[str, str, str], bool]  # service, verb, path → whether it gets 503


@dataclass(slots=True, kw_only=True)
class StorageProxy:
    """
    A running proxy.

    *azurite* is Azurite as reached through the proxy. *requests* counts requests by operation,
    such as ``queue put deliveries``. A request for which *fault* returns true is answered 503, and
    so is one whose body has more than *most_bytes*.
    """

    azurite: Azurite
    requests: Counter[str] = field(default_factory=Counter)
    fault: Fault | None = None
    most_bytes: int | None = None

    def count(self, service: str, head: bytes, body: bytes) -> bool:
        """Count a request; return whether to fail it."""
        verb, path, _ = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ", 2)
        self.requests[kind_of(service, verb, path)] += 1
        is_too_long = self.most_bytes is not None and len(body) > self.most_bytes
        return is_too_long or bool(self.fault and self.fault(service, verb, path))


@contextlib.contextmanager
def running_storage_proxy(azurite: Azurite) -> Iterator[StorageProxy]:
    """Run a proxy for each of Azurite's services until the block ends."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    proxy = StorageProxy(azurite=azurite)
    servers: list[asyncio.Server] = []
    connection_string = azurite.connection_string
    urls = {"blob": azurite.blob_url, "queue": azurite.queue_url, "table": azurite.table_url}
    try:
        for service, url in urls.items():
            behind = urlsplit(url).port
            start = _listen(proxy, service, behind or 0)
            server = asyncio.run_coroutine_threadsafe(start, loop).result()
            servers.append(server)
            port = server.sockets[0].getsockname()[1]
            connection_string = connection_string.replace(f":{behind}/", f":{port}/")
            urls[service] = url.replace(f":{behind}/", f":{port}/")
        proxy.azurite = replace(
            azurite,
            connection_string=connection_string,
            blob_url=urls["blob"],
            queue_url=urls["queue"],
            table_url=urls["table"],
        )
        yield proxy
    finally:
        asyncio.run_coroutine_threadsafe(_end(servers), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _listen(proxy: StorageProxy, service: str, behind: int) -> asyncio.Server:
    def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving = asyncio.create_task(_serve(proxy, service, behind, reader, writer))
        # Closed here, as a task that is cancelled before it begins closes nothing.
        serving.add_done_callback(lambda _: writer.close())

    return await asyncio.start_server(serve, "127.0.0.1", 0, limit=2**20)


async def _serve(
    proxy: StorageProxy,
    service: str,
    behind: int,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", behind)
        answers = asyncio.create_task(_pass_on(inner_reader, writer))
        try:
            await _requests(proxy, service, reader, inner_writer, writer)
        finally:
            answers.cancel()
            inner_writer.close()


async def _requests(
    proxy: StorageProxy,
    service: str,
    reader: asyncio.StreamReader,
    inner: asyncio.StreamWriter,
    outer: asyncio.StreamWriter,
) -> None:
    while True:
        head = await reader.readuntil(b"\r\n\r\n")
        found = _LENGTH.search(head)
        body = await reader.readexactly(int(found[1])) if found else b""
        if proxy.count(service, head, body):
            outer.write(_UNAVAILABLE)
            await outer.drain()
        else:
            inner.write(head + body)
            await inner.drain()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(2**16):
            writer.write(data)
            await writer.drain()
    writer.close()  # Azurite closes idle connections: the client must see that, not wait.


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
