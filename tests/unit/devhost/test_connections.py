"""Connections to a server that keeps them, closes them, or answers nonsense."""

import asyncio
import contextlib

import pytest

from devhost.queue.connections import Connections

_OK = b"HTTP/1.1 200 OK\r\nX-One: a\r\nContent-Length: 2\r\n\r\nok"
_CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n"


def ask_twice(*conversations: list[bytes]):
    """
    Send two requests to a server that has a script for each connection: its answers, then the end.

    Return both bodies or faults, and the number of requests on each connection.
    """
    asked: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = len(asked)
        asked.append(0)
        for answer in conversations[number]:
            with contextlib.suppress(asyncio.IncompleteReadError):
                await reader.readuntil(b"\r\n\r\n")
                asked[number] += 1
                writer.write(answer)
        writer.close()

    async def scene() -> list[object]:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            with contextlib.closing(Connections(f"http://127.0.0.1:{port}")) as connections:
                return [await ask(connections) for _ in range(2)]

    async def ask(connections: Connections) -> object:
        try:
            answer = await connections.request("GET", "/", {}, b"")
        except ConnectionError as fault:
            return type(fault)
        finally:
            await asyncio.sleep(0.01)  # an end that the server has sent arrives
        return answer.body

    return asyncio.run(scene()), asked


@pytest.mark.parametrize(
    ("conversations", "bodies", "asked"),
    [
        ([[_OK, _CHUNKED]], [b"ok", b"ok"], [2]),
        ([[_OK], [_OK]], [b"ok", b"ok"], [1, 1]),
        ([[_OK, b""], [_OK]], [b"ok", b"ok"], [2, 1]),
        ([[_OK.replace(b"X-One: a", b"Connection: close"), b""], [_OK]], [b"ok", b"ok"], [1, 1]),
        ([[_OK + b"more", b""], [_OK]], [b"ok", b"ok"], [1, 1]),
        ([[b""], [_OK]], [ConnectionResetError, b"ok"], [1, 1]),
        ([[_OK[:-1]], [_OK]], [ConnectionResetError, b"ok"], [1, 1]),
        ([[b"nonsense\r\n\r\n", b""], [_OK]], [ConnectionResetError, b"ok"], [1, 1]),
    ],
    ids=[
        "kept",
        "closed while idle",
        "closed while asked",
        "closed as it said",
        "more than was asked for",
        "no answer",
        "half an answer",
        "not HTTP",
    ],
)
def test_a_connection_serves_as_long_as_it_can(conversations, bodies, asked):
    assert ask_twice(*conversations) == (bodies, asked)
