"""What `pushgrid subscription list` says of a subscription."""

from __future__ import annotations

from typing import Any

import pytest

from cli.deployment import Deployment
from cli.program import main

ID = "/subscriptions/s1/providers/Microsoft.EventGrid/topics/orders"


@pytest.mark.parametrize(
    ("expires", "state"),
    [
        ("2020-02-09T12:00:00Z", "expired at 2020-02-09 12:00:00"),
        ("9020-02-09T12:00:00Z", "Succeeded"),
        (None, "Succeeded"),
    ],
)
def test_an_expired_one_says_so(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    expires: str | None,
    state: str,
) -> None:
    properties = {"provisioningState": "Succeeded", "expirationTimeUtc": expires}
    document: dict[str, Any] = {
        "id": f"{ID}/eventSubscriptions/crm",
        "name": "crm",
        "properties": properties | {"destination": {"endpointType": "WebHook", "properties": {}}},
    }
    found = {"eventSubscriptions": [document]}
    monkeypatch.setattr(Deployment, "list", lambda _, path: found.get(path, []))
    monkeypatch.setattr(Deployment, "get", lambda *_: {"value": []})

    assert main(["subscription", "list", "--key", "k", "--url", "http://127.0.0.1:1"]) == 0

    assert state in capsys.readouterr().out
