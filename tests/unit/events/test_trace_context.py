"""Trace contexts by the table of W3C's own test suite."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.events.trace_context import MAX_STATE, TraceContext, trace_context, trace_of_event

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"


def read(parent: object, state: object = None) -> TraceContext | None:
    return trace_context({"traceparent": parent, "tracestate": state})


def state_of(text: object) -> str:
    found = read(PARENT, text)
    assert found
    assert found.parent == PARENT
    return found.state


@pytest.mark.parametrize(
    ("parent", "seen"),
    [
        (PARENT, PARENT),
        (f"00-{TRACE}-{SPAN}-00", f"00-{TRACE}-{SPAN}-00"),
        (f"00-{TRACE}-{SPAN}-03", f"00-{TRACE}-{SPAN}-03"),
        # Reserved flags are sent as 0; a later version is read as far as it is known.
        (f"00-{TRACE}-{SPAN}-ff", f"00-{TRACE}-{SPAN}-03"),
        (f"cc-{TRACE}-{SPAN}-01", PARENT),
        (f"cc-{TRACE}-{SPAN}-01-what-the-future-will-be-like", PARENT),
        (f"01-{TRACE}-{SPAN}-04-", f"00-{TRACE}-{SPAN}-00"),
    ],
)
def test_a_valid_parent_is_read_in_the_version_that_is_known(parent: str, seen: str) -> None:
    assert read(parent) == TraceContext(seen)


@pytest.mark.parametrize(
    "parent",
    [
        "",
        None,
        7,
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE}-{SPAN}-01-",
        f"00-{TRACE}-{SPAN}-01-what-the-future-will-be-like",
        f"cc-{TRACE}-{SPAN}-01.what-the-future-will-be-like",
        f"cc-{TRACE}-{SPAN}-0123",
        f"ff-{TRACE}-{SPAN}-01",
        f"0-{TRACE}-{SPAN}-01",
        f"000-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE[1:]}-{SPAN}-01",
        f"00-{TRACE}0-{SPAN}-01",
        f"00-.{TRACE[1:]}-{SPAN}-01",
        f"00-{TRACE}-{SPAN[1:]}-01",
        f"00-{TRACE}-{SPAN}0-01",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"CC-{TRACE}-{SPAN}-01",
        f" {PARENT}",
        f"{PARENT}\n",
        f"00_{TRACE}_{SPAN}_01",
        f"00-{chr(0x661) * 32}-{SPAN}-01",
    ],
)
def test_an_invalid_parent_is_ignored_with_its_state(parent: object) -> None:
    assert read(parent, "a=1") is None


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("foo=1", "foo=1"),
        ("foo=1,bar=2", "foo=1,bar=2"),
        ("foo=1 \t , \t bar=2, \t baz=3", "foo=1,bar=2,baz=3"),
        ("foo=1,,,bar=2,", "foo=1,bar=2"),
        ("foo=1,foo=2", "foo=1,foo=2"),  # W3C leaves it open; unchanged is the safest
        ("z0*_-/1=a b", "z0*_-/1=a b"),
        ("0tenant@system=1", "0tenant@system=1"),
        (f"{'z' * 256}=1", f"{'z' * 256}=1"),
        (f"{'t' * 241}@{'v' * 14}=1", f"{'t' * 241}@{'v' * 14}=1"),
        ("foo=!\"#$%&'()*+-./:;<>?@[\\]^_`{|}~", "foo=!\"#$%&'()*+-./:;<>?@[\\]^_`{|}~"),
        (",".join(f"k{n}=1" for n in range(32)), ",".join(f"k{n}=1" for n in range(32))),
    ],
)
def test_a_state_is_kept(text: str, seen: str) -> None:
    assert state_of(text) == seen


@pytest.mark.parametrize(
    "text",
    [
        "",
        ",",
        None,
        7,
        "foo",
        "foo=",
        "=1",
        "foo =1",
        "FOO=1",
        "foo@=1,bar=2",
        "foo@bar@baz=1,bar=2",
        "foo@0bar=1",
        f"{'z' * 257}=1",
        f"{'t' * 242}@v=1",
        f"t@{'v' * 15}=1",
        "foo=bar=baz",
        "foo=1\t2",
        "foo=1\r\nx-evil: 1",
        "foo=\u00e9",
        f"foo={'v' * 257}",
        ",".join(f"k{n}=1" for n in range(33)),
    ],
)
def test_a_malformed_state_is_left_out(text: object) -> None:
    assert state_of(text) == ""


def test_a_state_that_is_too_long_loses_its_long_members_and_then_its_last() -> None:
    long, members = f"l={'v' * 200}", [f"k{n}={'v' * 40}" for n in range(16)]

    kept = state_of(",".join([*members[:3], long, *members[3:]])).split(",")

    assert kept == members[: len(kept)]
    assert len(",".join(kept)) <= MAX_STATE < len(",".join([*kept, members[0]]))
    assert state_of(",".join([long, *members[:3]])) == ",".join([long, *members[:3]])


@given(st.text() | st.just(PARENT), st.text() | st.from_regex(r"\A([a-z]+=[ -~]*,?)*\Z"))
def test_whatever_is_read_can_be_sent_and_read_again(parent: str, state: str) -> None:
    if found := read(parent, state):
        headers = found.headers("f" * 16)

        assert all(each.isascii() and each.isprintable() for each in headers.values())
        assert headers["traceparent"] == f"00-{found.trace_id}-{'f' * 16}-{found.parent[-2:]}"
        assert headers.get("tracestate", "") == found.state
        assert trace_context({"traceparent": found.parent, "tracestate": found.state}) == found


def test_an_event_names_its_trace_in_its_attributes_only() -> None:
    named = {"traceparent": PARENT, "tracestate": "a=1"}

    assert trace_of_event(json.dumps(named)) == TraceContext(PARENT, "a=1")
    for value in ({"data": named}, {"data": '"traceparent"'}, [named], {}, "traceparent", "x"):
        assert trace_of_event(json.dumps(value)) is None
    assert trace_of_event('{"traceparent":') is None
