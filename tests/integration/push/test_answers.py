"""What counts as an answer, and that its body decides nothing."""

from __future__ import annotations

from time import monotonic
from typing import Any

import pytest

from shared.adapters.http import http_pusher as sender
from shared.http import Failure
from tests.integration.push.on_loop import HttpPusher
from tests.integration.push.scripted import (
    OK,
    READ,
    RESET,
    Peer,
    Script,
    Server,
    always,
    answer_of,
    byte_by_byte,
    failure_of,
    once,
    playing,
    push,
    unanswered,
)

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
LIMIT = 64 * 1024


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\nno length", b"no length"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort", b"short"),
    ],
)
def test_a_body_that_ends_with_its_connection_changes_nothing(
    pusher: HttpPusher, answer: bytes, body: bytes
) -> None:
    with Server(once(answer)) as server:
        outcomes = [answer_of(push(pusher, server.url)) for _ in range(2)]

        assert [(each.status, each.body) for each in outcomes] == [(200, body)] * 2
        assert server.connections == 2


def test_a_reset_while_the_body_is_read_changes_nothing(pusher: HttpPusher) -> None:
    part = b"HTTP/1.1 202 Accepted\r\nContent-Length: 100\r\n\r\npart"
    with Server(playing(READ, part, 0.2, RESET)) as server:
        answered = answer_of(push(pusher, server.url))

        assert (answered.status, answered.body) == (202, b"part")


def test_a_dribbling_body_is_left_after_a_while(
    pusher: HttpPusher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "_BODY_SECONDS", 0.5)
    head = b"HTTP/1.1 201 Created\r\nContent-Length: 1000\r\n\r\n"
    with Server(playing(READ, head, byte_by_byte(b"x" * 1000))) as server:
        begun = monotonic()
        answered = answer_of(push(pusher, server.url))
        taken = monotonic() - begun

        assert answered.status == 201
        assert answered.body.strip(b"x") == b""
        assert len(answered.body) < 1000  # which would take 50 seconds
        assert taken >= answered.seconds + 0.5  # the body's time is not the endpoint's


def without_an_end(*parts: bytes) -> Script:
    """Read the request, send the first part, and the second one for ever."""

    def script(peer: Peer) -> None:
        peer.read()
        peer.send(parts[0])
        while True:
            peer.send(parts[1])

    return script


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 10737418240\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
        CHUNKED + b"FFFFFFFFFF\r\n",
    ],
)
def test_an_endless_body_is_read_up_to_64_kib(pusher: HttpPusher, head: bytes) -> None:
    with Server(without_an_end(head, b"x" * 9999)) as server:
        assert answer_of(push(pusher, server.url)).body == b"x" * LIMIT


def test_a_flood_of_tiny_chunks_is_cut_off(pusher: HttpPusher) -> None:
    with Server(without_an_end(CHUNKED, b"1;" + b"e" * 500 + b"\r\nx\r\n")) as server:
        assert 0 < len(answer_of(push(pusher, server.url)).body) < 1000


def test_redirects_are_answers(pusher: HttpPusher) -> None:
    with Server(always(OK)) as elsewhere:
        moved = b"HTTP/1.1 307 Moved\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n"
        with Server(always(moved % elsewhere.url.encode())) as server:
            answered = answer_of(push(pusher, server.url))

        assert answered.status == 307
        assert elsewhere.connections == 0


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(once(b"hello\r\n\r\n"), id="no status line"),
        pytest.param(
            without_an_end(b"", b"HTTP/1.1 102 Processing\r\n\r\n" * 100),
            id="endless informational responses",
        ),
    ],
)
def test_what_is_not_http_is_malformed(pusher: HttpPusher, script: Script) -> None:
    with Server(script) as server:
        assert failure_of(push(pusher, server.url)) is Failure.MALFORMED
        assert server.connections == 1


@pytest.mark.parametrize("end", [[], [0.2, RESET]], ids=["closed", "reset"])
@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\nX: y", 201),
        (b"HTTP/1.1 503 Busy\r\n", 503),
        (b"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 2", 0),
        (b"HTTP/1.1 102 Processing\r\n\r\n", 0),
        (b"HTTP/1.1 20", 0),
        (b"", 0),
    ],
)
def test_a_head_that_is_cut_off_is_no_answer_but_its_status_is_known(
    pusher: HttpPusher, sent: bytes, status: int, end: list[Any]
) -> None:
    with Server(playing(READ, sent, *end)) as server:
        none = unanswered(push(pusher, server.url))

    assert (none.failure, none.status) == (Failure.SOCKET, status)


def test_headers_before_a_fault_are_used(pusher: HttpPusher) -> None:
    answer = b"HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nX: y\r\nbad name: z\r\n\r\n"
    with Server(always(answer)) as server:
        outcomes = [answer_of(push(pusher, server.url)) for _ in range(2)]

        assert [each[:2] for each in outcomes] == [(503, {"retry-after": "7"})] * 2
        assert server.connections == 2


def test_an_answer_may_come_in_single_bytes(pusher: HttpPusher) -> None:
    answer = b"HTTP/1.1 100 Continue\r\n\r\n" + CHUNKED + b"2\r\nok\r\n0\r\n\r\n"
    dribble = byte_by_byte(answer, 0.001)
    with Server(playing(READ, dribble, READ, dribble, READ)) as server:
        for _ in range(2):
            answered = answer_of(push(pusher, server.url))

            assert (answered.status, answered.body) == (200, b"ok")
        assert server.connections == 1
