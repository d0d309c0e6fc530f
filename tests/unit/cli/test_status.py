"""`pushgrid status` on scripted answers: storage that goes while it is asked."""

from __future__ import annotations

import json
from typing import Any

import pytest
import requests

from cli.program import main

HEALTH = {"status": "healthy", "reasons": [], "storage": "reachable", "queues": {}, "timers": {}}
AWAY = {"error": {"code": "StorageUnavailable", "message": "Storage is unavailable."}}


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_deployment_whose_holds_can_not_be_read_is_not_healthy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    def request(_: str, url: str, **__: Any) -> requests.Response:
        answer = requests.Response()
        answer.status_code = 503 if url.endswith("/holds") else 200
        answer._content = json.dumps(AWAY if url.endswith("/holds") else HEALTH).encode()
        return answer

    monkeypatch.setattr(requests, "request", request)

    assert main(["status", "--url", "http://127.0.0.1:1", "--key", "k", *options]) == 1

    out, err = capsys.readouterr()
    why = "what is paused or held is not known: 503 StorageUnavailable: Storage is unavailable."
    assert err == ""
    assert why in out
    assert ("unhealthy" in out, '"healthy"' in out, "is healthy" in out) == (True, False, False)
