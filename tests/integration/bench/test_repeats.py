"""The comparison of refusing and repeating counts duplicates, and the app's way makes none."""

from __future__ import annotations

from bench.soak.repeats import PutFault, compare
from testbed.storage_proxy import Failure


def test_requests_whose_put_was_answered_201_are_accepted_without_duplicates() -> None:
    """The way of refusing is the control: its publishers repeat what is stored."""
    refusing, repeating = compare([PutFault("cut off", Failure.TRUNCATED)])

    assert refusing.attacked == repeating.attacked > 0
    assert refusing.lost == repeating.lost == 0
    assert refusing.refused > 0 == repeating.refused
    assert refusing.duplicates > 0 == repeating.duplicates
