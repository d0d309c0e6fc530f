"""What counts as an answer, and that its body decides nothing."""

from __future__ import annotations

import gzip
from time import monotonic
from typing import Any

import pytest

from shared.adapters.http import http_pusher as sender
from shared.http import Failure
from tests.integration.push.on_loop import HttpPusher
from tests.integration.push.scripted import (
    EMPTY,
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

LIMIT = 64 * 1024
LENGTH = b"Content-Length: 0\r\n\r\n"
CODED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: %s\r\n\r\n"
CHUNKED = CODED % b"chunked"
GZIP = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n"
PACKED = gzip.compress(bytes(10_000_000))


def many(count: int) -> bytes:
    """Return an answer with so many headers."""
    headers = b"".join(b"X-%d: y\r\n" % number for number in range(count - 1))
    return EMPTY[:-2] + headers + b"\r\n"


def empty(*lines: bytes) -> bytes:
    """Return a response without a body and with these header lines before its length."""
    return b"HTTP/1.1 200 OK\r\n" + b"".join(b"%s\r\n" % line for line in lines) + LENGTH


@pytest.mark.parametrize(
    ("answer", "status", "body"),
    [
        (OK, 200, b"ok"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", 304, b""),
        (b"HTTP/1.1 202\r\nContent-Length: 0\r\n\r\n", 202, b""),
        (b"HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n", 503, b""),
        (b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok", 200, b"ok"),
        (b"HTTP/1.1 999 \r\nContent-Length: 0\r\n\r\n", 999, b""),
        (CHUNKED + b"2\r\nok\r\n0\r\n\r\n", 200, b"ok"),
        (CHUNKED + b"1;x=y\r\no\r\n01\r\nk\r\n0\r\nTrailer: t\r\n\r\n", 200, b"ok"),
        (
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + OK,
            200,
            b"ok",
        ),
        (b"HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n", 205, b""),
        (CODED % b"gzip, chunked" + b"2\r\nok\r\n0\r\n\r\n", 200, b"ok"),
        (CHUNKED + b"2  \r\nok\r\n0\r\n\r\n", 200, b"ok"),
        (many(1000), 200, b""),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % LIMIT + b"x" * LIMIT,
            200,
            b"x" * LIMIT,
        ),
        (GZIP % len(PACKED) + PACKED, 200, PACKED),  # it is not inflated
    ],
    ids=range(16),
)
def test_an_answer_is_complete_at_its_end(
    pusher: HttpPusher, answer: bytes, status: int, body: bytes
) -> None:
    with Server(always(answer)) as server:
        first = answer_of(push(pusher, server.url))
        second = push(pusher, server.url)

        assert (first.status, first.body) == (status, body)
        assert second[:3] == first[:3]
        assert server.connections == 1  # a body that is waited for costs its connection


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (b"HTTP/1.0 200 OK\r\n\r\nold", b"old"),
        (b"HTTP/1.1 200 OK\r\n\r\nno length", b"no length"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort", b"short"),
        (CODED % b"gzip", b""),
        (CODED % b"chunked, gzip" + b"2\r\nok\r\n0\r\n\r\n", b"2\r\nok\r\n0\r\n\r\n"),
        (CHUNKED + b"2\r\nok\r\nnonsense\r\n", b"ok"),
        (CHUNKED + b"2\r\nokay\r\n0\r\n\r\n", b"ok"),
        (CHUNKED + b"-1\r\nx", b""),
        (CHUNKED + b"5\r\nok", b"ok"),
        (CHUNKED + b"f" * 5000, b""),
        (CHUNKED, b""),
    ],
)
def test_a_broken_or_unended_body_changes_nothing(
    pusher: HttpPusher, answer: bytes, body: bytes
) -> None:
    with Server(once(answer)) as server:
        first = answer_of(push(pusher, server.url))
        second = push(pusher, server.url)

        assert (first.status, first.body) == (200, body)
        assert second[:3] == first[:3]
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


def test_headers_are_lower_case_and_joined(pusher: HttpPusher) -> None:
    answer = (
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nRETRY-After:  7 \r\nX: a\r\nx: b\r\nNone:\r\n\r\n"
    )
    with Server(always(answer)) as server:
        answered = answer_of(push(pusher, server.url))

        assert answered.headers == {
            "content-length": "0",
            "retry-after": "7",
            "x": "a, b",
            "none": "",
        }


NOT_HTTP: dict[str, Script] = {
    "endless informational responses": without_an_end(
        b"", b"HTTP/1.1 102 Processing\r\n\r\n" * 100
    ),
    "a fault in an informational response": once(b"HTTP/1.1 102 Processing\r\nbad name: x\r\n"),
    "HTTP/0.9": once(b"<html>hello</html>"),
    "no status line": once(b"hello\r\n\r\n"),
    "HTTP/2": once(b"HTTP/2 200\r\n\r\n"),
    "HTTP/2.0": once(b"HTTP/2.0 200 OK\r\n\r\n"),
    "RTSP": once(b"RTSP/1.0 200 OK\r\n\r\n"),
    "two digits": once(b"HTTP/1.1 20 OK\r\n\r\n"),
    "four digits": once(b"HTTP/1.1 2000 OK\r\n\r\n"),
    "below 100": once(b"HTTP/1.1 099 OK\r\n\r\n"),
    "no digits": once(b"HTTP/1.1 abc OK\r\n\r\n"),
    "another protocol": once(b"ICY 200 OK\r\n\r\n"),
    "binary": once(b"\x16\x03\x01\x02\x00\x01"),
    "101": once(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n" + OK),
}


@pytest.mark.parametrize("script", NOT_HTTP.values(), ids=NOT_HTTP.keys())
def test_what_is_not_http_is_malformed(pusher: HttpPusher, script: Script) -> None:
    with Server(script) as server:
        assert failure_of(push(pusher, server.url)) is Failure.MALFORMED
        assert server.connections == 1


IN_THE_HEAD = {
    "a line without colon": empty(b"no colon"),
    "a name with a space": empty(b"bad name: x"),
    "a name with a space at its end": empty(b"name : x"),
    "a folded line": empty(b"x: y", b" z"),
    "folded from nothing": empty(b" folded: nothing"),
    "NUL": empty(b"x: a\0b"),
    "a lone CR": empty(b"x: a\rb"),
    "a lone CR in the reason": b"HTTP/1.1 200 O\rK\r\n" + LENGTH,
    "two lengths": empty(b"Content-Length: 1"),
    "a list of lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 0, 0\r\n\r\n",
    "a negative length": b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nab",
    "a huge length": b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\nab",
    "a header too large": empty(b"X: " + b"y" * 70_000),
    "10 000 headers": many(10_000),
}
IN_THE_FRAMING = {
    "a chunk size ending in a bare LF": CHUNKED + b"2\nok\r\n0\r\n\r\n",
    "a chunk ending in a bare LF": CHUNKED + b"2\r\nok\n0\r\n\r\n",
    "a chunk size ending in a lone CR": CHUNKED + b"2\rok\r\n0\r\n\r\n",
    "a chunk without an end": CHUNKED + b"2\r\nok0\r\n\r\n",
    "a chunk with an odd end": CHUNKED + b"2\r\nok\r\r\n0\r\n\r\n",
    "the last chunk ending in a bare LF": CHUNKED + b"2\r\nok\r\n0\r\n\n",
    "a trailer with a bare LF": CHUNKED + b"2\r\nok\r\n0\r\nT: x\n\r\n",
    "chunked twice": CODED % b"chunked, chunked" + b"2\r\nok\r\n0\r\n\r\n",
    "chunked in HTTP/1.0": (CHUNKED + b"2\r\nok\r\n0\r\n\r\n").replace(
        b"1.1 200 OK\r\n", b"1.0 200 OK\r\nConnection: keep-alive\r\n"
    ),
    "identity and a length": CODED % b"identity\r\nContent-Length: 2" + b"ok",
    "identity and no content": CODED % b"identity\r\nContent-Length: 0",
    "a coding beside 204": (CHUNKED + b"0\r\n\r\n").replace(b"200 OK", b"204 No Content"),
    "205 without a length": b"HTTP/1.1 205 Reset Content\r\n\r\n",
}


@pytest.fixture
def endless_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits for more of a body than there is waits for ever."""
    monkeypatch.setattr(sender, "_BODY_SECONDS", 1e6)


@pytest.mark.usefixtures("endless_patience")
@pytest.mark.parametrize("answer", IN_THE_HEAD.values(), ids=IN_THE_HEAD.keys())
def test_a_fault_after_the_status_line_costs_the_connection_only(
    pusher: HttpPusher, answer: bytes
) -> None:
    with Server(always(answer)) as server:
        outcomes = [answer_of(push(pusher, server.url)) for _ in range(2)]

        assert [each.status for each in outcomes] == [200, 200]
        assert server.connections == 2


@pytest.mark.usefixtures("endless_patience")
@pytest.mark.parametrize("answer", IN_THE_FRAMING.values(), ids=IN_THE_FRAMING.keys())
def test_doubtful_framing_costs_the_connection_only(pusher: HttpPusher, answer: bytes) -> None:
    with Server(always(answer)) as server:
        outcomes = [answer_of(push(pusher, server.url)) for _ in range(2)]

        assert [each.status for each in outcomes] == [int(answer[9:12])] * 2
        assert server.connections == 2


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
        answered = answer_of(push(pusher, server.url))

        assert (answered.status, answered.headers) == (503, {"retry-after": "7"})


def test_an_answer_may_come_in_single_bytes(pusher: HttpPusher) -> None:
    answer = b"HTTP/1.1 100 Continue\r\n\r\n" + CHUNKED + b"2\r\nok\r\n0\r\n\r\n"
    dribble = byte_by_byte(answer, 0.001)
    with Server(playing(READ, dribble, READ, dribble, READ)) as server:
        for _ in range(2):
            answered = answer_of(push(pusher, server.url))

            assert (answered.status, answered.body) == (200, b"ok")
        assert server.connections == 1
