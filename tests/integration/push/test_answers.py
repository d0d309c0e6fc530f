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
    byte_by_byte,
    once,
    playing,
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
        outcomes = [pusher.answer(server.url) for _ in range(2)]

        assert [(each.status, each.body) for each in outcomes] == [(200, body)] * 2
        assert server.connections == 2


def test_a_reset_while_the_body_is_read_changes_nothing(pusher: HttpPusher) -> None:
    part = b"HTTP/1.1 202 Accepted\r\nContent-Length: 100\r\n\r\npart"
    with Server(playing(READ, part, 0.2, RESET)) as server:
        answered = pusher.answer(server.url)

        assert (answered.status, answered.body) == (202, b"part")


def test_a_dribbling_body_is_left_after_a_while(
    pusher: HttpPusher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "_BODY_SECONDS", 0.5)
    head = b"HTTP/1.1 201 Created\r\nContent-Length: 1000\r\n\r\n"
    with Server(playing(READ, head, byte_by_byte(b"x" * 1000))) as server:
        begun = monotonic()
        answered = pusher.answer(server.url)
        taken = monotonic() - begun

        assert answered.status == 201
        assert answered.body.strip(b"x") == b""
        assert len(answered.body) < 1000  # which would take 50 seconds
        assert taken >= answered.seconds + 0.5  # the body's time is not the endpoint's


def without_an_end(head: bytes, part: bytes) -> Script:
    """Read the request, send *head*, and *part* for ever."""

    def script(peer: Peer) -> None:
        peer.read()
        peer.send(head)
        while True:
            peer.send(part)

    return script


@pytest.mark.parametrize(
    ("head", "part", "least", "most"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 9999, LIMIT, LIMIT),
        (CHUNKED, b"1;" + b"e" * 500 + b"\r\nx\r\n", 1, 1000),
    ],
    ids=["endless", "a flood of tiny chunks"],
)
def test_a_body_without_an_end_is_cut_off(
    pusher: HttpPusher, head: bytes, part: bytes, least: int, most: int
) -> None:
    with Server(without_an_end(head, part)) as server:
        assert least <= len(pusher.answer(server.url).body) <= most


def test_redirects_are_answers(pusher: HttpPusher) -> None:
    with Server(always(OK)) as elsewhere:
        moved = b"HTTP/1.1 307 Moved\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n"
        with Server(always(moved % elsewhere.url.encode())) as server:
            answered = pusher.answer(server.url)

        assert answered.status == 307
        assert elsewhere.connections == 0


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
def test_a_head_that_is_cut_off_is_no_answer_but_its_status_is_known_and_nothing_is_repeated(
    pusher: HttpPusher, sent: bytes, status: int, end: list[Any]
) -> None:
    with Server(playing(READ, sent, *end)) as server:
        none = pusher.unanswered(server.url)

        assert server.connections == 1
    assert (none.failure, none.status) == (Failure.SOCKET, status)
