"""``$filter`` of lists, and its tokens."""

from __future__ import annotations

import pytest

from shared.arm.odata import Tokens, parse_name_filter
from tests.unit.arm.documents import refusal


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("contains(name,'crm')", ["CRM", "crm-old", "my-crm"]),
        ("CONTAINS(name,'CRM')", ["CRM", "crm-old", "my-crm"]),
        ("name eq 'CRM'", ["CRM"]),
        ("name ne 'crm'", ["billing", "crm-old", "my-crm"]),
        ("contains(name,'crm') and name ne 'crm-old'", ["CRM", "my-crm"]),
        ("not contains(name,'crm')", ["billing"]),
        ("not not name eq 'crm'", ["CRM"]),
        (
            "name eq 'billing' or contains(name,'crm') and name ne 'crm'",
            ["billing", "crm-old", "my-crm"],
        ),
        (
            "(name eq 'billing' or contains(name,'crm')) and name ne 'crm'",
            ["billing", "crm-old", "my-crm"],
        ),
        ("not name eq 'crm' and contains(name,'crm')", ["crm-old", "my-crm"]),
        ("not (name eq 'crm' or contains(name,'-'))", ["billing"]),
        ("name eq 'it''s'", []),
        ("(" * 98 + "name eq 'crm'" + ")" * 98, ["CRM"]),
        ("not " * 196 + "name eq 'crm'", ["CRM"]),
        ("contains(name,'')", ["billing", "CRM", "crm-old", "my-crm"]),
        (" ", ["billing", "CRM", "crm-old", "my-crm"]),
    ],
)
def test_names_are_filtered(text: str, expected: list[str]) -> None:
    is_wanted = parse_name_filter(text)

    assert [name for name in ("billing", "CRM", "crm-old", "my-crm") if is_wanted(name)] == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("location eq 'x'", "'name' is missing before location. Lists can be filtered by name"),
        ("name gt 'x'", "'ne' is missing"),
        ("name eq", "a quoted text is missing"),
        ("name eq 'crm", "unexpected character at position 7"),
        ("name eq 'crm' 'x'", "unexpected 'x'"),
        ("name eq 'crm' and", "'name' is missing"),
        ("(name eq 'crm'", "')' is missing"),
        ("contains(name 'x')", "',' is missing"),
        ("startswith(name,'x')", "'name' is missing"),
        ("(" * 200, "'name' is missing"),
        ("(" * 201, "too long"),
    ],
)
def test_an_invalid_filter_is_refused(text: str, words: str) -> None:
    target, message = refusal(parse_name_filter, text)

    assert target == "$filter"
    assert words in message


LONG = 1_000_000  # what takes quadratic time runs into the test's time limit


@pytest.mark.parametrize(
    "text",
    [
        "name" + " " * LONG + "eq 'x'",
        " " * LONG + "name eq 'x'",
        "name eq 'x'" + " " * LONG,
        "name eq '" + " and " * (LONG // 5) + "'",
        "name eq '" + "''" * LONG + "'",
    ],
    ids=["within", "before", "after", "words in a text", "quotes in a text"],
)
def test_a_long_filter_is_read_in_linear_time(text: str) -> None:
    tokens = Tokens(text, 3)

    assert tokens.take_word() == "name"
    tokens.expect("eq")
    tokens.take_text()
    tokens.end()


@pytest.mark.parametrize(
    "text", ["name eq" + " " * LONG + "&", "'" * (LONG + 1), "(" * LONG, "name " * LONG]
)
def test_a_long_filter_is_refused_in_linear_time(text: str) -> None:
    with pytest.raises(ValueError, match=r"unexpected character|too long"):
        Tokens(text, 100)
