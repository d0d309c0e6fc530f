"""What a setting changes in delivering."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import cast

import pytest

from shared.engine.delivering.budget import MESSAGES
from shared.engine.delivering.push import Push
from shared.wiring import delivering, process


@pytest.mark.parametrize(("text", "is_sent"), [("", True), ("true", True), ("false", False)])
def test_the_trace_context_is_sent_unless_it_is_switched_off(
    text: str, monkeypatch: pytest.MonkeyPatch, *, is_sent: bool
) -> None:
    monkeypatch.setattr(process, "_built", {})
    monkeypatch.setenv("AzureWebJobsStorage", "UseDevelopmentStorage=true")
    monkeypatch.setenv("PUSHGRID_TRACE_CONTEXT", text)

    push = cast("Push", delivering.deliver().endpoints.push)

    assert (push.new_span_id is delivering._new_span_id) is is_sent


def test_span_ids_are_new_and_of_sixteen_digits() -> None:
    found = {delivering._new_span_id() for _ in range(100)}

    assert len(found) == 100
    assert all(re.fullmatch("[0-9a-f]{16}", each) for each in found)


def test_messages_in_flight_are_as_many_as_the_host_has() -> None:
    root = Path(__file__).parents[3]
    queues = json.loads((root / "host.json").read_text())["extensions"]["queues"]

    assert queues["batchSize"] + queues["newBatchThreshold"] == MESSAGES
