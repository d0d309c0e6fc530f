"""What others have written is clipped in the log: 512 characters, and marked."""

from __future__ import annotations

import json

import pytest

from shared import telemetry
from shared.clip import clip


@pytest.mark.parametrize(
    ("text", "clipped"),
    [("", ""), ("x" * 512, "x" * 512), ("x" * 513, "x" * 511 + "…")],
    ids=["empty", "longest", "too long"],
)
def test_a_text_is_clipped_and_marked(text: str, clipped: str) -> None:
    assert clip(text) == clip(clip(text)) == clipped


def test_no_text_of_a_log_line_is_longer(caplog: pytest.LogCaptureFixture) -> None:
    longest = "x" * 100_000

    telemetry.error("storage.failed", detail=longest, event_ids=[longest, "a"], count=7)

    (record,) = caplog.records
    assert json.loads(record.getMessage()) == {
        "event": "storage.failed",
        "detail": clip(longest),
        "event_ids": [clip(longest), "a"],
        "count": 7,
    }
