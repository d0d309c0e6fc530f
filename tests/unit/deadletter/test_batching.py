"""Which dead letters share a blob; contract §4.1."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.deadletter.batching import MAX_BLOB_BYTES, MAX_BLOB_RECORDS, batches, blob_body

MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([(1, 1)] * 1000, [1000], id="a thousand events"),
        pytest.param([(1, 1)] * 1001, [1000, 1], id="one more"),
        pytest.param([(1, MIB)] * 8, [8], id="8 MiB"),
        pytest.param([(1, MIB)] * 8 + [(1, 1)], [8, 1], id="a byte more"),
        pytest.param([(64, 1)] * 16, [15, 1], id="messages of 64 events"),
        pytest.param([(1, 9 * MIB), (1, 1)], [1, 1], id="too large goes alone"),
        pytest.param([(1, 1), (1, 9 * MIB), (1, 1)], [1, 1, 1], id="too large, between others"),
        pytest.param([(5000, 1), (1, 1)], [1, 1], id="too many go alone"),
        pytest.param([(0, 0)] * 5000, [5000], id="empty messages"),
    ],
)
def test_a_blob_has_at_most_1000_events_and_8_mib(
    sizes: list[tuple[int, int]], expected: list[int]
) -> None:
    found = batches([(number, *size) for number, size in enumerate(sizes)])

    assert [len(batch) for batch in found] == expected


@given(st.lists(st.tuples(st.integers(0, 700), st.integers(0, 3 * MIB)), max_size=60))
def test_nothing_is_lost_nothing_twice_in_order(sizes: list[tuple[int, int]]) -> None:
    found = list(batches([(number, *size) for number, size in enumerate(sizes)]))

    assert [number for batch in found for number in batch] == list(range(len(sizes)))
    for batch in found:
        assert sum(sizes[number][0] for number in batch) <= MAX_BLOB_RECORDS
        assert sum(sizes[number][1] for number in batch) <= MAX_BLOB_BYTES


@pytest.mark.parametrize("records", [['{"a":1}'], ['{"a":1}', '{"b":2}']])
def test_a_blob_is_an_array_with_a_record_a_line(records: list[str]) -> None:
    body = blob_body(records)

    assert json.loads(body) == [json.loads(each) for each in records]
    assert len(body.splitlines()) == len(records)
