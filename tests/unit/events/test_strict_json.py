"""What is JSON for us, and what is refused before it can do harm."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.events import strict_json
from tests.unit.events.publishing import bad_json, refusal

_RANGE = "The JSON received has a number that is out of range."
_DEEP = "The JSON received is nested deeper than 64 levels."
_END = "Unexpected end when reading JSON."
_HALF = "The JSON received has half of a surrogate pair."
_UTF8 = "The JSON received is not valid UTF-8."


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(b"", _END, id="empty"),
        pytest.param(b" \r\n\t", _END, id="only blanks"),
        pytest.param(b"\xef\xbb\xbf", _END, id="only a byte order mark"),
        pytest.param(b'[{"id":', _END, id="cut off before a value"),
        pytest.param(b"[1 ", _END, id="cut off in an array"),
        pytest.param(b'["a', _END, id="cut off in a string"),
        pytest.param(
            b"[1 2]",
            "The JSON received is malformed: Expecting ',' delimiter, line 1, position 4.",
            id="no comma",
        ),
        pytest.param(
            b"{'a':1}",
            "The JSON received is malformed: Expecting property name enclosed in double quotes,"
            " line 1, position 2.",
            id="single quotes",
        ),
        pytest.param(
            b"[]\n[]",
            "The JSON received is malformed: Extra data, line 2, position 1.",
            id="two documents",
        ),
        pytest.param(
            b'["\n"]',
            "The JSON received is malformed: Invalid control character at, line 1, position 3.",
            id="line feed in a string",
        ),
        pytest.param(b'["\xff"]', _UTF8, id="no UTF-8"),
        pytest.param(b'["\xed\xa0\x80"]', _UTF8, id="surrogate as UTF-8"),
        pytest.param("[]".encode("utf-16"), _UTF8, id="UTF-16"),
        pytest.param(b"[NaN]", "The JSON received has a number that is not JSON: NaN.", id="NaN"),
        pytest.param(
            b"[-Infinity]",
            "The JSON received has a number that is not JSON: -Infinity.",
            id="infinity",
        ),
        pytest.param(b"[1e400]", _RANGE, id="beyond a double"),
        pytest.param(b"[-1.0E+309]", _RANGE, id="beyond a negative double"),
        pytest.param(b"[1e-400]", _RANGE, id="too small for a double"),
        pytest.param(b"9" * 1001, _RANGE, id="1001 digits"),
        pytest.param(b"9" * 1_500_000, _RANGE, id="a million digits"),
        pytest.param(b'["\\ud800"]', _HALF, id="first half"),
        pytest.param(b'["\\uDC00"]', _HALF, id="second half"),
        pytest.param(b'["\\udc00\\ud800"]', _HALF, id="halves the wrong way round"),
        pytest.param(b'["\\ud83d\\ud83d\\ude00"]', _HALF, id="first half twice"),
        pytest.param(b'["\\ud83d\\ude00\\ude00"]', _HALF, id="second half twice"),
        pytest.param(b'["\\ud83d\\\\\\ude00"]', _HALF, id="backslash between the halves"),
        pytest.param(b'["\\\\ud83d\\ude00"]', _HALF, id="second half after an escaped backslash"),
        pytest.param(b'{"\\ud800":1}', _HALF, id="in a name"),
        pytest.param(b"[" * 65 + b"]" * 65, _DEEP, id="65 arrays"),
        pytest.param(b'{"a":' * 65 + b"1" + b"}" * 65, _DEEP, id="65 objects"),
        pytest.param(b"[" * 64 + b'"]\\"]",[]' + b"]" * 64, _DEEP, id="brackets in a string"),
        pytest.param(b"[" * 1_500_000, _DEEP, id="a million arrays"),
    ],
)
def test_bad_json_is_refused(body, message):
    assert refusal(strict_json.parse, body) == bad_json(message)


@pytest.mark.parametrize(
    ("body", "value"),
    [
        pytest.param(b'\xef\xbb\xbf{"a":1}', {"a": 1}, id="byte order mark"),
        pytest.param(b" [1]\r\n", [1], id="blanks around"),
        pytest.param(b'{"a":1,"a":2}', {"a": 2}, id="last of the same name"),
        pytest.param(b"9007199254740993", 9007199254740993, id="integer beyond 2^53"),
        pytest.param(b"9" * 1000, 10**1000 - 1, id="1000 digits"),
        pytest.param(b"1.7976931348623157e+308", 1.7976931348623157e308, id="largest double"),
        pytest.param(b'"\\ud83d\\ude00"', "😀", id="both halves"),
        pytest.param(b'"\\uD83D\\uDE00"', "😀", id="both halves in capitals"),
        pytest.param(b'"\\ud55c"', "한", id="looks like a surrogate"),
        pytest.param(b'"\\\\ud83d"', "\\ud83d", id="an escaped backslash"),
        pytest.param(b'"\\\\\\ud83d\\ude00"', "\\😀", id="a pair after an escaped backslash"),
        pytest.param(b'"\\u0000"', "\0", id="NUL"),
    ],
)
def test_json_is_read_as_it_is(body, value):
    assert strict_json.parse(body) == value


def test_64_levels_are_read_whatever_strings_hold():
    body = b"[" * 63 + b'{"[[[\\"[[":"\\\\","]]{{":"[["}' + b"]" * 63

    assert strict_json.parse(body)


def _depth(value: Any) -> int:
    if isinstance(value, dict):
        value = list(value.values())
    return 1 + max(map(_depth, value), default=0) if isinstance(value, list) else 0


@given(
    value=st.recursive(
        st.integers() | st.text(alphabet='[]{}"\\a😀', max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.text(alphabet='[]{}"\\', max_size=3), inner, max_size=3)
        ),
        max_leaves=20,
    ),
    escaped=st.booleans(),
)
def test_depth_is_that_of_the_document(value, escaped):
    body = json.dumps(value, ensure_ascii=escaped).encode()
    depth = _depth(value)

    assert not strict_json._is_deeper(body, depth)
    assert not depth or strict_json._is_deeper(body, depth - 1)


@given(st.lists(st.sampled_from(["\\ud83d", "\\uDe00", "\\\\", "\\ud55c", "a", '\\"', "😀"])))
def test_halves_of_surrogate_pairs_are_found(parts):
    body = f'["{"".join(parts)}"]'
    text = json.loads(body)[0]
    is_whole = not any("\ud800" <= character <= "\udfff" for character in text)

    if is_whole:
        assert strict_json.parse(body.encode()) == [text]
    else:
        assert refusal(strict_json.parse, body.encode()) == bad_json(_HALF)
