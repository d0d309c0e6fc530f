"""Many slow endpoints leave the healthy ones quick, and no invocation runs long. Design §2."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from devhost.azurite import Azurite
from devhost.process import RunningHost, running_host
from testbed.arm import Arm
from testbed.host_settings import host_settings
from testbed.subscriber import Push, Subscriber
from tests.e2e.publishing import an_event, ids, send

HANGING, HEALTHY = 40, 5
FUNCTION_TIMEOUT = 600  # seconds, of host.json


class Runs:
    """The log lines of the invocations that have ended."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def on_line(self, line: str) -> None:
        start = line.find('{"event":"delivery.run"')
        if start >= 0:
            self.lines.append(json.loads(line[start:]))

    def of(self, topic: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["topic"] == topic]


@pytest.fixture
def runs() -> Runs:
    return Runs()


@pytest.fixture
def fresh(own_azurite: Azurite, runs: Runs) -> Iterator[RunningHost]:
    """A host that nothing is known of; it is killed, so that nobody waits for hanging pushes."""
    with running_host(host_settings(own_azurite), on_line=runs.on_line) as running:
        yield running
        running.kill()


def delays_of(subscriber: Subscriber, sent: dict[str, float]) -> list[float]:
    """Return seconds from publish to receipt, sorted."""
    return sorted(push.at - sent[push.events[0]["id"]] for push in subscriber.pushes)


def test_dozens_of_endpoints_that_begin_to_hang_leave_healthy_ones_quick(
    fresh: RunningHost, subscriber: Callable[..., Subscriber], report: Callable[[str], None]
) -> None:
    """
    40 subscriptions hang 30 s and 5 are healthy, all of one topic; all of them were quick before.

    The host has 24 messages of a queue in flight: hanging ones held them all for 30 s.
    """
    hangs = threading.Event()

    def answer(_: Push) -> int:
        if hangs.is_set():
            time.sleep(31)
        return 200

    healthy, hanging = subscriber(), subscriber(answer)
    arm = Arm(fresh.url)
    arm.create_topic("dozens")
    for number in range(HANGING):
        arm.create_subscription("dozens", f"a-hanging-{number}", f"{hanging.url}?{number}")
    for number in range(HEALTHY):
        arm.create_subscription("dozens", f"healthy-{number}", f"{healthy.url}?{number}")
    key = arm.key("dozens")
    send(fresh.url, "dozens", key, [an_event()])
    assert healthy.wait_for(lambda pushes: len(pushes) >= HEALTHY, 20)
    assert hanging.wait_for(lambda pushes: len(pushes) >= HANGING, 20)
    healthy.pushes.clear()
    hangs.set()

    sent: dict[str, float] = {}
    for number in range(20):
        event = an_event(number)
        sent[event.id] = time.time()
        send(fresh.url, "dozens", key, [event])
        time.sleep(0.7)
    count = len(sent) * HEALTHY
    assert healthy.wait_for(lambda pushes: len(pushes) >= count, 25)

    delays = delays_of(healthy, sent)
    report(
        f"beside {HANGING} hanging endpoints: p50 {delays[len(delays) // 2]:.2f} s, "
        f"longest {delays[-1]:.2f} s for {count} deliveries"
    )
    assert delays[-1] < 12


def test_thousands_of_events_for_a_slow_endpoint_hold_no_invocation_for_long(
    fresh: RunningHost,
    runs: Runs,
    subscriber: Callable[..., Subscriber],
    report: Callable[[str], None],
) -> None:
    """
    5,000 events in one request to an endpoint that takes 3 s, which is half an hour of pushes.

    What finds no slot within a minute goes back. A healthy subscription is served meanwhile.
    """

    def answer(_: Push) -> int:
        time.sleep(3)
        return 200

    healthy, slow = subscriber(), subscriber(answer)
    arm = Arm(fresh.url)
    for topic, url in (("thousands", slow.url), ("single", healthy.url)):
        arm.create_topic(topic)
        arm.create_subscription(topic, "hook", url)
    began = time.time()
    send(fresh.url, "thousands", arm.key("thousands"), [an_event(n) for n in range(5000)])

    sent: dict[str, float] = {}
    key = arm.key("single")
    while time.time() < began + 72:
        event = an_event()
        sent[event.id] = time.time()
        send(fresh.url, "single", key, [event])
        time.sleep(0.5)
    assert healthy.wait_for(lambda pushes: len(ids(pushes)) >= len(sent), 10)

    ended = runs.of("thousands")
    longest = max(run["seconds"] for run in ended)
    delays = delays_of(healthy, sent)
    report(
        f"5,000 events to an endpoint that takes 3 s: {len(ended)} invocations ended, the longest "
        f"after {longest:.0f} s; {len(slow.pushes)} pushes in {time.time() - began:.0f} s; "
        f"beside it p50 {delays[len(delays) // 2]:.2f} s, longest {delays[-1]:.2f} s"
    )
    assert len(ended) >= 79  # every message was received, for a message has 64 events
    assert longest < 100 < FUNCTION_TIMEOUT
    assert len(slow.pushes) >= 8 * 60 / 3 * 0.7
    assert len(ids(slow.pushes)) == len(slow.pushes)
    assert delays[len(delays) * 99 // 100] < 8
