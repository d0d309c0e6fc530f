"""The 3-minute rule on the running system, in real time. Contract §3.5."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from devhost.azurite import Azurite
from devhost.process import RunningHost, running_host
from testbed.arm import Arm
from testbed.host_settings import host_settings
from testbed.subscriber import PATIENCE, Push, Subscriber
from tests.e2e.publishing import an_event, send
from tests.e2e.waiting import eventually, messages


@pytest.fixture(scope="module")
def host(own_azurite: Azurite) -> Iterator[RunningHost]:
    """The host without a time scale: the endpoints' time is never scaled."""
    with running_host(host_settings(own_azurite)) as running:
        yield running


def test_an_answer_after_the_timeout_cancels_the_retry(
    host: RunningHost,
    own_azurite: Azurite,
    arm: Arm,
    subscriber: Callable[..., Subscriber],
    name: str,
) -> None:
    """
    The endpoint answers when its retry is stored, at most 10 s before that is due.

    That somebody who has received the retry sends it all the same is proved in functional tests.
    """
    is_stored = threading.Event()

    def answer(_: Push) -> int:
        return 200 if is_stored.wait(PATIENCE) else 400

    late, neighbour = subscriber(answer), subscriber()
    arm.create_topic(name)
    arm.create_subscription(name, "late", late.url)
    arm.create_subscription(name, "neighbour", neighbour.url)

    send(host.url, name, arm.key(name), [an_event()])
    assert neighbour.wait_for(lambda pushes: len(pushes) >= 1)
    eventually(lambda: [run["retried"] for run in _lines(host, "delivery.run", "late")], [1])
    stored = messages(own_azurite)
    is_stored.set()
    eventually(partial(messages, own_azurite), 0)

    assert stored == 1
    (line,) = _lines(host, "delivery.answered_late", "late")
    assert (line["status"], line["cancelled"]) == (200, True)
    assert [len(each.pushes) for each in (late, neighbour)] == [1, 1]


def _lines(host: RunningHost, event: str, subscription: str) -> list[dict[str, Any]]:
    """Return what the host has logged of a subscription."""
    mark = f'{{"event":"{event}"'
    found = [json.loads(line[line.index(mark) :]) for line in list(host.lines) if mark in line]
    return [line for line in found if line["subscription"] == subscription]
