"""Answers: whatever arrives, in whatever pieces, is read or refused, and nothing else happens."""

from __future__ import annotations

import gzip
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.adapters.http.answer_reader import MAX_HEAD, AnswerReader
from shared.adapters.http.no_answer import NoAnswer
from shared.http import MAX_ANSWER, Failure
from tests.fuzz.answers import DIFFERENCES, compare, main

_PARTS = [b"HTTP/1.1 200 OK", b"HTTP/1.1 100 Continue", b"HTTP/1.0 503 Busy", b"\r\n", b"\n", b"\r"]
_PARTS += [b"Content-Length: 2", b"Transfer-Encoding: chunked", b"Connection: close", b"ok", b"0"]
_PARTS += [b": ", b"a", b" ", b"\0", b"\xff"]
LENGTH = b"Content-Length: %d\r\n\r\n%s"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n"
_BYTES = st.binary() | st.lists(st.sampled_from(_PARTS)).map(b"".join)
FRAMING = {"connection", "proxy-connection", "content-length", "transfer-encoding", "upgrade"}
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
EMPTY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
CODED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: %s\r\n\r\n"
IN_CHUNKS = CODED % b"chunked"
GZIP = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n"
PACKED = gzip.compress(bytes(10_000_000))
_CUTS = st.lists(st.integers(1, 12), max_size=40)


class Read(NamedTuple):
    """What was read, or why not."""

    failure: Failure | None
    status: int
    headers: dict[str, str]
    body: bytes
    is_over: bool
    is_reusable: bool


def read(data: bytes, cuts: list[int] | None = None) -> Read:
    """Read *data* in pieces of these lengths, and what is left in one."""
    answer, failure = AnswerReader(), None
    try:
        for size in [*(cuts or []), len(data)]:
            if data and not answer.is_over:
                answer.feed(data[:size])
            data = data[size:]
    except NoAnswer as refused:
        failure = refused.failure
    return Read(
        failure,
        answer.status,
        answer.headers,
        bytes(answer.body),
        answer.is_over,
        answer.is_reusable,
    )


@given(data=_BYTES | _BYTES.map(b"HTTP/1.1 200 OK\r\n".__add__))
def test_any_bytes_are_an_answer_or_malformed(data: bytes) -> None:
    result = read(data)

    assert result.failure in {None, Failure.MALFORMED}
    assert result.status == 0 or 200 <= result.status <= 999
    assert not (result.failure and (result.status or result.is_reusable))
    assert result.is_over or not result.is_reusable


@given(data=_BYTES.map(b"HTTP/1.1 200 OK\r\n".__add__), cuts=_CUTS)
def test_pieces_make_no_difference(data: bytes, cuts: list[int]) -> None:
    """
    But for what comes after the end: nobody looks for a second answer, once the first has ended.

    And of the last header before a fault llhttp tells only if something came after it.
    """
    whole, pieces = read(data, []), read(data, cuts)

    assert pieces._replace(headers={}, is_reusable=False) == whole._replace(
        headers={}, is_reusable=False
    )
    assert pieces.is_reusable >= whole.is_reusable
    assert whole.headers.keys() <= pieces.headers.keys()
    assert whole.headers == pieces.headers or not whole.is_reusable


@given(
    headers=st.dictionaries(
        st.text("abcdefghijklmnopqrstuvwxyz-", min_size=1),
        st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E)),
        max_size=200,
    ).filter(lambda headers: not headers.keys() & FRAMING)
)
def test_what_was_written_is_read(headers: dict[str, str]) -> None:
    lines = "".join(f"{name.upper()}:  {value} \r\n" for name, value in headers.items())

    result = read(f"HTTP/1.1 204 No Content\r\n{lines}\r\n".encode())

    assert result == Read(None, 204, headers, b"", is_over=True, is_reusable=True)


def many(count: int) -> bytes:
    """Return an answer with so many headers."""
    headers = b"".join(b"X-%d: y\r\n" % number for number in range(count - 1))
    return EMPTY[:-2] + headers + b"\r\n"


def empty(*lines: bytes) -> bytes:
    """Return a response without a body and with these header lines before its length."""
    return (
        b"HTTP/1.1 200 OK\r\n"
        + b"".join(b"%s\r\n" % line for line in lines)
        + b"Content-Length: 0\r\n\r\n"
    )


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
        (IN_CHUNKS + b"2\r\nok\r\n0\r\n\r\n", 200, b"ok"),
        (IN_CHUNKS + b"1;x=y\r\no\r\n01\r\nk\r\n0\r\nTrailer: t\r\n\r\n", 200, b"ok"),
        (
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + OK,
            200,
            b"ok",
        ),
        (b"HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n", 205, b""),
        (CODED % b"gzip, chunked" + b"2\r\nok\r\n0\r\n\r\n", 200, b"ok"),
        (IN_CHUNKS + b"2  \r\nok\r\n0\r\n\r\n", 200, b"ok"),
        (many(1000), 200, b""),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % MAX_ANSWER + b"x" * MAX_ANSWER,
            200,
            b"x" * MAX_ANSWER,
        ),
        (GZIP % len(PACKED) + PACKED, 200, PACKED),  # it is not inflated
    ],
    ids=range(16),
)
def test_an_answer_is_complete_at_its_end(answer: bytes, status: int, body: bytes) -> None:
    result = read(answer)

    assert result == Read(None, status, result.headers, body, is_over=True, is_reusable=True)


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (b"HTTP/1.0 200 OK\r\n\r\nold", b"old"),
        (b"HTTP/1.1 200 OK\r\n\r\nno length", b"no length"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort", b"short"),
        (CODED % b"gzip", b""),
        (CODED % b"chunked, gzip" + b"2\r\nok\r\n0\r\n\r\n", b"2\r\nok\r\n0\r\n\r\n"),
        (IN_CHUNKS + b"2\r\nok\r\nnonsense\r\n", b"ok"),
        (IN_CHUNKS + b"2\r\nokay\r\n0\r\n\r\n", b"ok"),
        (IN_CHUNKS + b"-1\r\nx", b""),
        (IN_CHUNKS + b"5\r\nok", b"ok"),
        (IN_CHUNKS + b"f" * 5000, b""),
        (IN_CHUNKS, b""),
    ],
)
def test_a_broken_or_unended_body_changes_nothing(answer: bytes, body: bytes) -> None:
    result = read(answer)

    assert (result.failure, result.status, result.body) == (None, 200, body)
    assert not result.is_reusable


NOT_HTTP = {
    "endless informational responses": b"HTTP/1.1 102 Processing\r\n\r\n" * 10_000,
    "a fault in an informational response": b"HTTP/1.1 102 Processing\r\nbad name: x\r\n",
    "HTTP/0.9": b"<html>hello</html>",
    "no status line": b"hello\r\n\r\n",
    "HTTP/2": b"HTTP/2 200\r\n\r\n",
    "HTTP/2.0": b"HTTP/2.0 200 OK\r\n\r\n",
    "RTSP": b"RTSP/1.0 200 OK\r\n\r\n",
    "two digits": b"HTTP/1.1 20 OK\r\n\r\n",
    "four digits": b"HTTP/1.1 2000 OK\r\n\r\n",
    "below 100": b"HTTP/1.1 099 OK\r\n\r\n",
    "no digits": b"HTTP/1.1 abc OK\r\n\r\n",
    "another protocol": b"ICY 200 OK\r\n\r\n",
    "binary": b"\x16\x03\x01\x02\x00\x01",
    "101": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n" + OK,
}


@pytest.mark.parametrize("data", NOT_HTTP.values(), ids=NOT_HTTP)
def test_what_is_not_http_is_malformed(data: bytes) -> None:
    assert read(data).failure is Failure.MALFORMED


FAULTS = {
    # in the head
    "a line without colon": empty(b"no colon"),
    "a name with a space": empty(b"bad name: x"),
    "a name with a space at its end": empty(b"name : x"),
    "a folded line": empty(b"x: y", b" z"),
    "folded from nothing": empty(b" folded: nothing"),
    "NUL": empty(b"x: a\0b"),
    "a lone CR": empty(b"x: a\rb"),
    "a lone CR in the reason": b"HTTP/1.1 200 O\rK\r\n" + b"Content-Length: 0\r\n\r\n",
    "two lengths": empty(b"Content-Length: 1"),
    "a list of lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 0, 0\r\n\r\n",
    "a negative length": b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nab",
    "a huge length": b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\nab",
    "a header too large": empty(b"X: " + b"y" * 70_000),
    "10 000 headers": many(10_000),
    # in the framing
    "a chunk size ending in a bare LF": IN_CHUNKS + b"2\nok\r\n0\r\n\r\n",
    "a chunk ending in a bare LF": IN_CHUNKS + b"2\r\nok\n0\r\n\r\n",
    "a chunk size ending in a lone CR": IN_CHUNKS + b"2\rok\r\n0\r\n\r\n",
    "a chunk without an end": IN_CHUNKS + b"2\r\nok0\r\n\r\n",
    "a chunk with an odd end": IN_CHUNKS + b"2\r\nok\r\r\n0\r\n\r\n",
    "the last chunk ending in a bare LF": IN_CHUNKS + b"2\r\nok\r\n0\r\n\n",
    "a trailer with a bare LF": IN_CHUNKS + b"2\r\nok\r\n0\r\nT: x\n\r\n",
    "chunked twice": CODED % b"chunked, chunked" + b"2\r\nok\r\n0\r\n\r\n",
    "chunked in HTTP/1.0": (IN_CHUNKS + b"2\r\nok\r\n0\r\n\r\n").replace(
        b"1.1 200 OK\r\n", b"1.0 200 OK\r\nConnection: keep-alive\r\n"
    ),
    "identity and a length": CODED % b"identity\r\nContent-Length: 2" + b"ok",
    "identity and no content": CODED % b"identity\r\nContent-Length: 0",
    "a coding beside 204": (IN_CHUNKS + b"0\r\n\r\n").replace(b"200 OK", b"204 No Content"),
    "205 without a length": b"HTTP/1.1 205 Reset Content\r\n\r\n",
}


@pytest.mark.parametrize("answer", FAULTS.values(), ids=FAULTS)
def test_a_fault_after_the_status_line_costs_the_connection_only(answer: bytes) -> None:
    """Nobody waits for more of the body than there is."""
    result = read(answer)

    assert (result.failure, result.status) == (None, int(answer[9:12]))
    assert (result.is_over, result.is_reusable) == (True, False)


def test_headers_are_lower_case_and_joined_and_of_the_final_response_alone() -> None:
    early = b"HTTP/1.1 103 Early Hints\r\nX: early\r\n\r\n"
    lines = b"RETRY-After:  7 \r\nX: a\r\nx: b\r\nNone:\r\n"

    found = read(early + b"HTTP/1.1 204 No Content\r\n" + lines + b"\r\n").headers

    assert found == {"retry-after": "7", "x": "a, b", "none": ""}


def test_headers_before_a_fault_are_read() -> None:
    found = read(b"HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nX: y\r\nbad name: z\r\n\r\n")

    assert (found.status, found.headers) == (503, {"retry-after": "7"})


@pytest.mark.parametrize("status", [b"204 No Content", b"200 OK"])
@pytest.mark.parametrize(
    ("other", "is_doubtful"),
    [
        (b"", False),
        (b"Content-Length: 0\r\n", True),
        (b"Transfer-Encoding: x\r\n", False),
        (b"Transfer-Encoding: chunked\r\n", True),
    ],
)
def test_no_connection_is_kept_after_a_doubtful_coding(
    status: bytes, other: bytes, *, is_doubtful: bool
) -> None:
    """A body after 204, or another length than its own, would be taken for the next answer."""
    head = b"HTTP/1.1 %s\r\n%sTransfer-Encoding: chunked\r\n\r\n" % (status, other)
    body = b"" if status.startswith(b"204") else b"0\r\n\r\n"

    result = read(head + body)

    assert (result.failure, result.is_over) == (None, True)
    assert result.is_reusable == (status == b"200 OK" and not is_doubtful)


@pytest.mark.parametrize("cuts", [None, [16 * 1024] * 5, [1] * 100])
@pytest.mark.parametrize("size", [MAX_HEAD, MAX_HEAD + 1])
def test_a_head_has_at_most_64_kib(size: int, cuts: list[int] | None) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: %s\r\n\r\n"
    head %= b"x" * (size - len(head) + 2)

    result = read(head + b"ok", cuts)

    assert (result.status, result.is_over) == (200, True)
    assert (result.body, result.is_reusable) == (
        (b"ok", True) if size == MAX_HEAD else (b"", False)
    )


@pytest.mark.parametrize("cuts", [None, [16 * 1024] * 5])
@pytest.mark.parametrize("size", [MAX_ANSWER, MAX_ANSWER + 1])
@pytest.mark.parametrize("framing", [LENGTH, CHUNKED])
def test_a_body_has_at_most_64_kib(framing: bytes, size: int, cuts: list[int] | None) -> None:
    result = read(b"HTTP/1.1 200 OK\r\n" + framing % (size, b"x" * size), cuts)

    assert result.body == b"x" * MAX_ANSWER
    assert (result.is_over, result.is_reusable) == (True, size == MAX_ANSWER)


@pytest.mark.parametrize(
    ("answer", "is_reusable"),
    [
        (b"HTTP/1.1 200 OK\r\nConnection: x, CLOSE\r\nContent-Length: 0\r\n\r\n", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", False),
        (b"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 0\r\n\r\n", True),
        (EMPTY + b"HTTP/1.1 500 Stray\r\n\r\n", False),
        (IN_CHUNKS + b"1\r\naa\r\n0\r\n\r\n", False),
    ],
)
def test_what_the_peer_says_about_keeping_is_honoured(answer: bytes, *, is_reusable: bool) -> None:
    assert read(answer).is_reusable is is_reusable


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("timeout=5, max=1000", 5.0),
        ("max=5, timeout = 7", 7.0),
        ("timeout=0", 0.0),
        ("timeout=soon", None),
        ("", None),
    ],
)
def test_how_long_the_peer_keeps_a_connection(value: str, seconds: float | None) -> None:
    answer = AnswerReader()
    answer.feed(f"HTTP/1.1 200 OK\r\nKeep-Alive: {value}\r\n\r\n".encode())

    assert answer.keep_for == seconds


@given(seed=st.integers(0, 2**32))
def test_answers_are_read_as_h11_reads_them(seed: int) -> None:
    """A client with a grammar of its own. `python -m tests.fuzz.answers` tries many more."""
    _, unlisted = compare(Random(seed), 50)

    assert unlisted == []


@pytest.mark.slow
def test_every_listed_difference_occurs_and_no_other() -> None:
    found, unlisted = compare(Random(1), 20_000)

    assert found.keys() >= DIFFERENCES.keys()
    assert unlisted == []


def test_a_reader_that_keeps_too_much_is_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    end = AnswerReader.on_message_complete

    def keeping(answer: AnswerReader) -> None:
        answer._keeps = True
        end(answer)

    monkeypatch.setattr(AnswerReader, "on_message_complete", keeping)

    assert main(["--count", "1000"]) == 1
    assert "is_reusable=True" in capsys.readouterr().out
