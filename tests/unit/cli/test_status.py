"""`pushgrid status` on scripted answers: what is wrong, and storage that goes meanwhile."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import requests

from cli.program import main

HEALTH = {"status": "healthy", "reasons": [], "storage": "reachable", "queues": {}, "timers": {}}
TIMERS = {"wake": {"lastRun": "2026-02-09T12:00:00.1234560Z", "failed": []}}
AWAY = {"error": {"code": "StorageUnavailable", "message": "Storage is unavailable."}}


Answer = Callable[[str], tuple[int, object]]
Status = Callable[..., tuple[int, str]]


@pytest.fixture
def status(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Status:
    """Run the command on what *answer* returns for a URL; return its exit code and output."""

    def run(answer: Answer, *options: str) -> tuple[int, str]:
        def request(_: str, url: str, **__: Any) -> requests.Response:
            found = requests.Response()
            found.status_code, document = answer(url)
            found._content = json.dumps(document).encode()
            return found

        monkeypatch.setattr(requests, "request", request)
        code = main(["status", "--url", "http://127.0.0.1:1", "--key", "k", *options])
        out, err = capsys.readouterr()
        assert err == ""
        return code, out

    return run


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_deployment_whose_troubles_can_not_be_read_is_not_healthy(
    status: Status, options: list[str]
) -> None:
    def answer(url: str) -> tuple[int, object]:
        return (503, AWAY) if url.endswith("/status/topics") else (200, HEALTH)

    code, out = status(answer, *options)

    assert code == 1
    assert "what is wrong with event subscriptions is not known: " in out
    assert "Storage is unavailable." in out
    assert ("unhealthy" in out, '"healthy"' in out, "is healthy" in out) == (True, False, False)


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
}
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
    status: Status, health: str, troubles: list[dict[str, Any]], word: str, code: int
) -> None:
    """An endpoint that refuses all is named, though it is never held."""
    bodies = {
        "health": HEALTH | {"status": health, "timers": TIMERS},
        "topics": {
            "waiting": {"events": 1, "oldestSeenSeconds": 95.0},
            "troubles": troubles,
            "value": [{"name": "orders", "subscriptions": LISTED}],
        },
    }

    def answer(url: str) -> tuple[int, object]:
        return 200, bodies[url.rpartition("/")[2]]

    ended, text = status(answer)
    as_json, document = status(answer, "--json")

    assert (ended, as_json) == (code, code)
    lines = text.splitlines()
    assert lines[:2] == [
        f"http://127.0.0.1:1 is {word}",
        "  about 1 event waits, the oldest seen is 0:01:35 old",
    ]
    found = json.loads(document)
    assert (found["status"], found["troubles"]) == (word, troubles)
    *_, limited = (line for line in lines if " gets " in line)
    assert limited == "orders/slow gets at most 10; 2 share it"
    assert found["limits"] == [{"topic": "orders", "subscription": "slow", **LISTED[-1]["limits"]}]
    held = {"paused": None, "held": LISTED[0]["held"]}
    assert found["holds"] == [{"topic": "orders", "subscription": "crm", **held}]
    lines.remove(limited)
    timer = next(line for line in lines if "wake" in line)
    assert timer.split()[1:3] == ["2026-02-09", "12:00:00"]
    shown = [line for line in lines if line.startswith(("orders/", "  4", "  no", "  push"))]
    assert shown == (
        []
        if not troubles
        else [
            f"orders/crm is failing, dead-lettering since 2026-02-09 11:58:00;{lines[1][1:]}",
            "  400 BadRequest at 11:59:41: no such \N{REPLACEMENT CHARACTER}[31mcustomer",
            "  pushgrid timeline --topic orders --subscription crm",
            "orders/erp is awaiting validation; 0 events wait",
            "  no handshake",
            "  pushgrid timeline --topic orders --subscription crm",
        ]
    )


def test_a_deployment_of_an_earlier_version_is_not_called_healthy(status: Status) -> None:
    code, out = status(lambda url: (200, HEALTH if url.endswith("health") else {"value": []}))

    assert code == 1
    assert "is not known: an earlier version runs there" in out
