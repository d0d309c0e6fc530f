"""What `pushgrid dev` and the demo say of each line of the host's log."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from typing import Any

import pytest

from cli.narration import narrate

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
            (
                "retry",
                "attempt 2: 503 Busy; next at 14:00:30.2, because of minimum for 503: 30 s",
                "e-1",
            ),
        ),
        (
            line(
                "delivery.attempted",
                **RETRY | {"why": "w", "detail": "x"},
                event_ids=["a"],
                count=9,
            ),
            ("retry", "attempt 2: 503 Busy (x); next at 14:00:30.2, because of w", "9 events"),
        ),
        (
            line("delivery.attempted", **RETRY | {"why": "w"}, answer="no \x1b[1m"),
            ("retry", "attempt 2: 503 Busy: no \ufffd[1m; next at 14:00:30.2, because of w"),
        ),
        (
            line("delivery.attempted", **TRIED, decision="end", reason="Old", answer="no such"),
            (
                "given up",
                "attempt 2: 503 Busy: no such; no more attempts (minimum for 503: 30 s): Old",
            ),
        ),
        (
            line("delivery.succeeded", attempt=1, status=200, duration_ms=12, event_id="\x1b[31m"),
            ("delivered", "attempt 1: 200 in 12 ms", "\N{REPLACEMENT CHARACTER}[31m"),
        ),
        (
            line("delivery.answered_late", status=200, seconds=31.5, cancelled=False),
            ("delivered", "200 after 31.5 s; its retry had begun: a duplicate"),
        ),
        (
            line("delivery.run", held=3, held_until="2026-02-09T12:00:40Z", held_because="Busy"),
            ("held", "3 events until 14:00:40.0: Busy"),
        ),
        (line("delivery.run", delivered=3), None),
        (
            line(
                "delivery.run",
                held=1,
                held_until="2026-02-09T12:00:40Z",
                held_because="paused since 12:00 by me",
            ),
            ("held", "events wait: paused since 12:00 by me"),
        ),
        (
            line("replay.started", job="j-1", by="the admin key", dry_run=True, to="orders/erp"),
            ("replay", "dry run of a replay to orders/erp started by the admin key: j-1"),
        ),
        (
            line("replay.ended", job="j-1", state="Done", replayed=2, skipped=0, faults=1),
            ("replay", "Done: 2 events queued, 0 skipped, 1 fault: j-1"),
        ),
        (
            line(
                "replay.ended",
                job="j-1",
                state="Failed",
                events=1,
                replayed=1,
                skipped=0,
                faults=1,
                detail="no container",
            ),
            ("replay", "Done in part: 1 event queued, 0 skipped, 1 fault (no container): j-1"),
        ),
        (
            line("publish.refused", status=413, code="PayloadTooLarge", detail="at most 9"),
            ("refused", "413 PayloadTooLarge: at most 9"),
        ),
        (
            line("publish.refused", status=400, code="InvalidSas", unknown_topic=True),
            ("refused", "400 InvalidSas: there is no such topic"),
        ),
        (
            line("delivery.dropped", "WARNING", count=1, reason="SubscriptionDeleted"),
            ("dropped", "1 event: SubscriptionDeleted"),
        ),
        (
            line("deadletter_batch", "WARNING", count=2, container="dead", path="o/c/1.json"),
            ("dead-lettered", "2 events in dead/o/c/1.json"),
        ),
        (line("handshake.granted"), ("handshake", "accepted")),
        (
            line("handshake.failed", failure="Unreachable", detail="refused"),
            ("handshake", "failed: Unreachable (refused)"),
        ),
        (
            line("setting.unknown", "WARNING", setting="PUSHGRID_X", nearest="PUSHGRID_Y"),
            ("settings", "PUSHGRID_X does not exist; did you mean PUSHGRID_Y?"),
        ),
        (line("queue.depth", messages=3), None),
    ],
)
def test_what_a_log_entry_says(printed: str, told: tuple[str, ...] | None) -> None:
    """Kind, text, and the events if there are any."""
    found = narrate(printed)

    assert (found and tuple(filter(None, (found.kind, found.text, found.events)))) == told
    assert found is None or found.about == "orders/crm"


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
