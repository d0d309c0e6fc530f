"""What `pushgrid dev` and the demo say of each line of the host's log."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from typing import Any

import pytest

from cli.local.narration import narrate

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


TRIED: dict[str, Any] = {"attempt": 2, "status": 503, "outcome": "Busy", "why": "w"}
RETRY = TRIED | {"decision": "retry", "next_attempt_at": "2026-02-09T12:00:30.250000Z"}
NEXT = "next at 14:00:30.2, because of w"
HELD = {"held": 3, "held_until": "2026-02-09T12:00:40Z"}
REPLAYED = {"job": "j-1", "replayed": 1, "skipped": 0, "faults": 1}


ATTEMPTED, ENDED = "delivery.attempted", "replay.ended"
ASKED = {"url": "http://a/", "attempt": 1, "attempts": 3, "longest_seconds": 100.0}
NO_ANSWER = {"failure": "timed out", "detail": "y"}
ASKED_AGAIN = {**ASKED, "attempt": 2, **NO_ANSWER}
TRIED_AGAIN = "asking http://a/ for consent, try 2 of 3, after: timed out"
REFUSED = {"reason": "status", "why": "It did not.", "remedy": "Make it."}
LATE = {"status": 200, "seconds": 31.5, "cancelled": False}
LARGE = {"status": 413, "code": "PayloadTooLarge", "detail": "at most 9"}
UNKNOWN = {"status": 400, "code": "InvalidSas", "unknown_topic": True}
DRY_RUN = {"job": "j-1", "by": "me", "dry_run": True, "to": "erp"}
FAILED = REPLAYED | {"state": "Failed", "events": 1, "detail": "no container"}
GIVEN_UP = TRIED | {"decision": "end", "reason": "Old", "answer": "no"}
MISSPELT = {"setting": "PUSHGRID_X", "nearest": "PUSHGRID_Y"}
DONE = "1 event queued, 0 skipped, 1 fault"
PAUSED = HELD | {"held_because": "paused since 12:00"}


@pytest.mark.parametrize(
    ("event", "fields", "kind", "text"),
    [
        (ATTEMPTED, RETRY, "retry", f"attempt 2: 503 Busy; {NEXT}"),
        (ATTEMPTED, RETRY | {"detail": "x"}, "retry", f"attempt 2: 503 Busy (x); {NEXT}"),
        (ATTEMPTED, RETRY | {"answer": "\x1b"}, "retry", f"attempt 2: 503 Busy: \ufffd; {NEXT}"),
        (ATTEMPTED, GIVEN_UP, "given up", "attempt 2: 503 Busy: no; no more attempts (w): Old"),
        (
            "delivery.answered_late",
            LATE,
            "delivered",
            "200 after 31.5 s; its retry had begun: a duplicate",
        ),
        ("delivery.run", HELD | {"held_because": "a"}, "held", "3 events until 14:00:40.0: a"),
        ("delivery.run", PAUSED, "held", "events wait: paused since 12:00"),
        ("replay.started", DRY_RUN, "replay", "dry run of a replay to erp started by me: j-1"),
        (ENDED, REPLAYED | {"state": "Done"}, "replay", f"Done: {DONE}: j-1"),
        (ENDED, FAILED, "replay", f"Done in part: {DONE} (no container): j-1"),
        ("publish.refused", LARGE, "refused", "413 PayloadTooLarge: at most 9"),
        ("publish.refused", UNKNOWN, "refused", "400 InvalidSas: there is no such topic"),
        ("handshake.asked", ASKED, "handshake", "asking http://a/ for consent (up to 100 s)"),
        ("handshake.asked", ASKED_AGAIN, "handshake", TRIED_AGAIN),
        ("handshake.awaited", REFUSED, "handshake", "It did not. Make it."),
        (
            "handshake.failed",
            REFUSED | {"status": 404},
            "handshake",
            "failed: It did not. Make it.",
        ),
        (
            "handshake.failed",
            REFUSED | {"status": 404, "answer": "gone \x1b"},
            "handshake",
            "failed: It did not. Make it. The endpoint answered: gone \ufffd",
        ),
        ("handshake.failed", REFUSED | NO_ANSWER, "handshake", "failed: It did not. Make it. (y)"),
        (
            "setting.unknown",
            MISSPELT,
            "settings",
            "PUSHGRID_X does not exist; did you mean PUSHGRID_Y?",
        ),
    ],
)
def test_what_a_log_entry_says(event: str, fields: dict[str, Any], kind: str, text: str) -> None:
    """`tests/functional/test_narration.py` has those that the app itself writes in its stories."""
    found = narrate(line(event, **fields))

    assert found
    assert (found.kind, found.text, found.about) == (kind, text, "orders/crm")


def test_the_events_of_an_entry_are_named_or_counted() -> None:
    one = narrate(line("delivery.attempted", **RETRY, event_id="\x1b[31m"))
    many = narrate(line("delivery.attempted", **RETRY, event_ids=["a"], count=9))

    assert [each and each.events for each in (one, many)] == ["\ufffd[31m", "9 events"]


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
        line("queue.depth", messages=3),
        line("delivery.run", delivered=3),
    ],
)
def test_what_goes_as_it_should_is_not_told(printed: str) -> None:
    assert narrate(printed) is None
