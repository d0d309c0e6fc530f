"""
Runs a host under trouble for minutes, prints figures, and judges ratios (`make soak OF=ratios`).

`slow`: thousands of events for an endpoint that takes 3 s, beside a healthy endpoint, whose delays
are compared with those it had alone. `outage`: an endpoint is down for a while; the most requests a
second after that are compared with those before.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import requests

from bench.load import progress
from devhost.azurite import running_azurite
from devhost.process import RunningHost, running_host
from testbed.arm import Arm
from testbed.host_settings import host_settings
from testbed.subscriber import Answer, Push, Subscriber, running_subscriber

MANY, AT_ONCE = 5000, 500  # events for the slow endpoint: more messages than the host takes at once
TAKES, SLOTS = 3.0, 8  # seconds that it takes, and pushes of one subscription at a time
SCALE = 4.0  # of the outage's waits
WINDOW = 5.0  # seconds of a peak


class Ratio(NamedTuple):
    """A figure without a unit, and between which limits it is right."""

    what: str
    value: float
    least: float
    most: float

    @property
    def is_met(self) -> bool:
        return self.least <= self.value <= self.most


class Publisher(NamedTuple):
    """Publishes to one topic."""

    url: str
    key: str
    sent: dict[str, float]  # when each event was

    def send(self, count: int) -> None:
        ids = [f"e-{len(self.sent) + number}" for number in range(count)]
        event = {"subject": "/a", "eventType": "T", "eventTime": "2026-01-01T00:00:00Z"}
        body = json.dumps([event | {"id": each, "data": {}} for each in ids])
        self.sent.update(dict.fromkeys(ids, time.time()))
        headers = {"aeg-sas-key": self.key, "Content-Type": "application/json"}
        while requests.post(self.url, body, headers=headers, timeout=60).status_code != 200:
            time.sleep(0.1)  # as the SDKs do

    def send_for(self, seconds: float, every: float, count: int) -> None:
        due = time.monotonic()
        ends = due + seconds
        while due < ends:
            self.send(count)
            due += every
            time.sleep(max(0.0, due - time.monotonic()))


def subscribed(host: RunningHost, topic: str, endpoint: Subscriber) -> Publisher:
    """Create a topic whose events one endpoint gets."""
    arm = Arm(host.url)
    arm.create_topic(topic)
    arm.create_subscription(topic, "hook", endpoint.url)
    return Publisher(f"{host.url}/topics/{topic}/api/events", arm.key(topic), {})


@contextmanager
def stage(
    answer: Answer, on_line: Callable[[str], None] | None = None, **settings: str
) -> Iterator[tuple[RunningHost, Subscriber]]:
    """Run a host with a storage of its own, and an endpoint that gives *answer*."""
    with (
        running_azurite() as azurite,
        running_host(host_settings(azurite, **settings), on_line=on_line) as host,
        running_subscriber(answer) as endpoint,
    ):
        yield host, endpoint
        host.kill()  # nobody waits for what is on its way


def slow(seconds: float) -> list[Ratio]:
    """Send to a healthy endpoint alone, then for *seconds* beside a slow one."""
    runs: list[float] = []

    def on_line(line: str) -> None:
        start = line.find('{"event":"delivery.run"')
        if start >= 0 and (run := json.loads(line[start:]))["topic"] == "many":
            runs.append(run["seconds"])

    def take_long(_: Push) -> int:
        time.sleep(TAKES)
        return 200

    with stage(take_long, on_line) as (host, busy), running_subscriber() as healthy:
        single, many = subscribed(host, "single", healthy), subscribed(host, "many", busy)
        single.send(1)
        progress("a healthy endpoint alone")
        single.send_for(seconds / 3, 0.5, 1)
        alone = delays(healthy, single)
        progress(f"beside {MANY} events for an endpoint that takes {TAKES:.0f} s")
        for _ in range(MANY // AT_ONCE):
            many.send(AT_ONCE)
        single.sent.clear()
        healthy.pushes.clear()
        began = time.monotonic()
        single.send_for(seconds, 0.5, 1)
        beside = delays(healthy, single)
        took, pushed = time.monotonic() - began, [push.events[0]["id"] for push in busy.pushes]
    print(
        f"slow: healthy p50 {at(alone, 0.5):.2f} s alone, {at(beside, 0.5):.2f} s beside; p99 "
        f"{at(alone, 0.99):.2f} s alone, {at(beside, 0.99):.2f} s beside; {len(runs)} invocations "
        f"of the slow one ended; {len(pushed)} pushes in {took:.0f} s"
    )
    return [
        Ratio("healthy p50, beside : alone", at(beside, 0.5) / at(alone, 0.5), 0, 10),
        Ratio("healthy p99, beside : alone", at(beside, 0.99) / at(alone, 0.99), 0, 30),
        Ratio("slow pushes : what eight slots can", len(pushed) * TAKES / SLOTS / took, 0.7, 9),
        Ratio("slow pushes : events among them", len(pushed) / len(set(pushed)), 1, 1),
        Ratio("longest invocation : a slow push", max(runs, default=0.0) / TAKES, 0, 3),
    ]


def outage(seconds: float) -> list[Ratio]:
    """Send 20 events a second for *seconds*, during half of which the endpoint is down."""
    is_down = threading.Event()
    with stage(lambda _: 503 if is_down.is_set() else 200, PUSHGRID_TIME_SCALE=str(SCALE)) as (
        host,
        endpoint,
    ):
        orders = subscribed(host, "orders", endpoint)
        progress("20 events a second")
        orders.send_for(seconds / 4, 0.2, 4)
        is_down.set()
        down_at = time.time()
        progress("the endpoint is down")
        orders.send_for(seconds / 2, 0.2, 4)
        is_down.clear()
        up_at = time.time()
        progress("the endpoint is up")
        orders.send_for(seconds / 4, 0.2, 4)

        def taken(pushes: list[Push]) -> set[str]:
            kept = [push for push in pushes if not down_at <= push.at < up_at]
            return {push.events[0]["id"] for push in kept}

        arrived = endpoint.wait_for(lambda pushes: len(taken(pushes)) == len(orders.sent), 600)
    times = sorted(push.at for push in endpoint.pushes)
    before = sum(each < down_at for each in times) / (seconds / 4)
    after = [each for each in times if each >= up_at]
    peak = max(sum(first <= each < first + WINDOW for each in after) for first in after) / WINDOW
    print(
        f"outage: {before:.1f} requests/s before, at most {peak:.1f}/s over {WINDOW:.0f} s after; "
        f"everything was there {after[-1] - up_at:.0f} s after the endpoint was up"
    )
    return [
        Ratio("peak after an outage : before", peak / before, 0, 3),
        Ratio("events that arrived : sent", float(arrived), 1, 1),
    ]


def delays(endpoint: Subscriber, publisher: Publisher) -> list[float]:
    """Return the seconds from publish to receipt, sorted, once everything has arrived."""
    endpoint.wait_for(lambda pushes: len(pushes) >= len(publisher.sent))
    sent = publisher.sent
    found = ((push.at, push.events[0]["id"]) for push in endpoint.pushes)
    return sorted(at_ - sent[each] for at_, each in found if each in sent)


def at(found: Sequence[float], share: float) -> float:
    """Return the value below which a *share* of what was *found* lies."""
    return found[int(len(found) * share)]


PARTS = {"slow": slow, "outage": outage}


def main(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> int:
    """Print figures and ratios; returns 1 if one is out of its limits."""
    parser.add_argument("--seconds", type=float, default=90, help="of each part")
    parser.add_argument("--part", choices=PARTS, action="append", help="default: all")
    options = parser.parse_args(arguments)
    ratios = [each for part in options.part or PARTS for each in PARTS[part](options.seconds)]
    for ratio in ratios:
        limits = f"{ratio.least:g} to {ratio.most:g}"
        verdict = "" if ratio.is_met else "   OUT OF ITS LIMITS"
        print(f"{ratio.what:<40}{ratio.value:>7.2f}   ({limits}){verdict}")
    return 0 if all(ratio.is_met for ratio in ratios) else 1
