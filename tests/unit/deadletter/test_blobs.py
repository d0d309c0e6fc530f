"""Blobs of dead letters: which share one, where it stands, what its metadata tells. §4.1."""

from __future__ import annotations

import json
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.deadletter.blob_summary import MAX_REASONS, MOST_FIRST, BlobSummary
from shared.deadletter.paths import dead_letter_path
from shared.deadletter.record import MAX_BLOB_BYTES, MAX_BLOB_RECORDS, batches, blob_body

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


@pytest.mark.parametrize(
    ("topic", "at", "folder"),
    [
        ("orders", "2025-01-02T03:04:00+00:00", "ORDERS-TO-CRM/2025/1/2/3"),
        ("orders", "2025-01-01T01:00:00+02:00", "ORDERS-TO-CRM/2024/12/31/23"),
        ("Shop.orders", "2023-09-23T02:59:00+00:00", "Shop/orders/Orders-to-crm/2023/9/23/2"),
    ],
    ids=["unpadded", "UTC", "a namespace's names are as they are"],
)
def test_a_path_has_upper_case_and_unpadded_utc(topic: str, at: str, folder: str) -> None:
    """For a namespace the documented mynamespace/mytopic/myeventsubscription/2023/9/23/2/…"""
    path = dead_letter_path(topic, "Orders-to-crm", datetime.fromisoformat(at), "id")

    assert path == f"{folder}/id.json"


TOPIC, REASONS = "pushgrid_topic", "pushgrid_reasons"


def test_names_are_read_whatever_their_case():
    found = BlobSummary.from_metadata({"Pushgrid_Topic": "/a%20b", "PUSHGRID_REASONS": '{"x":2}'})

    assert found == BlobSummary("/a b", {"x": 2})


def test_the_first_event_is_clipped():
    written = BlobSummary("", {"x": 1}, "\ud800" + "ü" * 999).to_metadata()

    assert sum(map(len, written.values())) < 2000
    found = BlobSummary.from_metadata(written)
    assert found
    assert found.first == "?" + "ü" * (MOST_FIRST - 2) + "…"


_MANY = ",".join(f'"{number}":1' for number in range(MAX_REASONS + 1))


@pytest.mark.parametrize(
    "reasons",
    [
        *("", "oops", "[]", '{"x":"1"}', '{"x":-1}', '{"x":true}', '{"x":{}}', "[" * 8000, "ü"),
        f"{{{_MANY}}}",
        f'{{"{"x" * 8000}":1}}',
    ],
)
def test_what_no_summary_has_is_none(reasons: str):
    assert BlobSummary.from_metadata({TOPIC: "/a", REASONS: reasons}) is None
    assert BlobSummary.from_metadata({TOPIC: "/a"}) is None


def test_a_topic_that_is_too_long_for_an_id_is_none():
    assert BlobSummary.from_metadata({TOPIC: "/" * 8000, REASONS: '{"x":1}'}) is None
