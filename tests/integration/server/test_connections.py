"""The HTTP front on real sockets: what a client may take, and what it is told then."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import islice
from typing import Any

import pytest

from server.http.asgi import AsgiApp
from server.http.connections import ConnectionLimits
from server.http.front import HttpFront
from server.http.reading import BodyBudget, RequestReader
from server.options import LOOPBACK, bind
from shared.http import HttpAnswer, HttpRequest
from testbed.subscriber import PATIENCE

SHORT = 0.05  # seconds: a deadline that a test waits for
LONG = PATIENCE
_LIMITS = ConnectionLimits(
    connections=100,
    head_seconds=LONG,
    body_seconds=LONG,
    answer_seconds=LONG,
    keep_alive_seconds=int(LONG),
)

Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connect = Callable[[], Awaitable[Client]]


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Any], Any]:
    import uvloop

    factory = asyncio.new_event_loop if request.param == "asyncio" else uvloop.new_event_loop

    def in_loop(coroutine: Any) -> Any:
        with asyncio.Runner(loop_factory=factory) as runner:
            return runner.run(coroutine)

    return in_loop


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Answer with the method and the body."""
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        body += message["body"]
        more = message["more_body"]
    said = scope["method"].encode() + b" " + body
    headers = [(b"content-length", b"%d" % len(said))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": said})


@asynccontextmanager
async def serving(app: Any = echo, **changed: Any) -> AsyncIterator[tuple[HttpFront, Connect]]:
    front = HttpFront(app, _LIMITS._replace(**changed))
    taken = bind(LOOPBACK, 0)
    address = taken.getsockname()
    await front.start(taken)
    writers: list[asyncio.StreamWriter] = []

    async def connect() -> Client:
        reader, writer = await asyncio.open_connection(*address)
        writers.append(writer)
        return reader, writer

    async with asyncio.timeout(PATIENCE):
        yield front, connect
        for each in writers:
            each.close()
        await front.stop(0)


async def to_the_end(reader: asyncio.StreamReader) -> bytes:
    """Return what comes until the connection is closed, or cut."""
    said = b""
    with contextlib.suppress(ConnectionResetError):
        while more := await reader.read(65536):
            said += more
    return said


def test_a_client_that_sends_nothing_is_let_go(run):
    async def test() -> bytes:
        async with serving(head_seconds=SHORT) as (_, connect):
            reader, _ = await connect()
            return await to_the_end(reader)

    assert run(test()) == b""


@pytest.mark.parametrize(
    ("sent", "changed"),
    [
        (b"POST / HTTP/1.1\r\nHost: a\r\nX-Half:", {"head_seconds": SHORT}),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab", {"body_seconds": SHORT}),
        (
            b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n",
            {"body_seconds": SHORT},
        ),
    ],
    ids=["head", "body", "chunks"],
)
def test_half_a_request_is_answered_408(run, sent, changed):
    async def test() -> bytes:
        async with serving(**changed) as (_, connect):
            reader, writer = await connect()
            writer.write(sent)
            return await to_the_end(reader)

    assert run(test()).startswith(b"HTTP/1.1 408 Request Timeout\r\n")


def test_a_deadline_ends_with_what_it_is_for(run):
    """A request that came in time is answered, however long that takes, and the next one, too."""
    may_answer = asyncio.Event()

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        await may_answer.wait()
        await echo(scope, receive, send)

    async def test() -> bytes:
        async with serving(slow, head_seconds=SHORT, body_seconds=SHORT) as (_, connect):
            reader, writer = await connect()
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            idle, _ = await connect()
            await to_the_end(idle)  # cut off after as long as the other is allowed
            may_answer.set()
            first = await reader.readuntil(b"GET ")
            writer.write(b"PUT / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            return first + await to_the_end(reader)

    assert run(test()).count(b"HTTP/1.1 200 OK") == 2


def test_a_head_that_is_too_large_is_refused(run):
    async def test() -> bytes:
        async with serving(head_bytes=1000) as (_, connect):
            reader, writer = await connect()
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 2000)
            return await to_the_end(reader)

    assert run(test()).startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize(("head", "body", "status"), [(2000, 0, 431), (10, 2000, 200)])
def test_a_whole_head_is_too_large_by_its_own_size(run, head, body, status):
    async def test() -> bytes:
        async with serving(head_bytes=1000) as (_, connect):
            reader, writer = await connect()
            lines = (b"POST / HTTP/1.1", b"Host: a", b"Connection: close", b"X: " + b"x" * head)
            length = b"Content-Length: %d" % body
            writer.write(b"\r\n".join((*lines, length, b"", b"y" * body)))
            return await to_the_end(reader)

    answer = run(test())
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert answer.count(b"HTTP/1.1") == 1


def test_of_too_many_connections_the_idle_one_is_closed_for_the_new_one(run):
    async def test() -> tuple[bytes, bytes]:
        async with serving(connections=1) as (_, connect):
            first, writer = await connect()
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            await first.readuntil(b"GET ")
            second, writer = await connect()
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            return await to_the_end(first), await to_the_end(second)

    first, second = run(test())
    assert first == b""
    assert second.startswith(b"HTTP/1.1 200 OK")


def test_a_new_connection_gets_503_if_none_is_idle(run):
    async def test() -> bytes:
        async with serving(connections=1) as (_, connect):
            _, writer = await connect()
            writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab")
            second, _ = await connect()
            return await to_the_end(second)

    assert run(test()).startswith(b"HTTP/1.1 503 ")


def test_a_client_that_reads_no_answer_is_cut_off(run):
    ended = asyncio.Event()

    async def large(_: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        try:
            for _ in range(1000):
                await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            ended.set()

    async def test() -> None:
        async with serving(large, answer_seconds=SHORT) as (_, connect):
            _, writer = await connect()
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            await ended.wait()

    run(test())


def test_trailers_are_no_headers(run):
    seen: list[Any] = []

    async def look(scope: Any, receive: Any, send: Any) -> None:
        await echo(scope, receive, send)
        seen.extend(name for name, _ in scope["headers"])

    async def test() -> bytes:
        async with serving(look) as (_, connect):
            reader, writer = await connect()
            head = b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
            chunks = b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\naeg-sas-key: k\r\n\r\n"
            writer.write(head + chunks)
            return await to_the_end(reader)

    assert run(test()).endswith(b"POST a")
    assert b"aeg-sas-key" not in seen


@pytest.mark.parametrize("is_at_once", [True, False])
@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (b"Content-Length: 5", b"hello"),
        (b"Transfer-Encoding: chunked", b"5\r\nhello\r\n0\r\nX: y\r\n\r\n"),
    ],
    ids=["length", "chunks"],
)
def test_an_offer_of_another_protocol_is_ignored(run, kind, body, is_at_once):
    """As of curl's ``--http2``, and of Java's client over http; the connection goes on."""
    seen: list[Any] = []
    begun = asyncio.Event()

    async def look(scope: Any, receive: Any, send: Any) -> None:
        seen.append(dict(scope["headers"]))
        begun.set()
        await echo(scope, receive, send)

    offer = (
        b"POST /a?b HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
    )
    head = offer + b"X: 1\r\n" + kind + b"\r\n\r\n"
    last = b"PUT / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"

    async def test() -> bytes:
        async with serving(look) as (_, connect):
            reader, writer = await connect()
            for sent in [2 * (head + body) + last] if is_at_once else [head, body, head + body]:
                writer.write(sent)
                if sent == head:
                    await begun.wait()
            if not is_at_once:
                writer.write(last)
            return await to_the_end(reader)

    answers = run(test())
    assert answers.count(b"HTTP/1.1 200 OK") == 3
    assert answers.count(b"POST hello") == 2
    assert [each.get(b"x") for each in seen] == [b"1", b"1", None]


@pytest.mark.parametrize(
    ("first", "later"),
    [
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"\r\n"),
        (b"GET /unread HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n", b"hello"),
    ],
    ids=["blank line", "body that nobody reads"],
)
def test_what_comes_between_requests_keeps_no_connection(run, first, later):
    async def answer(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] != "/unread":
            return await echo(scope, receive, send)
        headers = [(b"content-length", b"4")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"GET "})
        return None

    async def test() -> bytes:
        async with serving(answer, keep_alive_seconds=1) as (_, connect):
            reader, writer = await connect()
            writer.write(first)
            await reader.readuntil(b"GET ")
            writer.write(later)
            return await to_the_end(reader)

    assert run(test()) == b""


def test_unfinished_bodies_of_anybody_are_given_up_with_503(run):
    """Before it is known who sends them; the latest one is answered."""

    class Named:
        async def answer(self, request: HttpRequest, path: str) -> HttpAnswer:
            del path
            return HttpAnswer(status=200, headers={}, body=b"%d" % len(request.body))

        def too_large(self, request: HttpRequest, path: str, limit: int) -> HttpAnswer:
            raise AssertionError((request, path, limit))

    size = 300_000
    app = AsgiApp(
        app=Named(),
        reader=RequestReader(client_header="x-client"),
        not_ready=lambda: None,
        body_limit=size,
        budget=BodyBudget(most=2 * size),
    )
    head = b"POST /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % size

    async def test() -> list[bytes]:
        async with serving(app) as (_, connect):
            told = []
            for _ in range(4):
                reader, writer = await connect()
                writer.write(head + b"x" * (size - 1))
                told.append(reader.readuntil(b"later."))
            refused = [await each for each in islice(asyncio.as_completed(told), 2)]
            reader, writer = await connect()
            writer.write(head + b"x" * size)
            return [*refused, await to_the_end(reader)]

    *refused, answered = run(test())
    assert all(each.startswith(b"HTTP/1.1 503 ") for each in refused)
    assert answered.startswith(b"HTTP/1.1 200 OK")
    assert answered.endswith(b"%d" % size)


def test_whole_bodies_beyond_the_memory_for_them_get_503_until_others_are_answered(run):
    let_go = asyncio.Event()

    class Slow:
        async def answer(self, request: HttpRequest, path: str) -> HttpAnswer:
            del request, path
            await let_go.wait()
            return HttpAnswer(status=200, headers={}, body=b"")

        def too_large(self, request: HttpRequest, path: str, limit: int) -> HttpAnswer:
            raise AssertionError((request, path, limit))

    size = 100_000
    app = AsgiApp(
        app=Slow(),
        reader=RequestReader(client_header="x-client"),
        not_ready=lambda: None,
        body_limit=size,
        budget=BodyBudget(most=2 * size),
    )
    head = b"POST /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % size

    async def test() -> list[bytes]:
        async with serving(app) as (_, connect):
            answers = []
            for _ in range(3):
                reader, writer = await connect()
                writer.write(head + b"x" * size)
                answers.append(asyncio.ensure_future(to_the_end(reader)))
            await asyncio.wait(answers, timeout=10, return_when=asyncio.FIRST_COMPLETED)
            let_go.set()
            return await asyncio.gather(*answers)

    told = sorted(each.split()[1] for each in run(test()))
    assert told == [b"200", b"200", b"503"]


def test_the_end_waits_for_requests_under_way_and_for_no_idle_connection(run):
    may_answer, begun = asyncio.Event(), asyncio.Event()

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/slow":
            begun.set()
            await may_answer.wait()
        await echo(scope, receive, send)

    async def test() -> tuple[bytes, bytes]:
        async with serving(slow) as (front, connect):
            idle, writer = await connect()
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            await idle.readuntil(b"GET ")
            busy, writer = await connect()
            writer.write(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
            await begun.wait()
            stopping = asyncio.create_task(front.stop(PATIENCE))
            closed = await to_the_end(idle)
            with pytest.raises(ConnectionRefusedError):
                await connect()
            assert not stopping.done()
            may_answer.set()
            answered = await to_the_end(busy)
            await stopping
            return closed, answered

    closed, answered = run(test())
    assert closed == b""
    assert b"connection: close" in answered


def test_the_end_cuts_off_what_takes_longer_than_it_may(run):
    begun = asyncio.Event()

    async def never(scope: Any, receive: Any, send: Any) -> None:  # noqa: ARG001 - it does nothing
        begun.set()
        await asyncio.Event().wait()

    async def test() -> bytes:
        async with serving(never) as (front, connect):
            reader, writer = await connect()
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            await begun.wait()
            await front.stop(SHORT)
            return await to_the_end(reader)

    assert b" 200 " not in run(test())


def test_a_port_on_which_somebody_listens_is_refused():
    with socket.create_server(("127.0.0.1", 0)) as other, pytest.raises(Exception, match="in use"):
        bind(LOOPBACK, other.getsockname()[1])
