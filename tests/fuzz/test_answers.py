"""The differences from h11 that are listed: all of them occur, and no others."""

from __future__ import annotations

from random import Random

from tests.fuzz.answers import DIFFERENCES, compare


def test_every_listed_difference_occurs_and_no_other() -> None:
    found, unlisted = compare(Random(1), 20_000)

    assert found.keys() >= DIFFERENCES.keys()
    assert unlisted == []
