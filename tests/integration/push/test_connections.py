"""Connections: broken ones, kept ones, stale ones; what they carry."""

from __future__ import annotations

import socket
from datetime import timedelta
from threading import Event
from typing import Any

import pytest

from shared.http import Exchange, Failure, OutboundRequest
from tests.integration.push.late import eventually, open_files
from tests.integration.push.on_loop import (
    PATIENCE,
    PATIENT,
    HttpPusher,
    answer_of,
    answer_over,
    begin,
    run,
)
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
    by_turns,
    once,
    playing,
)


def test_an_early_answer_ends_the_sending(pusher: HttpPusher) -> None:
    """A server may refuse a large body without ever reading it."""
    refusal = b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n"
    with Server(playing(refusal, WAIT)) as server:
        answered = pusher.answer(server.url, body=bytes(20_000_000))
        pusher.push(server.url, body=bytes(20_000_000))

        assert answered.status == 413
        assert server.connections == 2  # half a request is on the first one


def test_an_answer_that_came_before_the_connection_broke_counts() -> None:
    """More informational responses come first than are received at once."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        interim = b"HTTP/1.1 103 Early Hints\r\nLink: %s\r\n\r\n" % (b"x" * 20_000)
        theirs.sendall(interim + b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
        theirs.close()

        assert run(answer_over(ours, b"POST")) == (False, 413)


INTERIM = b"HTTP/1.1 100 Continue\r\n\r\n"
STRAY = b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n"
TOO_LARGE = b"HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


@pytest.mark.parametrize("pieces", [[INTERIM + TOO_LARGE], [INTERIM, 0.1, TOO_LARGE], [TOO_LARGE]])
@pytest.mark.parametrize("end", [RESET, WAIT], ids=["reset", "never"])
def test_an_answer_while_the_request_is_being_sent_counts(
    pusher: HttpPusher, pieces: list[bytes | float], end: Script
) -> None:
    with Server(playing(END, *pieces, 0.1, end)) as server:
        answered = pusher.answer(server.url, body=bytes(20_000_000))

        assert answered.status == 413
        assert server.connections == 1


def test_an_interim_answer_while_the_request_is_being_sent_is_none(pusher: HttpPusher) -> None:
    with Server(playing(INTERIM, END, 0.1, RESET)) as server:
        assert pusher.unanswered(server.url, body=bytes(20_000_000)).failure is Failure.SOCKET


@pytest.mark.parametrize(
    ("says", "connections"),
    [(b"", 1), (b"Connection: close\r\n", 3), (b"Keep-Alive: timeout=1\r\n", 3)],
)
def test_connections_are_kept_as_long_as_the_peer_says(
    pusher: HttpPusher, says: bytes, connections: int
) -> None:
    answer = b"HTTP/1.1 200 OK\r\n%sContent-Length: 0\r\n\r\n" % says
    with Server(always(answer)) as server:
        for _ in range(3):
            pusher.answer(server.url)

        assert server.connections == connections


def test_a_connection_closed_while_idle_is_replaced(pusher: HttpPusher) -> None:
    with Server(once(OK)) as server:
        for _ in range(3):
            pusher.answer(server.url)
            server.join()

        assert len(server.requests) == 3


def test_an_answer_nobody_asked_for_is_not_taken_for_ours(pusher: HttpPusher) -> None:
    """Some servers say 408 on an idle connection before they close it."""
    with Server(by_turns(playing(READ, OK, 0.1, STRAY), once(OK))) as server:
        pusher.push(server.url)
        server.join()

        assert pusher.answer(server.url).status == 200


@pytest.mark.parametrize("stray", [STRAY, b""])
def test_what_arrived_while_the_loop_was_busy_is_not_taken_for_ours(
    pusher: HttpPusher, stray: bytes
) -> None:
    """The loop has not looked at the connection since."""
    idle = Event()

    async def push_twice(url: str) -> Exchange:
        request = OutboundRequest("POST", url, {}, b"[]")
        await pusher.real.send(request, PATIENT)
        idle.set()
        server.join()
        return await pusher.real.send(request, PATIENT)

    with Server(by_turns(playing(READ, OK, idle, stray), once(OK))) as server:
        assert answer_of(run(push_twice(server.url))).status == 200
        assert len(server.requests) == 2


@pytest.mark.parametrize("end", [b"", RESET], ids=["close", "reset"])
def test_a_used_connection_that_ends_before_any_answer_is_tried_once_more(
    pusher: HttpPusher, end: bytes | Script
) -> None:
    with Server(by_turns(playing(READ, OK, READ, end), once(OK))) as server:
        pusher.push(server.url)
        pusher.answer(server.url, body=b"[2]")

        assert server.connections == 2
        assert [request[-3:] for request in server.requests[1:]] == [b"[2]", b"[2]"]


@pytest.mark.parametrize("part", [b"HTTP/1.1 2", b"HTTP/1.1 102 Processing\r\n\r\n"])
def test_a_used_connection_that_ends_within_an_answer_is_not_tried_again(
    pusher: HttpPusher, part: bytes
) -> None:
    with Server(playing(READ, OK, READ, part)) as server:
        pusher.push(server.url)
        assert pusher.unanswered(server.url).failure is Failure.SOCKET
        assert server.connections == 1


def test_the_second_try_is_the_last(pusher: HttpPusher) -> None:
    with Server(by_turns(playing(READ, OK, READ), playing(READ))) as server:
        pusher.push(server.url)
        assert pusher.unanswered(server.url).failure is Failure.SOCKET
        assert server.connections == 2


def test_the_second_try_has_only_the_time_that_is_left(pusher: HttpPusher) -> None:
    """Its answer comes 1.1 s after the first began: too late, though it took 0.9 s itself."""
    with Server(by_turns(playing(READ, OK, READ, 0.2), playing(READ, 0.9, OK))) as server:
        pusher.push(server.url)
        assert pusher.unanswered(server.url, timedelta(seconds=1)).failure is Failure.TIMED_OUT
        assert server.connections == 2


def test_answers_are_never_mixed_up(pusher: HttpPusher) -> None:
    def echo(peer: Peer) -> None:
        while request := peer.read():
            body = request.partition(b"\r\n\r\n")[2]
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    async def push_often(name: int) -> None:
        for number in range(40):
            body = b"%d-%d" % (name, number)
            request = OutboundRequest("POST", server.url, {}, body)
            assert answer_of(await pusher.real.send(request, PATIENT)).body == body

    with Server(echo) as server:
        for pushing in [begin(push_often(name)) for name in range(12)]:
            pushing.result(PATIENCE)

        assert len(server.requests) == 480
        assert server.connections <= 12


def test_a_push_that_is_cancelled_closes_its_connection(pusher: HttpPusher) -> None:
    with Server(playing(READ, END)) as server:
        request = OutboundRequest("POST", server.url, {}, b"[]")
        sent = begin(pusher.real.send(request, PATIENT))
        assert eventually(lambda: server.requests)
        files = open_files()
        sent.cancel()

        assert eventually(lambda: open_files() <= files - 2)  # both its ends


@pytest.mark.parametrize("sent_before", [0, 1])
def test_an_answer_that_comes_with_the_reset_counts(sent_before: int) -> None:
    """The peer answers and goes away between our look for an answer and our send."""
    ours, peer = socket.socketpair()

    class Racing(socket.socket):
        def send(self, data: Any, _: int = 0) -> int:
            nonlocal sent_before
            if sent_before:
                sent_before -= 1
                return super().send(data[:1])
            peer.sendall(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 413 Too Large\r\n\r\n")
            raise ConnectionResetError

    with Racing(fileno=ours.detach()) as racing, peer:
        assert run(answer_over(racing, b"request")) == (False, 413)
