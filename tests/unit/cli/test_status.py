"""`pushgrid status` on scripted answers: what is wrong, and storage that goes meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.cli.conftest import URL

HEALTH = {"status": "healthy", "reasons": [], "storage": "reachable", "queues": {}, "timers": {}}
TIMERS = {"wake": {"lastRun": "2026-02-09T12:00:00.1234560Z", "failed": []}}
AWAY = {"error": {"code": "StorageUnavailable", "message": "Storage is unavailable."}}

RunOn = Callable[..., Any]


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_deployment_whose_troubles_can_not_be_read_is_not_healthy(
    run_on: RunOn, options: list[str]
) -> None:
    def answer(path: str, _: object) -> tuple[int, object]:
        return (503, AWAY) if path == "/status/topics" else (200, HEALTH)

    found = run_on(answer, "status", *options)

    assert (found.code, found.err) == (1, "")
    assert "what is wrong with event subscriptions is not known: " in found.out
    assert "Storage is unavailable." in found.out
    said = [words in found.out for words in ("unhealthy", '"healthy"', "is healthy")]
    assert said == [True, False, False]


FAILING = {
    "topic": "orders",
    "subscription": "crm",
    "id": "/crm",
    "kind": "failing",
    "also": ["deadLettering"],
    "since": "2026-02-09T11:58:00Z",
    "why": "400 BadRequest at 11:59:41: no such \x1b[31mcustomer",
    "waiting": 1,
    "oldestSeenSeconds": 95.0,
    "awaitingBlob": 3,
    "blobsDueSeconds": 300.0,
    "remedy": "pushgrid timeline --topic orders --subscription crm",
}
AWAITING = FAILING | {
    "subscription": "erp",
    "kind": "awaitingValidation",
    "also": [],
    "since": None,
    "why": "no handshake",
    "waiting": 0,
    "oldestSeenSeconds": None,
    "awaitingBlob": 0,
    "blobsDueSeconds": None,
}
GIVEN_UP = "given up, due to be dead-lettered or dropped within 0:05:00"
LISTED: list[dict[str, Any]] = [
    {"name": "crm", "limits": {}, "paused": None, "held": {"until": None, "why": "busy"}},
    {"name": "damaged"},
    {"name": "slow", "limits": {"atOnce": 10, "processes": 2, "text": "at most 10; 2 share it"}},
]


@pytest.mark.parametrize(
    ("health", "troubles", "word", "code"),
    [
        ("healthy", [], "healthy", 0),
        ("healthy", [FAILING, AWAITING], "degraded", 1),
        ("unhealthy", [FAILING, AWAITING], "unhealthy", 1),
    ],
)
def test_it_is_healthy_only_if_nothing_is_wrong(
    run_on: RunOn, health: str, troubles: list[dict[str, Any]], word: str, code: int
) -> None:
    """An endpoint that refuses all is named, though it is never held."""
    topics = [{"name": "orders", "subscriptions": LISTED}]
    waiting = {
        "events": 1, "oldestSeenSeconds": 95.0, "awaitingBlob": 3, "blobsDueSeconds": 300.0
    }  # fmt: skip
    bodies = {
        "/status/health": HEALTH | {"status": health, "timers": TIMERS},
        "/status/topics": {"waiting": waiting, "troubles": troubles, "value": topics},
    }

    shown = run_on(lambda path, _: (200, bodies[path]), "status")
    document = run_on(lambda path, _: (200, bodies[path]), "status", "--json")

    assert (shown.code, document.code) == (code, code)
    found, lines = document.document, shown.out.splitlines()
    assert lines[:2] == [
        f"{URL} is {word}",
        f"  about 1 event waits, the oldest seen is 0:01:35 old; 3 {GIVEN_UP}",
    ]
    assert (found["status"], found["troubles"]) == (word, troubles)
    assert "orders/slow gets at most 10; 2 share it" in lines
    assert found["limits"] == [{"topic": "orders", "subscription": "slow", **LISTED[-1]["limits"]}]
    held = {"paused": None, "held": LISTED[0]["held"]}
    assert found["holds"] == [{"topic": "orders", "subscription": "crm", **held}]
    timer = next(line for line in lines if "wake" in line)
    assert timer.split()[1:3] == ["2026-02-09", "12:00:00"]
    if troubles:
        assert [line for line in lines[3:10] if line] == [
            f"orders/crm is failing, dead-lettering since 2026-02-09 11:58:00;{lines[1][1:]}",
            "  400 BadRequest at 11:59:41: no such \N{REPLACEMENT CHARACTER}[31mcustomer",
            "  pushgrid timeline --topic orders --subscription crm",
            "orders/erp is awaiting validation; 0 events wait",
            "  no handshake",
            "  pushgrid timeline --topic orders --subscription crm",
        ]


def test_what_waits_is_shown_while_nothing_can_be_stored(run_on: RunOn) -> None:
    health = HEALTH | {
        "status": "unhealthy", "reasons": ["refused"], "storage": "refusing", "timers": TIMERS
    }  # fmt: skip
    topics = {"waiting": {"events": 1, "oldestSeenSeconds": None}, "troubles": [], "value": []}
    bodies = {"/status/health": (503, health), "/status/topics": (200, topics)}

    shown = run_on(lambda path, _: bodies[path], "status")

    assert (shown.code, shown.err) == (1, "")
    lines = shown.out.splitlines()
    assert lines[:3] == [f"{URL} is unhealthy", "  refused", "  about 1 event waits"]
    assert any(line.startswith("wake") for line in lines)


def test_a_deployment_of_an_earlier_version_is_not_called_healthy(run_on: RunOn) -> None:
    found = run_on(
        lambda path, _: (200, HEALTH if path == "/status/health" else {"value": []}), "status"
    )

    assert (found.code, "is not known: an earlier version runs there" in found.out) == (1, True)
