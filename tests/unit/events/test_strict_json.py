"""JSON that is accepted, JSON that is refused, and numbers that keep their literals."""

from __future__ import annotations

import json
import re
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.events import strict_json
from shared.events.literals import Number, dumps, dumps_unicode, loads, to_python_number
from tests.unit.events.publishing import bad_json, refusal

_RANGE = "The JSON received has a number that is out of range."
_DEEP = "The JSON received is nested deeper than 64 levels."
_END = "Unexpected end when reading JSON."
_HALF = "The JSON received has half of a surrogate pair."
_BAD = "The JSON received is malformed: "
_UTF8 = "The JSON received is not valid UTF-8."


REFUSED = {
    _END: (b"", b" \r\n\t", b"\xef\xbb\xbf", b'[{"id":', b"[1 ", b'["a'),
    f"{_BAD}Expecting ',' delimiter, line 1, position 4.": (b"[1 2]",),
    f"{_BAD}Expecting property name enclosed in double quotes, line 1, position 2.": (b"{'a':1}",),
    f"{_BAD}Extra data, line 2, position 1.": (b"[]\n[]",),
    f"{_BAD}Invalid control character at, line 1, position 3.": (b'["\n"]',),
    _UTF8: (b'["\xff"]', b'["\xed\xa0\x80"]', "[]".encode("utf-16")),
    "The JSON received has a number that is not JSON: NaN.": (b"[NaN]",),
    "The JSON received has a number that is not JSON: -Infinity.": (b"[-Infinity]",),
    _RANGE: (
        *(b"[1e400]", b"[-1.0E+309]", b"[1e-400]", b"[-0.001E-400]", b"0." + b"0" * 400 + b"1"),
        *(b"9" * 1001, b"9" * 1_500_000),
    ),
    _HALF: (
        *(b'["\\ud800"]', b'["\\uDC00"]', b'["\\udc00\\ud800"]'),
        *(b'["\\ud83d\\ud83d\\ude00"]', b'["\\ud83d\\ude00\\ude00"]', b'{"\\ud800":1}'),
        *(b'["\\ud83d\\\\\\ude00"]', b'["\\\\ud83d\\ude00"]'),  # an escaped backslash
    ),
    _DEEP: (
        *(b"[" * 65 + b"]" * 65, b'{"a":' * 65 + b"1" + b"}" * 65, b"[" * 1_500_000),
        b"[" * 64 + b'"]\\"]",[]' + b"]" * 64,  # brackets in a string
    ),
}


@pytest.mark.parametrize("literal", [b"1E2", b"1.10", b"-0.0", b"0.5"])
def test_a_number_that_fills_a_body_is_parsed_once(literal: bytes) -> None:
    """A megabyte of `1E2` costs as much as a megabyte of anything else."""
    numbers = strict_json.parse(b"[" + b",".join([literal] * 250_000) + b"]")

    assert len(numbers) == 250_000
    assert len(set(map(id, numbers))) == 1
    assert strict_json.parse(b"[" + literal + b"]") == numbers[:1]


@pytest.mark.parametrize(
    ("body", "message"),
    [(body, message) for message, bodies in REFUSED.items() for body in bodies],
    ids=map(str, count()),  # bodies are too long
)
def test_bad_json_is_refused(body, message):
    assert refusal(strict_json.parse, body) == bad_json(message)


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b'\xef\xbb\xbf{"a":1}', {"a": 1}),
        (b" [1]\r\n", [1]),
        (b'{"a":1,"a":2}', {"a": 2}),
        (b"9007199254740993", 9007199254740993),
        (b"9" * 1000, 10**1000 - 1),
        (b"1.7976931348623157e+308", 1.7976931348623157e308),
        (b'"\\ud83d\\ude00"', "😀"),
        (b'"\\uD83D\\uDE00"', "😀"),
        (b'"\\ud55c"', "한"),  # looks like a surrogate
        (b'"\\\\ud83d"', "\\ud83d"),  # an escaped backslash
        (b'"\\\\\\ud83d\\ude00"', "\\😀"),
        (b'"\\u0000"', "\0"),
    ],
    ids=map(str, count()),
)
def test_json_is_read_as_it_is(body, value):
    assert strict_json.parse(body) == value


def test_brackets_in_strings_do_not_count_as_levels():
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
    body, room = json.dumps(value, ensure_ascii=escaped).encode(), 64 - _depth(value)

    assert strict_json.parse(b"[" * room + body + b"]" * room)
    too_deep = b"[" * (room + 1) + body + b"]" * (room + 1)
    assert refusal(strict_json.parse, too_deep) == bad_json(_DEEP)


@given(st.lists(st.sampled_from(["\\ud83d", "\\uDe00", "\\\\", "\\ud55c", "a", '\\"', "😀"])))
def test_halves_of_surrogate_pairs_are_found(parts):
    body = f'["{"".join(parts)}"]'
    text = json.loads(body)[0]
    is_whole = not any("\ud800" <= character <= "\udfff" for character in text)

    if is_whole:
        assert strict_json.parse(body.encode()) == [text]
    else:
        assert refusal(strict_json.parse, body.encode()) == bad_json(_HALF)


# --- literals of numbers


# As JSON allows them, within a double's range.
_DIGITS = st.integers(0, 10**20).map(str)
LITERALS = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "-"]),
    _DIGITS | st.just("0"),
    st.just("") | st.builds(".{}{}".format, st.sampled_from(["", "0", "00"]), _DIGITS),
    st.just("") | st.builds("{}{}".format, st.sampled_from(["e", "E+", "e-"]), st.integers(0, 99)),
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(
    ['"', "\\", '"\\udfff1.10"', "\\udfff", '\\"', "1.10", "\U0001fbff", '"\U0001fbff']
)


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ("1.10", 1.1),
        ("-0", 0.0),
        ("0.0e-999", 0.0),
        ("5e-324", 5e-324),
        ("1.7976931348623157E+308", 1.7976931348623157e308),
    ],
)
def test_a_number_keeps_its_literal_and_compares_as_a_double(literal, value):
    read = strict_json.parse(literal.encode())

    assert (dumps(read), to_python_number(read)) == (literal, value)
    assert type(to_python_number(read)) is float


def test_the_documents_of_the_management_api_have_plain_numbers():
    read = strict_json.parse(b'[1.10, -0, 7, 1E2, "1.10"]', strict_json.PLAIN)

    assert read == [1.1, 0, 7, 100.0, "1.10"]
    assert not any(isinstance(each, Number) for each in read)


@given(st.lists(LITERALS | TEXTS.map(json.dumps)), st.dictionaries(TEXTS, LITERALS))
def test_reading_and_writing_change_no_literal(items, members):
    """Whatever strings hold: the mark that numbers bear on the way can't be mistaken."""
    named = [f"{json.dumps(name)}:{literal}" for name, literal in members.items()]
    text = f"[{','.join([*items, '{' + ','.join(named) + '}'])}]"

    assert dumps(loads(text)) == text
    assert dumps(json.loads(dumps_unicode(loads(text)), parse_float=Number, parse_int=Number)) == (
        text
    )


@given(st.lists(LITERALS), TEXTS)
def test_pretty_text_keeps_them_too(literals, text):
    pretty = dumps({"text": text, "numbers": loads(f"[{','.join(literals)}]")}, indent=2)

    assert json.loads(pretty)["text"] == text
    assert re.findall(r"^    ([-0-9].*?),?$", pretty, re.MULTILINE) == literals


def test_values_outside_json_are_not_written():
    with pytest.raises(ValueError, match="not JSON compliant"):
        dumps(float("nan"))
    with pytest.raises(TypeError, match="set is not a JSON value"):
        dumps({1})
