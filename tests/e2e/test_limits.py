"""Large events arrive unchanged; what is too large or malformed is refused and not stored."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from azure.storage.blob import BlobServiceClient

from devhost.azurite import Azurite
from devhost.process import RunningHost
from testbed.arm import Arm
from testbed.subscriber import Subscriber
from tests.e2e.publishing import post
from tests.e2e.waiting import messages

TIME_SCALE = 10  # a storage of its own: what is in it is counted
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


def _stored(azurite: Azurite) -> int:
    """Count everything in storage that a publish request could leave."""
    blobs = BlobServiceClient.from_connection_string(azurite.connection_string)
    payloads = [
        blob
        for container in blobs.list_containers()
        if container.name == "payloads"
        for blob in blobs.get_container_client(container.name).list_blobs()
    ]
    return messages(azurite) + len(payloads)


REFUSED: list[tuple[str, bytes, int, str]] = [
    ("too large", b"[" + b" " * 1_535_999 + b"]", 413, "RequestEntityTooLarge"),
    ("as large as allowed, without an event", b"[" + b" " * 1_535_998 + b"]", 400, "BadRequest"),
    ("one bad event", json.dumps([EVENT, {"id": "2"}]).encode(), 400, "BadRequest"),
]


@pytest.mark.parametrize(
    ("body", "status", "code"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_what_is_refused_is_not_stored(
    host: RunningHost,
    own_azurite: Azurite,
    arm: Arm,
    subscriber: Callable[..., Subscriber],
    name: str,
    body: bytes,
    status: int,
    code: str,
):
    """What is malformed is told in unit tests."""
    arm.create_topic(name)
    arm.create_subscription(name, "everything", subscriber().url)
    before = _stored(own_azurite)

    response = post(host.url, name, arm.key(name), body)

    assert response.status_code == status
    assert response.headers["Content-Type"] == "application/json; charset=utf-8"
    error = response.json()["error"]
    assert error["code"] == code
    assert error["details"][0]["message"] == error["message"]
    assert _stored(own_azurite) == before
