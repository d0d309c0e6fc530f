"""Answers: whatever arrives, in whatever pieces, is read or refused, and nothing else happens."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.adapters.http.answer_reader import MAX_BODY, MAX_HEAD, AnswerReader
from shared.adapters.http.no_answer import NoAnswer
from shared.http import Failure

_PARTS = [b"HTTP/1.1 200 OK", b"HTTP/1.1 100 Continue", b"HTTP/1.0 503 Busy", b"\r\n", b"\n", b"\r"]
_PARTS += [b"Content-Length: 2", b"Transfer-Encoding: chunked", b"Connection: close", b"ok", b"0"]
_PARTS += [b": ", b"a", b" ", b"\0", b"\xff"]
LENGTH = b"Content-Length: %d\r\n\r\n%s"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n"
_BYTES = st.binary() | st.lists(st.sampled_from(_PARTS)).map(b"".join)
FRAMING = {"connection", "proxy-connection", "content-length", "transfer-encoding", "upgrade"}
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
@pytest.mark.parametrize("size", [MAX_BODY, MAX_BODY + 1])
@pytest.mark.parametrize("framing", [LENGTH, CHUNKED])
def test_a_body_has_at_most_64_kib(framing: bytes, size: int, cuts: list[int] | None) -> None:
    result = read(b"HTTP/1.1 200 OK\r\n" + framing % (size, b"x" * size), cuts)

    assert result.body == b"x" * MAX_BODY
    assert (result.is_over, result.is_reusable) == (True, size == MAX_BODY)


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
