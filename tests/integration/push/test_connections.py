"""Connections: broken ones, kept ones, stale ones; what they carry."""

from __future__ import annotations

import socket
from datetime import timedelta
from threading import Event, Thread
from typing import Any

import pytest

from shared import VERSION
from shared.http import Answered, Exchange, Failure, OutboundRequest
from tests.integration.push.late import eventually, open_files
from tests.integration.push.on_loop import HttpPusher, answer_over, begin, run
from tests.integration.push.scripted import (
    EMPTY,
    END,
    OK,
    PATIENT,
    READ,
    RESET,
    WAIT,
    Peer,
    Script,
    Server,
    always,
    answer_of,
    by_turns,
    failure_of,
    once,
    playing,
    push,
)


def test_the_wire_carries_the_headers_given_and_no_others(pusher: HttpPusher) -> None:
    with Server(always(EMPTY)) as server:
        push(
            pusher, server.url, headers={"aeg-event-type": "Notification", "x": "é\t"}, body=b"[1]"
        )
        push(pusher, server.url, method="OPTIONS", body=b"")

        host = b"Host: 127.0.0.1:%d\r\n" % server.port
        agent = b"User-Agent: pushgrid/%s\r\n" % VERSION.encode()
        assert server.requests == [
            b"POST /hook?code=a%2Fb HTTP/1.1\r\n" + host + b"aeg-event-type: Notification\r\n"
            b"x: \xe9\t\r\n" + agent + b"Content-Length: 3\r\n\r\n[1]",
            b"OPTIONS /hook?code=a%2Fb HTTP/1.1\r\n" + host + agent + b"\r\n",
        ]


@pytest.mark.parametrize("name", ["User-Agent", "user-agent"])
def test_a_subscription_may_name_another_user_agent(pusher: HttpPusher, name: str) -> None:
    with Server(always(EMPTY)) as server:
        push(pusher, server.url, headers={name: "shop/1.0"})

        assert server.requests[0].lower().count(b"user-agent:") == 1
        assert f"\r\n{name}: shop/1.0\r\n".encode() in server.requests[0]


def test_an_early_answer_ends_the_sending(pusher: HttpPusher) -> None:
    """A server may refuse a large body without ever reading it."""
    refusal = b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n"
    with Server(playing(refusal, WAIT)) as server:
        answered = answer_of(push(pusher, server.url, body=bytes(20_000_000)))
        push(pusher, server.url, body=bytes(20_000_000))

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


@pytest.mark.parametrize(
    "script",
    [
        RESET,
        playing(READ, RESET),
        playing(READ, b"HTTP/1.1 200 OK\r\nContent-", 0.2, RESET),
        once(b""),
        once(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n"),
        once(b"HTTP/1.1 100 Continue\r\n\r\n"),
    ],
    ids=[
        "at once",
        "before the answer",
        "in the head",
        "closed",
        "closed in the head",
        "after 100",
    ],
)
def test_a_broken_connection_fails_and_is_not_tried_again(
    pusher: HttpPusher, script: Script
) -> None:
    with Server(script) as server:
        assert failure_of(push(pusher, server.url)) is Failure.SOCKET
        assert server.connections == 1


INTERIM = b"HTTP/1.1 100 Continue\r\n\r\n"
STRAY = b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n"
TOO_LARGE = b"HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


@pytest.mark.parametrize("pieces", [[INTERIM + TOO_LARGE], [INTERIM, 0.1, TOO_LARGE], [TOO_LARGE]])
@pytest.mark.parametrize("end", [RESET, WAIT], ids=["reset", "never"])
def test_an_answer_while_the_request_is_being_sent_counts(
    pusher: HttpPusher, pieces: list[bytes | float], end: Script
) -> None:
    with Server(playing(END, *pieces, 0.1, end)) as server:
        answered = answer_of(push(pusher, server.url, body=bytes(20_000_000)))

        assert answered.status == 413
        assert server.connections == 1


def test_an_interim_answer_while_the_request_is_being_sent_is_none(pusher: HttpPusher) -> None:
    with Server(playing(INTERIM, END, 0.1, RESET)) as server:
        assert failure_of(push(pusher, server.url, body=bytes(20_000_000))) is Failure.SOCKET


def test_connections_are_kept(pusher: HttpPusher) -> None:
    with Server(always(OK)) as server:
        outcomes = [push(pusher, server.url) for _ in range(20)]

        assert all(isinstance(each, Answered) for each in outcomes)
        assert server.connections == 1


@pytest.mark.parametrize(
    ("answer", "connections"),
    [
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", 3),
        (b"HTTP/1.1 200 OK\r\nKeep-Alive: timeout=1\r\nContent-Length: 0\r\n\r\n", 3),
        (b"HTTP/1.1 200 OK\r\nKeep-Alive: timeout=30\r\nContent-Length: 0\r\n\r\n", 1),
    ],
)
def test_what_the_peer_says_about_keeping_is_honoured(
    pusher: HttpPusher, answer: bytes, connections: int
) -> None:
    with Server(always(answer)) as server:
        outcomes = [push(pusher, server.url) for _ in range(3)]

        assert [each.status for each in outcomes if isinstance(each, Answered)] == [200] * 3
        assert server.connections == connections


def test_a_connection_closed_while_idle_is_replaced(pusher: HttpPusher) -> None:
    with Server(once(OK)) as server:
        for _ in range(3):
            assert isinstance(push(pusher, server.url), Answered)
            server.join()

        assert len(server.requests) == 3


def test_an_answer_nobody_asked_for_is_not_taken_for_ours(pusher: HttpPusher) -> None:
    """Some servers say 408 on an idle connection before they close it."""
    with Server(by_turns(playing(READ, OK, 0.1, STRAY), once(OK))) as server:
        push(pusher, server.url)
        server.join()

        assert answer_of(push(pusher, server.url)).status == 200


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
        push(pusher, server.url)
        answer_of(push(pusher, server.url, body=b"[2]"))

        assert server.connections == 2
        assert [request[-3:] for request in server.requests[1:]] == [b"[2]", b"[2]"]


@pytest.mark.parametrize("part", [b"HTTP/1.1 2", b"HTTP/1.1 102 Processing\r\n\r\n"])
def test_a_used_connection_that_ends_within_an_answer_is_not_tried_again(
    pusher: HttpPusher, part: bytes
) -> None:
    with Server(playing(READ, OK, READ, part)) as server:
        push(pusher, server.url)
        assert failure_of(push(pusher, server.url)) is Failure.SOCKET
        assert server.connections == 1


def test_the_second_try_is_the_last(pusher: HttpPusher) -> None:
    with Server(by_turns(playing(READ, OK, READ), playing(READ))) as server:
        push(pusher, server.url)
        assert failure_of(push(pusher, server.url)) is Failure.SOCKET
        assert server.connections == 2


def test_the_second_try_has_only_the_time_that_is_left(pusher: HttpPusher) -> None:
    """Its answer comes 1.1 s after the first began: too late, though it took 0.9 s itself."""
    with Server(by_turns(playing(READ, OK, READ, 0.2), playing(READ, 0.9, OK))) as server:
        push(pusher, server.url)
        assert failure_of(push(pusher, server.url, timedelta(seconds=1))) is Failure.TIMED_OUT
        assert server.connections == 2


def test_threads_never_mix_up_answers(pusher: HttpPusher) -> None:
    def script(peer: Peer) -> None:
        while request := peer.read():
            body = request.partition(b"\r\n\r\n")[2]
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    wrong: list[object] = []

    def work(name: int) -> None:
        for number in range(40):
            body = b"%d-%d" % (name, number)
            answered = push(pusher, server.url, body=body)
            if not isinstance(answered, Answered) or answered.body != body:
                wrong.append(answered)

    with Server(script) as server:
        threads = [Thread(target=work, args=(name,)) for name in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert wrong == []
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
