"""Numbers keep their literals from the request to the output."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.events import strict_json
from shared.events.literals import Number, dumps, dumps_unicode, loads, to_python_number

# As JSON allows them, within a double's range.
LITERALS = st.from_regex(
    r"-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,2})?", fullmatch=True
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(
    ['"', "\\", '"\\udfff1.10"', "\\udfff", '\\"', "1.10", "\U0001fbff", '"\U0001fbff']
)


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ("1.10", 1.1),
        ("1.0", 1.0),
        ("20.00", 20.0),
        ("1E2", 100.0),
        ("1e+2", 100.0),
        ("-0", 0.0),
        ("-0.0", -0.0),
        ("0.0e-999", 0.0),
        ("5e-324", 5e-324),
        ("0.1000000000000000055511151231257827", 0.1),
        ("12345678901234567890.123", 12345678901234567890.0),
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


def test_json_is_written_as_one_line_of_ascii():
    assert dumps({"a": [1, 2.0]}) == '{"a":[1,2.0]}'
    assert dumps("ë😀\n\x7f") == '"\\u00eb\\ud83d\\ude00\\n\\u007f"'


def test_values_outside_json_are_not_written():
    with pytest.raises(ValueError, match="not JSON compliant"):
        dumps(float("nan"))
    with pytest.raises(TypeError, match="set is not a JSON value"):
        dumps({1})


def test_numbers_are_equal_by_their_literals():
    assert Number("1.10") == Number("1.10") != Number("1.1")
    assert len({Number("1.10"), Number("1.10")}) == 1
    assert repr(Number("1.10")) == "Number('1.10')"
