"""Filters as an operator types them."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.subscription.filter_expression import HELP, parse_filter_expression
from shared.arm.filter_codec import parse_filter
from shared.arm.sections import root_section
from shared.events.topic import InputSchema
from shared.subscriptions.advanced_filter import FilterOperator


def meant(text: str) -> tuple[str, str, object]:
    found = parse_filter_expression(text)
    operand = found.get("values", found.get("value"))
    return found["key"], found["operatorType"], operand


MEANT: list[tuple[str, str, object]] = [
    ("data.total > 10", "NumberGreaterThan", 10),
    ("data.total >= 1.5", "NumberGreaterThanOrEquals", 1.5),
    ("data.total<-2", "NumberLessThan", -2),
    ("data.total <=1e3", "NumberLessThanOrEquals", 1000.0),
    ("data.total = 10", "NumberIn", [10]),
    ("data.total != 10", "NumberNotIn", [10]),
    ("data.total in (1, 2)", "NumberIn", [1, 2]),
    ("data.total not in (1, 2)", "NumberNotIn", [1, 2]),
    ("data.total in 1..5", "NumberInRange", [[1, 5]]),
    ("data.total in (1..5, -2..2.5)", "NumberInRange", [[1, 5], [-2, 2.5]]),
    ("data.total not in (1..5)", "NumberNotInRange", [[1, 5]]),
    ("data.color = red", "StringIn", ["red"]),
    ("data.color == red", "StringIn", ["red"]),
    ('data.color = "10"', "StringIn", ["10"]),
    ("data.color = 01234", "StringIn", ["01234"]),
    ('data.color = "> 10"', "StringIn", ["> 10"]),
    ('data.color in "red, blue"', "StringIn", ["red, blue"]),
    ("data.color = red, blue", "StringIn", ["red, blue"]),
    ("subject contains <b>", "StringContains", ["<b>"]),
    ("data.color = black and white", "StringIn", ["black and white"]),
    ('data.color in ("null", "a and b = c")', "StringIn", ["null", "a and b = c"]),
    ("subject contains true", "StringContains", ["true"]),
    ("data.color != dark red", "StringNotIn", ["dark red"]),
    ('data.color in (red, "a, \\"b\\"")', "StringIn", ["red", 'a, "b"']),
    ("data.color NOT  IN (1, red)", "StringNotIn", ["1", "red"]),
    ("subject begins with /orders/", "StringBeginsWith", ["/orders/"]),
    ("subject ends with (.jpg, .png)", "StringEndsWith", [".jpg", ".png"]),
    ("subject contains x = y", "StringContains", ["x = y"]),
    ("subject not begins with /a", "StringNotBeginsWith", ["/a"]),
    ("subject not ends with /a", "StringNotEndsWith", ["/a"]),
    ("subject not contains /a", "StringNotContains", ["/a"]),
    ("data.paid = true", "BoolEquals", True),
    ("data.paid != TRUE", "BoolEquals", False),
    ("data.note is null", "IsNullOrUndefined", None),
    ("data.note is  not null", "IsNotNull", None),
]


@pytest.mark.parametrize(("text", "operator", "operand"), MEANT)
def test_an_operator_and_its_operand(text: str, operator: str, operand: object) -> None:
    key = text.split(maxsplit=1)[0].partition("<")[0]

    assert meant(text) == (key, operator, operand)


def test_every_operator_of_event_grid_can_be_written() -> None:
    assert {operator for _, operator, _ in MEANT} == {str(each) for each in FilterOperator}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is not a filter"),
        ("data.total", "is not a filter"),
        ("> 10", "is not a filter"),
        ("data.total >", "a value is missing after '>'"),
        ("data.total > ten", "'ten' is not a number"),
        ("data.total > (1, 2)", "'(1, 2)' is not a number"),
        ("data.color in (red", "the closing bracket is missing"),
        ("data.color in ()", "the list is empty"),
        ("data.total = 1e999", "'1e999' is too large a number"),
        ("data.color = 'dark red'", """write "'dark red'" if the text is meant"""),
        ("data.total > 1 and data.color = red", "each condition needs a --filter of its own"),
        ("data.color contains red or subject ends with x", "if the text is meant"),
        ("data.color = null", 'write "null" if the text is meant'),
        ("data.paid in (true, false)", 'write "true" if the text is meant'),
        ('data.color in ("red)', "is not a list of values"),
        ("data.note is null now", "nothing may follow 'is null'"),
        ("data.total => 10", """write '>=' to compare numbers, or "> 10" if the text is meant"""),
        ("data.total =< 10", """write '<=' to compare numbers, or "< 10" if the text is meant"""),
        ("data.total === 10", 'write "= 10" if the text is meant'),
        ("data.total =! 10", 'write "! 10" if the text is meant'),
        ("data.total != >10", 'or ">10" if the text is meant'),
        ("data.total not in (1, >= 10)", 'or ">= 10" if the text is meant'),
        ("data.color in red, blue", "write in (red, blue)"),
        ("data.total in [1, 2]", "write in (1, 2)"),
        ("data.total in range (1, 2)", "write in (1, 5) for values, in 1..5 for a range"),
        ('data.color not in "red", "blue"', 'write not in ("red", "blue")'),
        ("data.total in 1..5, 10..20", "write in (1..5, 10..20)"),
    ],
)
def test_what_is_no_filter_is_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)) as raised:
        parse_filter_expression(text)

    assert text in str(raised.value)


def test_each_example_of_the_help_is_a_filter() -> None:
    examples = [
        part.strip()
        for line in HELP.splitlines()
        if line.startswith("  ")
        for part in line.split("   ")[:1] + line.split("   ")[1:2]
    ]
    shown = [each for each in examples if each and not each.startswith(("also", "a range"))]

    assert len(shown) == 6
    for each in shown:
        parse_filter_expression(each)


@given(
    st.sampled_from(["=", "!=", "contains", "begins with"]),
    st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), min_size=1, max_size=20),
)
def test_any_quoted_text_is_meant_and_accepted_by_the_api(operator: str, text: str) -> None:
    parsed = parse_filter_expression(f"data.x {operator} {json.dumps(text)}")
    section = root_section({"advancedFilters": [parsed]})

    parse_filter(section, InputSchema.EVENT_GRID)

    assert (section.faults, parsed["values"]) == ([], [text])
