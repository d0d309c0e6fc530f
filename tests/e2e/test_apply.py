"""`pushgrid apply`: one file, on the running product."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from devhost.process import RunningHost
from testbed.subscriber import Subscriber
from tests.commands import Run
from tests.e2e.publishing import an_event, send

KEY = "bG9jYWwta2V5"


def webhook(url: str) -> dict[str, Any]:
    destination = {"endpointType": "WebHook", "properties": {"endpointUrl": url}}
    return {"properties": {"destination": destination}}


def test_a_file_from_nothing_to_a_delivery(
    pushgrid: Run,
    host: RunningHost,
    name: str,
    subscriber: Callable[..., Subscriber],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In a resource group of its own."""
    group = f"/subscriptions/{uuid.uuid4()}/resourceGroups/{uuid.uuid4().hex}"
    monkeypatch.setenv("PUSHGRID_SCOPE", group)
    monkeypatch.chdir(tmp_path)
    there = subscriber()
    absent = webhook("http://127.0.0.1:9/") | {"consent": "assumed"}
    subscriptions = {"absent": absent, "crm": webhook(there.url)}
    wanted = {"topics": {name: {"keys": {"key1": KEY}, "eventSubscriptions": subscriptions}}}

    Path("pushgrid.json").write_text(json.dumps(wanted))

    planned = pushgrid("apply", "pushgrid.json", "--dry-run")
    listed = pushgrid("topic", "list", "--json").document
    first, second = (pushgrid("apply", "pushgrid.json") for _ in range(2))

    inner = "".join(f"+ event subscription {name}/{each}\n" for each in ("absent", "crm"))
    created = f"+ topic {name}\n{inner}"
    unchecked = "2 not checked: what they need does not exist yet.\n"
    assert planned == (0, f"{created}Dry run: 3 to create.\n{unchecked}", "")
    assert listed == []
    assert first == (0, f"{created}3 created.\n", "")
    assert second == (0, "Nothing to change: the deployment is as pushgrid.json says.\n", "")
    send(host.url, name, KEY, [an_event()])
    assert there.wait_for(bool)
