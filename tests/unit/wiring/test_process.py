"""What a process does as its functions are loaded."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from shared import wiring


@pytest.fixture(autouse=True)
def _threshold() -> Iterator[None]:
    kept = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*kept)


def test_a_burst_of_requests_begins_no_collection() -> None:
    assert _collections_of_a_burst() > 0  # the control: Python's own threshold

    wiring.read_settings()

    assert _collections_of_a_burst() == 0


def _collections_of_a_burst() -> int:
    gc.collect()
    before = gc.get_stats()[0]["collections"]
    burst: list[object] = [[] for _ in range(10_000)]
    count: int = gc.get_stats()[0]["collections"] - before
    assert burst
    return count
