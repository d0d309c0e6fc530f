"""The 3-minute rule on the running system, in real time. Contract §3.5."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from bench.load import log_lines
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
    eventually(
        lambda: sum(run.get("retried", 0) for run in log_lines(host.lines, "delivery.run")), 1
    )
    stored = messages(own_azurite)
    is_stored.set()
    eventually(partial(messages, own_azurite), 0)

    assert stored == 1
    (line,) = log_lines(host.lines, "delivery.answered_late")
    assert (line["subscription"], line["status"], line["cancelled"]) == ("late", 200, True)
    assert [len(each.pushes) for each in (late, neighbour)] == [1, 1]
