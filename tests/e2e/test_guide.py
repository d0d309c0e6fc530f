"""What the guide shows of the management client runs as it stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import azure.functions as func
import pytest
import requests

from cli.deployment import DEFAULT_SCOPE
from devhost.process import RunningHost
from testbed.arm import ADMIN_KEY, Arm
from testbed.subscriber import Subscriber

GUIDE = Path(__file__).parents[2] / "docs/guide.md"
# The resource group of the guide's commands, and of `pushgrid` itself.
ORDERS = f"{DEFAULT_SCOPE}/providers/Microsoft.EventGrid/topics/orders"
TIME_SCALE = 10  # a storage of its own: in another the guide's names may be taken


def snippet(heading: str) -> str:
    """Return the first program under a heading."""
    text = GUIDE.read_text("utf-8").split(f"## {heading}\n")[1]
    found = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert found
    return found[1]


def test_the_management_code(host: RunningHost, subscriber: Callable[..., Subscriber]):
    endpoint = subscriber().url
    destination = {"endpointType": "WebHook", "properties": {"endpointUrl": endpoint}}
    for path, body in (
        (ORDERS, {"location": "local"}),
        (f"{ORDERS}/eventSubscriptions/crm", {"properties": {"destination": destination}}),
    ):
        headers = {"Authorization": f"Bearer {ADMIN_KEY}"}
        url = f"{host.url}{path}?api-version=2025-02-15"
        assert requests.put(url, json=body, headers=headers, timeout=60).status_code == 201
    program = snippet("Your management code works unchanged")

    run = subprocess.run(
        [sys.executable, "-c", program.replace("http://127.0.0.1:7071", host.url)],
        env=os.environ | {"ADMIN_KEY": ADMIN_KEY},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert run.returncode == 0, run.stderr
    assert "crm WebHook ['sales']" in run.stdout.splitlines()


def test_the_function_that_sends_an_account_s_events_on(
    host: RunningHost,
    arm: Arm,
    subscriber: Callable[..., Subscriber],
    name: str,
    monkeypatch: pytest.MonkeyPatch,
):
    arm.create_topic(name, inputSchema="CloudEventSchemaV1_0")
    receiver = subscriber()
    arm.create_subscription(name, "images", receiver.url)
    monkeypatch.setenv("PUSHGRID_TOPIC_ENDPOINT", f"{host.url}/topics/{name}/api/events")
    monkeypatch.setenv("PUSHGRID_TOPIC_KEY", arm.key(name))
    programs = GUIDE.read_text("utf-8").split("## Blob events\n")[1].split("```python\n")
    made: dict[str, Any] = {}
    exec(programs[2].split("```")[0], made)  # noqa: S102 - what the guide shows
    event = func.EventGridEvent(
        id="e-1",
        data={"api": "PutBlob", "url": "https://shop.blob.core.windows.net/in/a"},
        topic=f"{DEFAULT_SCOPE}/providers/Microsoft.Storage/storageAccounts/shop",
        subject="/blobServices/default/containers/in/blobs/a",
        event_type="Microsoft.Storage.BlobCreated",
        event_time=datetime(2026, 2, 9, 12, tzinfo=UTC),
        data_version="",
    )

    made["forward"]._function.get_user_function()(event)

    assert receiver.wait_for(bool)
    (told,) = receiver.pushes[0].events
    assert (told["id"], told["source"], told["data"]["api"]) == ("e-1", event.topic, "PutBlob")
