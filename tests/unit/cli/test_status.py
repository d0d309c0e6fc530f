"""`pushgrid status` on scripted answers: what is wrong, and storage that goes meanwhile."""

from __future__ import annotations

import json
from typing import Any

import pytest
import requests

from cli.program import main

HEALTH = {"status": "healthy", "reasons": [], "storage": "reachable", "queues": {}, "timers": {}}
AWAY = {"error": {"code": "StorageUnavailable", "message": "Storage is unavailable."}}


@pytest.mark.parametrize("options", [[], ["--json"]])
@pytest.mark.parametrize("what", ["/holds", "/status/topics"])
def test_a_deployment_whose_troubles_can_not_be_read_is_not_healthy(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    what: str,
) -> None:
    def request(_: str, url: str, **__: Any) -> requests.Response:
        answer = requests.Response()
        is_away = url.endswith(what)
        found = {"value": []} if url.endswith("/holds") else HEALTH
        answer.status_code = 503 if is_away else 200
        answer._content = json.dumps(AWAY if is_away else found).encode()
        return answer

    monkeypatch.setattr(requests, "request", request)

    assert main(["status", "--url", "http://127.0.0.1:1", "--key", "k", *options]) == 1

    out, err = capsys.readouterr()
    why = "what is wrong with event subscriptions is not known: "
    assert err == ""
    assert why in out
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
PENDING = FAILING | {
    "subscription": "erp",
    "kind": "pending",
    "also": [],
    "since": None,
    "why": "no handshake",
    "waiting": 0,
    "oldestSeenSeconds": None,
}
LISTED: list[dict[str, Any]] = [
    {"name": "crm", "limits": {}},
    {"name": "damaged"},
    {"name": "slow", "limits": {"atOnce": 10, "processes": 2, "text": "at most 10; 2 share it"}},
]


@pytest.mark.parametrize(
    ("health", "troubles", "word", "code"),
    [
        ("healthy", [], "healthy", 0),
        ("healthy", [FAILING, PENDING], "degraded", 1),
        ("unhealthy", [FAILING, PENDING], "unhealthy", 1),
    ],
)
def test_it_is_healthy_only_if_nothing_is_wrong(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    health: str,
    troubles: list[dict[str, Any]],
    word: str,
    code: int,
) -> None:
    """An endpoint that refuses all is named, though it is never held."""
    bodies = {
        "health": HEALTH | {"status": health},
        "holds": {"value": []},
        "topics": {
            "waiting": {"events": 1, "oldestSeenSeconds": 95.0},
            "troubles": troubles,
            "value": [{"name": "orders", "subscriptions": LISTED}],
        },
    }

    def request(_: str, url: str, **__: Any) -> requests.Response:
        answer = requests.Response()
        answer.status_code = 200
        answer._content = json.dumps(bodies[url.rpartition("/")[2]]).encode()
        return answer

    monkeypatch.setattr(requests, "request", request)

    codes = [
        main(["status", "--url", "http://127.0.0.1:1", "--key", "k", *each])
        for each in ([], ["--json"])
    ]

    text, brace, document = capsys.readouterr().out.partition("\n{")
    assert codes == [code, code]
    lines = text.splitlines()
    assert lines[:2] == [
        f"http://127.0.0.1:1 is {word}",
        "  1 event waits, the oldest seen is 0:01:35 old",
    ]
    found = json.loads(brace + document)
    assert (found["status"], found["troubles"]) == (word, troubles)
    *_, limited = (line for line in lines if " gets " in line)
    assert limited == "orders/slow gets at most 10; 2 share it"
    assert found["limits"] == [{"topic": "orders", "subscription": "slow", **LISTED[-1]["limits"]}]
    lines.remove(limited)
    shown = [line for line in lines if line.startswith(("orders/", "  4", "  no", "  push"))]
    assert shown == (
        []
        if not troubles
        else [
            f"orders/crm is failing, dead-lettering since 2026-02-09 11:58:00;{lines[1][1:]}",
            "  400 BadRequest at 11:59:41: no such \N{REPLACEMENT CHARACTER}[31mcustomer",
            "  pushgrid timeline --topic orders --subscription crm",
            "orders/erp is pending; 0 events wait",
            "  no handshake",
            "  pushgrid timeline --topic orders --subscription crm",
        ]
    )


def test_a_deployment_of_an_earlier_version_is_not_called_healthy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def request(_: str, url: str, **__: Any) -> requests.Response:
        answer = requests.Response()
        answer.status_code = 200
        answer._content = json.dumps(HEALTH if url.endswith("health") else {"value": []}).encode()
        return answer

    monkeypatch.setattr(requests, "request", request)

    assert main(["status", "--url", "http://127.0.0.1:1", "--key", "k"]) == 1

    assert "is not known: an earlier version runs there" in capsys.readouterr().out
