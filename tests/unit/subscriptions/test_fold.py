"""Case-insensitive comparison by character, like .NET's OrdinalIgnoreCase."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.subscriptions.event_values import fold_case


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("Strasse", "STRASSE", True),
        ("straße", "STRASSE", False),
        ("straße", "STRAßE", True),
        ("Grüße", "GRÜßE", True),
        ("ΣΊΣΥΦΟΣ", "σίσυφος", True),
        ("σίσυφος", "σίσυφοσ", True),
        ("ДОМ", "дом", True),
        ("İ", "i", False),
        ("İ", "i̇", False),
        ("\u0131", "I", False),
        ("\u017f", "s", False),
        ("ﬁ", "FI", False),
        ("ŉ", "\u02bcN", False),
        ("ᾳ", "ᾼ", True),
        ("µ", "\u039c", True),
        ("\u212a", "k", False),
        ("𐐨", "𐐀", True),
        ("é", "e\u0301", False),
    ],
)
def test_case_is_that_of_each_character(one: str, other: str, *, is_same: bool) -> None:
    assert (fold_case(one) == fold_case(other)) is is_same


@given(st.text(), st.text())
def test_text_is_folded_by_character(one: str, other: str) -> None:
    """So a part is found wherever it is."""
    assert fold_case(one + other) == fold_case(one) + fold_case(other)
    assert len(fold_case(one)) == len(one)
    assert fold_case(fold_case(one)) == fold_case(one)


@given(st.text(st.characters(max_codepoint=127)))
def test_ascii_becomes_lower_case(text: str) -> None:
    assert fold_case(text) == text.lower()
