"""What arrives at the endpoint, and what it may do while we send."""

from __future__ import annotations

import socket

import pytest

from shared import VERSION
from shared.http import Answered
from tests.integration.push.on_loop import HttpPusher, answer_over, run
from tests.integration.push.scripted import (
    EMPTY,
    OK,
    WAIT,
    Server,
    always,
    answer_of,
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


def test_a_large_body_arrives_whole(pusher: HttpPusher) -> None:
    body = bytes(range(256)) * 20_000
    with Server(always(OK)) as server:
        answered = push(pusher, server.url, body=body)

        assert isinstance(answered, Answered)
        assert server.requests[0].endswith(b"\r\n\r\n" + body)
