"""What the guide shows of the management client runs as it stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import requests

from cli.deployment import DEFAULT_SCOPE
from devhost.process import RunningHost
from testbed.arm import ADMIN_KEY
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

    assert (run.stdout, run.returncode) == (f"crm {endpoint} ['sales']\n", 0), run.stderr
