"""Publishing with the official SDKs, and waiting for what came of it."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import requests
from azure.core.credentials import AzureKeyCredential
from azure.eventgrid import EventGridEvent, EventGridPublisherClient

from testbed.subscriber import Push

#: The body of a publish request.
ONE_EVENT = (
    b'[{"id":"1","subject":"/a","eventType":"T","eventTime":"2026-01-01T00:00:00Z","data":{}}]'
)
_JAVASCRIPT = Path(__file__).parents[1] / "clients" / "javascript"


def endpoint(url: str, topic: str) -> str:
    return f"{url}/topics/{topic}/api/events"


def an_event(number: int = 0, **data: Any) -> EventGridEvent:
    return EventGridEvent(
        subject=f"/orders/{number}",
        event_type="Shop.OrderPlaced",
        data={"number": number} | data,
        data_version="1.0",
        id=f"{number}-{uuid.uuid4()}",
    )


def send(url: str, topic: str, key: str, events: Sequence[EventGridEvent]) -> None:
    with EventGridPublisherClient(endpoint(url, topic), AzureKeyCredential(key)) as client:
        client.send(list(events))


def post(url: str, topic: str, key: str, body: bytes, **headers: str) -> requests.Response:
    given = {"aeg-sas-key": key, "Content-Type": "application/json"} | headers
    return requests.post(endpoint(url, topic), data=body, headers=given, timeout=60)


def ids(pushes: Iterable[Push]) -> set[str]:
    return {event["id"] for push in pushes for event in push.events}


def publish_with_javascript(**request: Any) -> subprocess.CompletedProcess[str]:
    """Run Microsoft's JavaScript publisher on *request*, as publish.js describes it."""
    return run_javascript("publish.js", request)


def run_javascript(program: str, request: Mapping[str, Any]) -> subprocess.CompletedProcess[str]:
    """Run a program with Microsoft's JavaScript clients; *request* is what it reads."""
    assert (_JAVASCRIPT / "node_modules").is_dir(), "set up by `make clients`"
    # Beside Python, if the machine has none or it is too old.
    beside_python = Path(sys.executable).with_name("node")
    node = str(beside_python) if beside_python.exists() else "node"
    return subprocess.run(
        [node, program],
        cwd=_JAVASCRIPT,
        input=json.dumps(request),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
