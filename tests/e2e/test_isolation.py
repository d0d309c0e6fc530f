"""
Endpoints that hang keep nobody else waiting. Design §2, Isolation.

`make soak OF=ratios` prints how long the others take beside them and alone.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import pytest

from devhost.azurite import Azurite
from devhost.process import RunningHost, running_host
from testbed.arm import Arm
from testbed.host_settings import host_settings
from testbed.subscriber import Push, Subscriber
from tests.e2e.publishing import an_event, ids, send

ROUNDS = 12
ENDPOINTS = 40  # that hang


class TimedOut(Counter[str]):
    """Counts the attempts of each topic that have failed: here only those do that hang."""

    def on_line(self, line: str) -> None:
        start = line.find('{"event":"delivery.attempted"')
        if start >= 0:
            self[json.loads(line[start:])["topic"]] += 1


@dataclass(slots=True)
class Hanging:
    """Answers at once until it *hangs*; what it got by then is answered when the test is *over*."""

    hangs: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)

    def answer(self, _: Push) -> int:
        if self.hangs.is_set():
            self.over.wait()
        return 200


@pytest.fixture(scope="module")
def timed_out() -> TimedOut:
    return TimedOut()


@pytest.fixture(scope="module")
def host(own_azurite: Azurite, timed_out: TimedOut) -> Iterator[RunningHost]:
    """A host that is killed, so that nobody waits for what hangs."""
    with running_host(host_settings(own_azurite), on_line=timed_out.on_line) as running:
        yield running
        running.kill()


def test_others_are_served_while_dozens_of_endpoints_hang(
    host: RunningHost,
    timed_out: TimedOut,
    arm: Arm,
    subscriber: Callable[..., Subscriber],
    name: str,
) -> None:
    """
    Each hangs with a push under way; they were quick until then.

    Each round sends an event to them, to a healthy endpoint of the same topic and to one of
    another topic. If those that hang kept what all share, the healthy endpoints would get nothing
    until a push that hangs has timed out: the first round would wait for that, and many of the
    others.
    """
    trouble, healthy, neighbour = Hanging(), subscriber(), subscriber()
    hanging = subscriber(trouble.answer)
    other = f"{name}-other"
    for topic in (name, other):
        arm.create_topic(topic)
    for number in range(ENDPOINTS):
        arm.create_subscription(name, f"a-hanging-{number}", f"{hanging.url}?{number}")
    arm.create_subscription(
        name, "healthy", healthy.url, filter={"subjectBeginsWith": "/orders/round"}
    )
    arm.create_subscription(other, "neighbour", neighbour.url)
    key, others_key = arm.key(name), arm.key(other)
    send(host.url, name, key, [an_event()])
    assert hanging.wait_for(lambda got: len(got) >= ENDPOINTS)
    hanging.pushes.clear()
    trouble.hangs.set()
    try:
        send(host.url, name, key, [an_event()])
        assert hanging.wait_for(lambda got: len(got) >= ENDPOINTS)

        waited = 0
        for number in range(ROUNDS):
            event = an_event()
            event.subject = f"/orders/round-{number}"
            before = timed_out[name]
            send(host.url, name, key, [event])
            send(host.url, other, others_key, [event])
            for each in (healthy, neighbour):
                assert each.wait_for(partial(_contain, event.id))
            waited += timed_out[name] > before
            assert waited <= number / 3, f"{waited} of {number + 1} waited for what hangs"
    finally:
        trouble.over.set()
        for number in range(ENDPOINTS):
            arm.delete_subscription(name, f"a-hanging-{number}")


def _contain(event: str, pushes: list[Push]) -> bool:
    return event in ids(pushes)
