"""A host whose clock differs from storage's from the start, as the whole product shows it."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from bench.load import log_lines
from devhost.azurite import Azurite
from devhost.process import running_host
from testbed.arm import Arm
from testbed.host_settings import host_settings
from testbed.storage_proxy import running_storage_proxy
from testbed.subscriber import Subscriber
from tests.e2e.publishing import an_event, send


@pytest.mark.parametrize("hours", [30, -30], ids=["behind", "ahead"])
def test_a_host_that_starts_with_a_wrong_clock_says_so_and_delivers(
    own_azurite: Azurite, subscriber: Callable[..., Subscriber], name: str, hours: int
) -> None:
    """Azurite has the machine's clock: the proxy moves what it says."""
    lines: list[str] = []
    receiver = subscriber()
    with running_storage_proxy(own_azurite) as proxy:
        proxy.ahead = timedelta(hours=hours)
        with running_host(host_settings(proxy.azurite), on_line=lines.append) as host:
            arm = Arm(host.url)
            arm.create_topic(name)
            arm.create_subscription(name, "crm", receiver.url)
            send(host.url, name, arm.key(name), [an_event(0)])
            assert receiver.wait_for(lambda pushes: len(pushes) == 1)
            with urllib.request.urlopen(f"{host.url}/status/health") as answer:
                found: dict[str, Any] = json.load(answer)

    assert found["status"] == "degraded"
    [reason] = [each for each in found["reasons"] if "differs from storage's" in each]
    assert f"by {-hours * 36}" in reason.replace("+", "")
    jumps = log_lines(lines, "clock.jumped")
    assert [each["against"] for each in jumps] == ["storage"]
