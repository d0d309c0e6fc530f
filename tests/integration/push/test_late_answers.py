"""Answers after the timeout: at most 256 connections, and nothing left behind."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from datetime import timedelta
from pathlib import Path
from queue import SimpleQueue
from threading import Event

import pytest

from shared.adapters.http import http_pusher as sender
from shared.adapters.http.connection import HttpConnection
from shared.http import Answered, Exchange, LateAnswerHandler, OutboundRequest
from tests.integration.push.late import (
    MINUTE,
    TIMEOUT,
    Waiting,
    answering_when,
    eventually,
    is_timeout,
    until_the_end,
    waits,
)
from tests.integration.push.on_loop import HttpPusher, run
from tests.integration.push.scripted import OK, PATIENCE, Peer, Server, always, push

FDS = Path("/proc/self/fd")


@pytest.fixture
def waiting(pusher: HttpPusher) -> Iterator[Waiting]:
    """Fail if a wait or a file descriptor is left behind."""
    before = len(list(FDS.iterdir()))
    yield Waiting(pusher)
    pusher.close()
    assert waits(pusher) == 0
    assert eventually(lambda: len(list(FDS.iterdir())) <= before)


def test_an_answer_after_the_timeout_is_reported(waiting: Waiting) -> None:
    late = b"HTTP/1.1 201 Made\r\nX-A: b\r\n\r\nbody"
    with Server(answering_when(now := Event(), late)) as server:
        exchange = waiting.send(server.url)
        now.set()
        answer = waiting.reported()

    assert is_timeout(exchange)
    assert answer
    assert (answer.status, answer.headers, answer.body) == (201, {"x-a": "b"}, b"")
    assert answer.seconds >= TIMEOUT.total_seconds()
    assert len(server.requests) == 1


def test_an_answer_in_time_is_not_reported_again(waiting: Waiting) -> None:
    with Server(always(OK)) as server:
        exchange = waiting.send(server.url)

        assert isinstance(exchange, Answered)
        assert waits(waiting.pusher) == 0
        assert waiting.reported(0.1) is None


def test_nobody_waits_unless_asked_to(pusher: HttpPusher) -> None:
    ended = Event()
    with Server(until_the_end(ended)) as server:
        assert is_timeout(push(pusher, server.url, TIMEOUT))
        assert waits(pusher) == 0
        assert ended.wait(PATIENCE)


def test_a_head_may_have_begun_before_the_timeout(waiting: Waiting) -> None:
    """What has come so far is kept: half a status line, an informational answer."""
    now = Event()

    def script(peer: Peer) -> None:
        peer.read()
        peer.send(b"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 20")
        now.wait(PATIENCE)
        peer.dribble(b"0 OK\r\nX-A: b\r\n\r\n", 0.03)
        peer.receive()

    with Server(script) as server:
        assert is_timeout(waiting.send(server.url))
        now.set()
        answer = waiting.reported()

    assert answer
    assert (answer.status, answer.headers) == (200, {"x-a": "b"})


def test_a_connection_used_before_may_answer_late(waiting: Waiting) -> None:
    now = Event()

    def script(peer: Peer) -> None:
        peer.read()
        peer.send(OK)
        peer.read()
        now.wait(PATIENCE)
        peer.send(OK)
        peer.receive()

    with Server(script) as server:
        first, second = waiting.send(server.url), waiting.send(server.url)
        now.set()
        answer = waiting.reported()

    assert isinstance(first, Answered)
    assert is_timeout(second)
    assert answer
    assert (answer.status, server.connections) == (200, 1)


@pytest.mark.parametrize(
    "last",
    [
        pytest.param(b"", id="close"),
        pytest.param(b"HTTP/1.1 200 OK\r\nX-A", id="close in the middle"),
        pytest.param(b"SSH-2.0-OpenSSH\r\n\r\n", id="not HTTP"),
        pytest.param(None, id="reset"),
    ],
)
def test_whatever_else_comes_ends_the_waiting(waiting: Waiting, last: bytes | None) -> None:
    now = Event()

    def script(peer: Peer) -> None:
        peer.read()
        now.wait(PATIENCE)
        if last is None:
            peer.reset()
        else:
            peer.send(last)

    with Server(script) as server:
        assert is_timeout(waiting.send(server.url))
        assert waits(waiting.pusher) == 1
        now.set()

        assert eventually(lambda: not waits(waiting.pusher))
        assert waiting.reported(0) is None


def test_a_peer_that_sends_for_ever_is_given_up(waiting: Waiting) -> None:
    """The limits of a head hold for all that comes, however it is cut into pieces."""

    def script(peer: Peer) -> None:
        peer.read()
        while not peer.stopped.wait(0.001):
            peer.send(b"HTTP/1.1 102 Processing\r\nX: " + b"y" * 1000 + b"\r\n\r\n")

    with Server(script) as server:
        assert is_timeout(waiting.send(server.url, timedelta(seconds=0.01)))

        assert eventually(lambda: not waits(waiting.pusher))
        assert waiting.reported(0) is None


def test_waiting_has_an_end(waiting: Waiting) -> None:
    ended = Event()
    with Server(until_the_end(ended)) as server:
        begun = time.monotonic()
        waiting.send(server.url, until=timedelta(seconds=0.8))
        assert ended.wait(PATIENCE)
        assert time.monotonic() - begun >= 0.8

    assert waiting.reported(0) is None


def test_a_dribbling_peer_costs_next_to_nothing(
    waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Single bytes as fast as they go: after the first ones it is read fifty times a second."""
    reads: list[float] = []
    read = HttpConnection._read

    def counted(connection: HttpConnection) -> bool:
        reads.append(time.monotonic())
        return read(connection)

    def script(peer: Peer) -> None:
        peer.read()
        peer.dribble(b"HTTP/1.1 200 OK\r\nX: " + b"y" * 60_000, 0.0002)

    monkeypatch.setattr(HttpConnection, "_read", counted)
    begun = time.monotonic()
    with Server(script) as server:
        waiting.send(server.url, timedelta(seconds=1), until=timedelta(seconds=2))
        assert eventually(lambda: not waits(waiting.pusher))

    # A read for each byte would be thousands a second.
    assert 0 < len(reads) < 100 + 50 * (time.monotonic() - begun)


@pytest.mark.parametrize("early", [b"", b"HTTP/1.1 2"], ids=["silent", "answering early"])
def test_a_request_that_was_not_sent_whole_awaits_nothing(waiting: Waiting, early: bytes) -> None:
    """An endpoint that has not read the whole request can't have handled it."""

    def script(peer: Peer) -> None:
        peer.send(early)
        peer.wait()

    with Server(script) as server:
        assert is_timeout(waiting.send(server.url, body=bytes(20_000_000)))
        assert waits(waiting.pusher) == 0


def test_beyond_its_limit_the_oldest_is_given_up(
    waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = Event()
    gone: list[int] = []

    def script(peer: Peer) -> None:
        peer.read()
        while not answer.is_set() and not peer.stopped.is_set():
            if peer.is_closed():
                gone.append(peer.number)
                return
        peer.send(OK)
        peer.receive()

    assert sender.MOST_LATE == 256
    monkeypatch.setattr(sender, "MOST_LATE", 8)
    with Server(script) as server, ThreadPoolExecutor(7) as senders:
        first, second = waiting.send(server.url), waiting.send(server.url)
        rest = list(senders.map(waiting.send, [server.url] * 6))
        with_8 = list(gone)
        rest.append(waiting.send(server.url))
        assert eventually(lambda: gone)
        answer.set()
        answers = [waiting.reported() for _ in range(8)]

        assert all(is_timeout(each) for each in (first, second, *rest))
        assert (with_8, gone) == ([], [1])
        assert all(answers)
        assert waiting.reported(0) is None


def test_closing_gives_up_what_waits(waiting: Waiting, pusher: HttpPusher) -> None:
    ended = Event()
    with Server(until_the_end(ended)) as server:
        waiting.send(server.url)
        pusher.close()

        assert ended.wait(PATIENCE)
        assert waits(pusher) == 0


def test_it_begins_again_after_a_pause(waiting: Waiting) -> None:
    now = Event()
    with Server(answering_when(now)) as server:
        for _ in range(2):
            now.clear()
            waiting.send(server.url)
            now.set()
            assert waiting.reported()
            assert eventually(lambda: not waits(waiting.pusher))


def test_an_answer_is_reported_outside_of_the_invocation_that_asked(pusher: HttpPusher) -> None:
    """The host drops what is logged in the context of an invocation that has ended."""
    invocation: ContextVar[str] = ContextVar("invocation", default="none")
    reported: SimpleQueue[str] = SimpleQueue()
    late = LateAnswerHandler(MINUTE, lambda _: reported.put(invocation.get()))

    async def invoke(url: str) -> Exchange:
        invocation.set("this one")
        request = OutboundRequest(method="POST", url=url, headers={}, body=b"[]")
        return await pusher.real.send(request, TIMEOUT, late)

    with Server(answering_when(now := Event())) as server:
        assert is_timeout(run(invoke(server.url)))
        now.set()

        assert reported.get(timeout=PATIENCE) == "none"
