"""What a blob's metadata tells, whoever wrote it."""

from __future__ import annotations

import pytest

from shared.deadletter.blob_summary import BlobSummary

TOPIC, REASONS = "pushgrid_topic", "pushgrid_reasons"


def test_names_are_read_whatever_their_case():
    found = BlobSummary.from_metadata({"Pushgrid_Topic": "/a%20b", "PUSHGRID_REASONS": '{"x":2}'})

    assert found == BlobSummary("/a b", {"x": 2})


@pytest.mark.parametrize(
    "reasons",
    ["", "oops", "[]", "7", '{"x":"1"}', '{"x":-1}', '{"x":true}', '{"x":{}}', "[" * 8000, "ü"],
)
def test_what_no_summary_has_is_none(reasons: str):
    assert BlobSummary.from_metadata({TOPIC: "/a", REASONS: reasons}) is None
    assert BlobSummary.from_metadata({TOPIC: "/a"}) is None
