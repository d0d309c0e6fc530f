"""The tokens of ``$filter``."""

from __future__ import annotations

import pytest

from shared.arm.odata import Tokens

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
