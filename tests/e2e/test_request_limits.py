"""Limits of requests on two hosts, counted by the subscriber; a control has none."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import requests

from devhost.azurite import Azurite
from devhost.process import RunningHost, running_host
from testbed.arm import ADMIN_KEY, Arm
from testbed.host_settings import host_settings
from testbed.subscriber import PATIENCE, Push, Subscriber
from tests.e2e.publishing import an_event, send

AT_ONCE = 5
LIMITS = [
    {
        "name": "webhook-max-requests",
        "type": "Static",
        "properties": {"value": str(AT_ONCE), "isSecret": False},
    }
]


@dataclass(slots=True)
class Counting:
    """Answers after a second; *most* is how many requests were there at a time."""

    most: int = 0
    _now: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, _: Push) -> int:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
        time.sleep(1)
        with self._lock:
            self._now -= 1
        return 200


def state_of(host: RunningHost) -> dict[str, Any]:
    """Return what status says of the limits of the subscription that has them."""
    url, headers = f"{host.url}/status/topics", {"Authorization": f"Bearer {ADMIN_KEY}"}
    [topic] = requests.get(url, headers=headers, timeout=30).json()["value"]
    return next(each["limits"] for each in topic["subscriptions"] if each["name"] == "limited")


def publish_until(enough: Callable[[], bool], hosts: Sequence[RunningHost], key: str) -> None:
    """Publish more than the limit lets through, by each host: who receives also delivers."""
    end = time.monotonic() + PATIENCE
    while not enough():
        assert time.monotonic() < end
        for host in hosts:
            send(host.url, "limits", key, [an_event(number) for number in range(6)])
        time.sleep(1)


def test_two_hosts_together_keep_to_a_limit(
    own_azurite: Azurite, subscriber: Callable[..., Subscriber]
) -> None:
    settings = host_settings(own_azurite)
    limited, control = Counting(), Counting()
    with running_host(settings) as first, running_host(settings) as second:
        arm = Arm(first.url)
        arm.create_topic("limits")
        receiver = subscriber(limited)
        more = {"deliveryAttributeMappings": LIMITS}
        arm.create_subscription("limits", "limited", receiver.url, more)
        arm.create_subscription("limits", "control", subscriber(control).url)
        hosts, key = (first, second), arm.key("limits")

        publish_until(lambda: state_of(first)["processes"] == len(hosts), hosts, key)
        before = len(receiver.pushes)
        publish_until(lambda: len(receiver.pushes) >= before + 40, hosts, key)
        told = state_of(second)["text"]

    assert told == "at most 5 at a time; 2 processes share it: 2 or 3 each"
    assert limited.most == AT_ONCE
    assert control.most > AT_ONCE
