"""What a blob's metadata tells, whoever wrote it."""

from __future__ import annotations

import pytest

from shared.deadletter.blob_summary import MAX_REASONS, MOST_FIRST, BlobSummary

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
        *(
            "",
            "oops",
            "[]",
            "7",
            '{"x":"1"}',
            '{"x":-1}',
            '{"x":true}',
            '{"x":{}}',
            "[" * 8000,
            "ü",
        ),
        f"{{{_MANY}}}",
        f'{{"{"x" * 8000}":1}}',
    ],
)
def test_what_no_summary_has_is_none(reasons: str):
    assert BlobSummary.from_metadata({TOPIC: "/a", REASONS: reasons}) is None
    assert BlobSummary.from_metadata({TOPIC: "/a"}) is None


def test_a_topic_that_is_too_long_for_an_id_is_none():
    assert BlobSummary.from_metadata({TOPIC: "/" * 8000, REASONS: '{"x":1}'}) is None
