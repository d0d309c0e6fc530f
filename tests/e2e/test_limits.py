"""Large events arrive unchanged; what is too large is refused."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest
import requests

from cli.deployment import DEFAULT_SCOPE
from devhost.process import RunningHost
from testbed.arm import ADMIN_KEY, Arm
from testbed.subscriber import Subscriber
from tests.e2e.publishing import post

LARGEST = 4 * 1024 * 1024  # bytes: the largest body that the host takes
EVENT = {
    "id": "1",
    "subject": "/orders/1",
    "eventType": "Shop.OrderPlaced",
    "eventTime": "2026-01-02T03:04:05Z",
    "dataVersion": "1.0",
}


def _text(chance: random.Random, length: int) -> str:
    """Characters of every plane, none of them half a surrogate pair."""
    ranges = ((0x20, 0x7E), (0xA0, 0x2FFF), (0x1F300, 0x1FAFF), (0, 0x1F))
    return "".join(chr(chance.randint(*chance.choice(ranges))) for _ in range(length))


def test_a_megabyte_arrives_equal(
    host: RunningHost, arm: Arm, subscriber: Callable[..., Subscriber], name: str
):
    """Integers exactly, floats as the same double, strings code point by code point."""
    arm.create_topic(name)
    receiver = subscriber()
    arm.create_subscription(name, "large", receiver.url)
    chance = random.Random(1)
    data: dict[str, Any] = {
        "integers": [2**53 + 1, -(2**63), 10**40, 0],
        "floats": [0.1, 5e-324, 1.7976931348623157e308, -0.0, *(chance.random() for _ in range(9))],
        "text": _text(chance, 90_000),
        "nested": [[[[{"a": None, "b": [True, False]}]]]],
        "filler": "x" * 650_000,
    }
    body = json.dumps([EVENT | {"data": data}], ensure_ascii=False).encode()
    assert 900_000 < len(body) < 1_049_600

    response = post(host.url, name, arm.key(name), body)
    receiver.wait_for(lambda pushes: len(pushes) >= 1)

    assert response.status_code == 200
    assert response.content == b""
    received = receiver.pushes[0].events[0]["data"]
    assert received == data
    assert json.dumps(received) == json.dumps(data)  # -0.0 and 1 are not 0.0 and 1.0


@pytest.mark.parametrize("size", [1_536_001, LARGEST])
def test_what_is_too_large_is_refused_by_the_app(host: RunningHost, arm: Arm, name: str, size: int):
    """The host would answer 500, which SDKs repeat."""
    arm.create_topic(name)
    body = b"[" + b" " * (size - 2) + b"]"

    published = post(host.url, name, arm.key(name), body)
    managed = requests.put(
        f"{host.url}{DEFAULT_SCOPE}/providers/Microsoft.EventGrid/topics/{name}",
        params={"api-version": "2025-02-15"},
        data=body,
        headers={"Authorization": f"Bearer {ADMIN_KEY}", "Content-Type": "application/json"},
        timeout=60,
    )

    assert (published.status_code, managed.status_code) == (413, 413)
    assert published.headers["Content-Type"] == "application/json; charset=utf-8"
    assert published.json()["error"]["code"] == "RequestEntityTooLarge"
    assert managed.json()["error"]["code"] == "RequestEntityTooLarge"
