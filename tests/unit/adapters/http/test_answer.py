"""Response heads: whatever arrives is a head or refused, and nothing else happens."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.adapters.http.answer import Head, parse_head
from shared.adapters.http.connection import NoAnswer
from shared.http import Failure

_HEAD_BYTES = st.lists(
    st.sampled_from([b"HTTP/1.1 200 OK", b"\r\n", b"\n", b"\r", b": ", b"a", b" ", b"\0", b"\xff"])
).map(b"".join)


@given(block=st.binary() | _HEAD_BYTES)
def test_any_bytes_are_a_head_or_malformed(block: bytes) -> None:
    try:
        head = parse_head(block + b"\r\n\r\n")
    except NoAnswer as refused:
        failure = refused.failure
    else:
        assert 100 <= head.status <= 999
        return

    assert failure is Failure.MALFORMED


@given(
    headers=st.dictionaries(
        st.text("abcdefghijklmnopqrstuvwxyz-", min_size=1),
        st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E)),
        max_size=100,
    ).filter(lambda headers: "connection" not in headers)
)
def test_what_was_written_is_read(headers: dict[str, str]) -> None:
    lines = "".join(f"{name.upper()}:  {value} \r\n" for name, value in headers.items())

    head = parse_head(f"HTTP/1.1 204 No Content\r\n{lines}\r\n".encode())

    assert head == Head(204, headers, stays_open=True)


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
    assert Head(200, {"keep-alive": value}, stays_open=True).keep_for == seconds
