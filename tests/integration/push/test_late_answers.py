"""Answers after the timeout: at most 256 connections, and nothing left behind."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from datetime import timedelta
from queue import SimpleQueue
from threading import Event

import pytest

from shared.adapters.http import http_pusher as sender
from shared.adapters.http.connection import HttpConnection
from shared.http import Exchange, Failure, LateAnswerHandler, OutboundRequest
from tests.integration.push.late import MINUTE, TIMEOUT, Waiting, eventually, open_files
from tests.integration.push.on_loop import PATIENCE, PATIENT, HttpPusher, answer_of, failure_of, run
from tests.integration.push.scripted import (
    END,
    OK,
    READ,
    RESET,
    WAIT,
    Peer,
    Script,
    Server,
    always,
    byte_by_byte,
    playing,
)


@pytest.fixture
def waiting(pusher: HttpPusher) -> Iterator[Waiting]:
    """Fail if a file descriptor is left behind."""
    before = open_files()
    yield Waiting(pusher)
    pusher.close()
    assert eventually(lambda: open_files() <= before)


def silent_until(gone: Event) -> Script:
    """Answer nothing, and say when the client has gone."""

    def tell(peer: Peer) -> None:
        if not peer.receive() and not peer.stopped.is_set():
            gone.set()

    return playing(READ, tell)


def test_an_answer_after_the_timeout_is_reported(waiting: Waiting) -> None:
    now, late = Event(), b"HTTP/1.1 201 Made\r\nX-A: b\r\n\r\nbody"
    with Server(playing(READ, now, late, END)) as server:
        waiting.times_out(server.url)
        now.set()
        answer = waiting.reported()

    assert (answer.status, answer.headers, answer.body) == (201, {"x-a": "b"}, b"")
    assert answer.seconds >= TIMEOUT.total_seconds()
    assert len(server.requests) == 1


def test_an_answer_in_time_is_not_reported_again(waiting: Waiting) -> None:
    with Server(always(OK)) as server:
        for _ in range(2):
            answer_of(waiting.send(server.url, PATIENT))

        assert server.connections == 1  # free for the next one: nobody waits on it
        assert not waiting.has_reported


def test_nobody_waits_unless_asked_to(pusher: HttpPusher) -> None:
    gone = Event()
    with Server(silent_until(gone)) as server:
        assert pusher.unanswered(server.url, TIMEOUT).failure is Failure.TIMED_OUT
        assert gone.wait(PATIENCE)


def test_a_head_may_have_begun_before_the_timeout(waiting: Waiting) -> None:
    """What has come so far is kept: half a status line, an informational answer."""
    now, half = Event(), b"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 20"
    rest = byte_by_byte(b"0 OK\r\nX-A: b\r\n\r\n", 0.03)
    with Server(playing(READ, half, now, rest, END)) as server:
        waiting.times_out(server.url)
        now.set()
        answer = waiting.reported()

    assert (answer.status, answer.headers) == (200, {"x-a": "b"})


def test_a_connection_used_before_may_answer_late(waiting: Waiting) -> None:
    now = Event()
    with Server(playing(READ, OK, READ, now, OK, END)) as server:
        answer_of(waiting.send(server.url, PATIENT))
        waiting.times_out(server.url)
        now.set()

        assert (waiting.reported().status, server.connections) == (200, 1)


def is_left(files: int) -> bool:
    """Tell whether of so many descriptors both ends of a connection are closed soon."""
    return eventually(lambda: open_files() <= files - 2)


@pytest.mark.parametrize(
    "last",
    [
        pytest.param(b"", id="close"),
        pytest.param(b"HTTP/1.1 200 OK\r\nX-A", id="close in the middle"),
        pytest.param(b"SSH-2.0-OpenSSH\r\n\r\n", id="not HTTP"),
        pytest.param(RESET, id="reset"),
    ],
)
def test_whatever_else_comes_ends_the_waiting(waiting: Waiting, last: bytes | Script) -> None:
    now = Event()
    with Server(playing(READ, now, last)) as server:
        waiting.times_out(server.url)
        files = open_files()
        now.set()

        assert is_left(files)
        assert not waiting.has_reported


def test_a_peer_that_sends_for_ever_is_given_up(waiting: Waiting) -> None:
    """The limits of a head hold for all that comes, however it is cut into pieces."""
    now = Event()

    def script(peer: Peer) -> None:
        peer.read()
        now.wait(PATIENCE)
        while not peer.stopped.wait(0.001):
            peer.send(b"HTTP/1.1 102 Processing\r\nX: " + b"y" * 1000 + b"\r\n\r\n")

    with Server(script) as server:
        waiting.times_out(server.url)
        files = open_files()
        now.set()

        assert is_left(files)
        assert not waiting.has_reported


def test_waiting_has_an_end(waiting: Waiting) -> None:
    gone = Event()
    with Server(silent_until(gone)) as server:
        begun = time.monotonic()
        waiting.times_out(server.url, until=timedelta(seconds=0.8))
        assert gone.wait(PATIENCE)
        assert time.monotonic() - begun >= 0.8

    assert not waiting.has_reported


def test_a_dribbling_peer_costs_next_to_nothing(
    waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Single bytes as fast as they go: after the first ones it is read fifty times a second."""
    reads: list[float] = []
    read = HttpConnection._read

    def counted(connection: HttpConnection) -> bool:
        reads.append(time.monotonic())
        return read(connection)

    monkeypatch.setattr(HttpConnection, "_read", counted)
    begun = time.monotonic()
    endless = byte_by_byte(b"HTTP/1.1 200 OK\r\nX: " + b"y" * 60_000, 0.0002)
    with Server(playing(READ, endless)) as server:
        waiting.times_out(server.url, timedelta(seconds=0.5), until=timedelta(seconds=1))
        assert is_left(open_files())

    # A read for each byte would be thousands a second.
    assert 0 < len(reads) < 100 + 50 * (time.monotonic() - begun)


@pytest.mark.parametrize("early", [b"", b"HTTP/1.1 2"], ids=["silent", "answering early"])
def test_a_request_that_was_not_sent_whole_awaits_nothing(waiting: Waiting, early: bytes) -> None:
    """An endpoint that has not read the whole request can't have handled it."""
    with Server(playing(early, WAIT)) as server:
        files = open_files()
        waiting.times_out(server.url, body=bytes(20_000_000))

        assert eventually(lambda: open_files() == files + 1)  # the server's end


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
        for _ in range(2):
            waiting.times_out(server.url)
        list(senders.map(waiting.times_out, [server.url] * 6))
        with_8 = list(gone)
        waiting.times_out(server.url)
        assert eventually(lambda: gone)
        answer.set()
        answers = [waiting.reported() for _ in range(8)]

        assert (with_8, gone, len(answers)) == ([], [1], 8)
        assert not waiting.has_reported


def test_closing_gives_up_what_waits(waiting: Waiting, pusher: HttpPusher) -> None:
    gone = Event()
    with Server(silent_until(gone)) as server:
        waiting.times_out(server.url)
        pusher.close()

        assert gone.wait(PATIENCE)


def test_an_answer_is_reported_outside_of_the_invocation_that_asked(pusher: HttpPusher) -> None:
    """The host drops what is logged in the context of an invocation that has ended."""
    invocation: ContextVar[str] = ContextVar("invocation", default="none")
    reported: SimpleQueue[str] = SimpleQueue()
    late, now = LateAnswerHandler(MINUTE, lambda _: reported.put(invocation.get())), Event()

    async def invoke(url: str) -> Exchange:
        invocation.set("this one")
        request = OutboundRequest(method="POST", url=url, headers={}, body=b"[]")
        return await pusher.real.send(request, TIMEOUT, late)

    with Server(playing(READ, now, OK, END)) as server:
        assert failure_of(run(invoke(server.url))) is Failure.TIMED_OUT
        now.set()

        assert reported.get(timeout=PATIENCE) == "none"
