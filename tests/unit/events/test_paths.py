"""Paths into an event: an exact name wins, else the first that differs by case alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.events import paths
from shared.events.paths import MISSING, PathLookup, fold_case
from tests.strategies import json_values


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("operationname", {"operationName": 1}, 1),
        ("OperationName", {"operationName": 1}, 1),
        ("objectname", {"ObjectName": 1}, 1),
        ("STRAßE", {"straße": 1}, 1),
        ("strasse", {"straße": 1}, MISSING),
        ("a.b", {"A": {"B": 1}}, 1),
        ("b", {"B": 1, "b": 2}, 2),  # exact
        ("b", {"B": 1, "b": None}, None),  # exact, though null
        ("NAME", {"nAme": 1, "Name": 2}, 1),  # the first
        ("a.b", {"A": {"b": 1}, "a": {"B": 2}}, 2),  # each name by itself
        ("a.b", {"A": {"b": 1}, "a": {}}, MISSING),
        ("a.b", {"a": [{"b": 1}]}, MISSING),
        ("a.0", {"a": [1]}, MISSING),
        ("a.b", {"a": "b"}, MISSING),
        ("a.b", {"A.b": 1}, MISSING),
        ("b", {"a": 1}, MISSING),
    ],
)
def test_a_path_leads_to_its_value(path: str, value: dict[str, Any], expected: Any) -> None:
    assert PathLookup(value).find(path.split(".")) is expected


@given(json_values)
def test_every_value_is_found_by_its_names_as_they_are(value: Any) -> None:
    lookup = PathLookup({"data": value})

    def check(value: Any, path: tuple[str, ...]) -> None:
        assert lookup.find(path) is value
        if isinstance(value, dict):
            for name, inner in value.items():
                check(inner, (*path, name))

    check(value, ("data",))


def test_names_are_folded_once_and_only_where_an_exact_one_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An object with 100,000 members costs 12,500 paths what it costs one."""
    folded: list[str] = []

    def fold(name: str) -> str:
        folded.append(name)
        return fold_case(name)

    monkeypatch.setattr(paths, "fold_case", fold)
    lookup = PathLookup({"data": {"One": {"inner": 1}, "two": 2}})

    assert lookup.find(("data", "One", "inner")) == 1
    assert folded == []

    found = [lookup.find(("data", name)) for name in ("one", "TWO", "three", "one")]

    assert found == [{"inner": 1}, 2, MISSING, {"inner": 1}]
    assert sorted(folded) == sorted(["One", "two", "one", "TWO", "three", "one"])


# --- case-insensitive comparison by character, like .NET's OrdinalIgnoreCase


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("straße", "STRASSE", False),
        ("straße", "STRAßE", True),
        ("Grüße", "GRÜßE", True),
        ("ΣΊΣΥΦΟΣ", "σίσυφος", True),
        ("σίσυφος", "σίσυφοσ", True),
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
