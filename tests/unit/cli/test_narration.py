"""What `pushgrid dev` and the demo say of each line of the host's log."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from typing import Any

import pytest

from cli.narration import NarratedLine, narrate

AT = "12:00:00.000"


@pytest.fixture(autouse=True)
def east(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two hours before UTC: the log has UTC, people have their own time."""
    monkeypatch.setitem(os.environ, "TZ", "UTC-2")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def line(event: str, level: str = "INFO", **fields: Any) -> str:
    entry = {"event": event, "topic": "orders", "subscription": "crm"} | fields
    return f"{AT} {level:<7} deliver_function  {json.dumps(entry, separators=(',', ':'))}"


TRIED: dict[str, Any] = {
    "attempt": 2,
    "status": 503,
    "outcome": "Busy",
    "why": "minimum for 503: 30 s",
}
RETRY = TRIED | {"decision": "retry", "next_attempt_at": "2026-02-09T12:00:30.250000Z"}


@pytest.mark.parametrize(
    ("printed", "told"),
    [
        (
            line("delivery.attempted", **RETRY, event_id="e-1"),
            NarratedLine(
                "retry",
                "orders/crm",
                "attempt 2: 503 Busy; next at 14:00:30.2, because of minimum for 503: 30 s",
                "e-1",
            ),
        ),
        (
            line("delivery.attempted", **RETRY, detail="refused", event_ids=["a"], count=100),
            NarratedLine(
                "retry",
                "orders/crm",
                "attempt 2: 503 Busy (refused); next at 14:00:30.2, because of minimum for 503: "
                "30 s",
                "100 events",
            ),
        ),
        (
            line("delivery.attempted", **TRIED | {"decision": "end", "reason": "TooMany"}),
            NarratedLine(
                "given up",
                "orders/crm",
                "attempt 2: 503 Busy; no more attempts (minimum for 503: 30 s): TooMany",
            ),
        ),
        (
            line("delivery.succeeded", attempt=1, status=200, duration_ms=12, event_id="\x1b[31m"),
            NarratedLine(
                "delivered",
                "orders/crm",
                "attempt 1: 200 in 12 ms",
                "\N{REPLACEMENT CHARACTER}[31m",
            ),
        ),
        (
            line("delivery.answered_late", status=200, seconds=31.5, cancelled=False),
            NarratedLine(
                "delivered", "orders/crm", "200 after 31.5 s; its retry had begun: a duplicate"
            ),
        ),
        (
            line("delivery.run", held=3, held_until="2026-02-09T12:00:40Z", held_because="Busy"),
            NarratedLine("held", "orders/crm", "3 events until 14:00:40.0: Busy"),
        ),
        (line("delivery.run", delivered=3), None),
        (
            line(
                "delivery.run",
                held=1,
                held_until="2026-02-09T12:00:40Z",
                held_because="paused since 12:00 by me",
            ),
            NarratedLine("held", "orders/crm", "events wait: paused since 12:00 by me"),
        ),
        (
            line("replay.started", job="j-1", by="the admin key", dry_run=True, to="orders/erp"),
            NarratedLine(
                "replay",
                "orders/crm",
                "dry run of a replay to orders/erp started by the admin key: j-1",
            ),
        ),
        (
            line("replay.ended", job="j-1", state="Done", replayed=2, skipped=0, faults=1),
            NarratedLine("replay", "orders/crm", "Done: 2 events queued, 0 skipped, 1 fault: j-1"),
        ),
        (
            line("publish.refused", status=413, code="PayloadTooLarge", detail="at most 9"),
            NarratedLine("refused", "orders/crm", "413 PayloadTooLarge: at most 9"),
        ),
        (
            line("publish.refused", status=400, code="InvalidSas", unknown_topic=True),
            NarratedLine("refused", "orders/crm", "400 InvalidSas: there is no such topic"),
        ),
        (
            line("delivery.dropped", "WARNING", count=1, reason="SubscriptionDeleted"),
            NarratedLine("dropped", "orders/crm", "1 event: SubscriptionDeleted"),
        ),
        (
            line("deadletter_batch", "WARNING", count=2, container="dead", path="o/c/1.json"),
            NarratedLine("dead-lettered", "orders/crm", "2 events in dead/o/c/1.json"),
        ),
        (line("handshake.granted"), NarratedLine("handshake", "orders/crm", "accepted")),
        (
            line("handshake.failed", failure="Unreachable", detail="refused"),
            NarratedLine("handshake", "orders/crm", "failed: Unreachable (refused)"),
        ),
        (
            line("setting.unknown", "WARNING", setting="PUSHGRID_X", nearest="PUSHGRID_Y"),
            NarratedLine(
                "settings", "orders/crm", "PUSHGRID_X does not exist; did you mean PUSHGRID_Y?"
            ),
        ),
        (line("queue.depth", messages=3), None),
    ],
)
def test_what_a_log_entry_says(printed: str, told: NarratedLine | None) -> None:
    found = narrate(printed)

    assert (found and found._replace(entry={})) == told


@pytest.mark.parametrize(
    "printed",
    [
        line("storage.failed", "ERROR", status=500),
        line("delivery.attempted", "WARNING", decision="retry"),  # as no version writes it
        f"{AT} WARNING setting PUSHGRID_PROFILE: the environment overrides local.settings.json",
        f"{AT} ERROR   azure.core  no JSON",
        f"{AT} deliver_function  FAILED  12 ms  1234abcd  ValueError: x",
        "  manage_function  ERROR  no module named x",
        "Traceback (most recent call last):",
        '  File "x.py", line 1, in <module>',
        "    import x",
        "ModuleNotFoundError: x",
    ],
)
def test_no_warning_and_no_error_is_swallowed(printed: str) -> None:
    found = narrate(printed)

    assert found
    assert found.kind in {"warning", "error"}
    assert found.text.strip()
    assert found.text.strip() in printed


@pytest.mark.parametrize(
    "printed",
    [
        "ready http://127.0.0.1:7071",
        "storage DefaultEndpointsProtocol=http",
        "  manage_function  http://127.0.0.1/subscriptions/{*path}",
        f"{AT} INFO    azure.core  all is well",
        f"{AT} deliver_function  ok  12 ms  1234abcd",
        f"{AT} Stopping (0 invocations running); press Ctrl-C again to force",
        "",
    ],
)
def test_what_goes_as_it_should_is_not_told(printed: str) -> None:
    assert narrate(printed) is None
