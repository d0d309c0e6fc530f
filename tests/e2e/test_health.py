"""Probation, delayed delivery and pauses: kept in storage, so the same for every host on it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from threading import Event

import pytest

from bench.load import log_lines
from cli.deployment import Deployment, subscription_path
from devhost.azurite import running_azurite
from devhost.process import RunningHost, running_host
from testbed.arm import ADMIN_KEY, Arm
from testbed.host_settings import host_settings
from testbed.subscriber import PATIENCE, Push, Subscriber
from tests.e2e.publishing import an_event, ids, send
from tests.host.running import until

STORED_READ = 1.5  # seconds: longer than a host believes what it has read
STARTS = 2.0  # seconds within which requests that follow a hold would have come


def test_probation_survives_a_restart_and_holds_for_a_second_host(
    subscriber: Callable[..., Subscriber], report: Callable[[str], None]
):
    """
    404 means 5 minutes of probation, scaled: nothing, then one probe of either host.

    Longer where two hosts have not started and taken ten events by then.
    """
    for probation in (15.0, 45.0, 100.0):
        gaps, published = _restart_during(probation, subscriber(lambda _: 404))
        if published < probation:
            break
    else:
        pytest.fail("two hosts take longer to start than the longest probation here")

    report(
        f"probation of {probation:.0f} s over a restart, two hosts: 10 events published by "
        f"{published:.1f} s, requests after {', '.join(f'{gap:.1f}' for gap in gaps)} s"
    )
    assert len(gaps) == 1  # its failure begins the next probation
    assert gaps[0] >= probation


def _restart_during(probation: float, receiver: Subscriber) -> tuple[list[float], float]:
    """Return when further requests came, and when ten events were published: seconds after 404."""
    with running_azurite() as azurite:
        settings = host_settings(azurite, PUSHGRID_TIME_SCALE=str(300 / probation))
        with running_host(settings) as host:
            arm = Arm(host.url)
            arm.create_topic("orders")
            arm.create_subscription("orders", "crm", receiver.url)
            key = arm.key("orders")
            send(host.url, "orders", key, [an_event(0)])
            assert receiver.wait_for(lambda pushes: len(pushes) >= 1)
            began = receiver.pushes[0].at
        with running_host(settings) as restarted, running_host(settings) as second:
            for number in range(1, 11):
                host = restarted if number % 2 else second
                send(host.url, "orders", key, [an_event(number)])
            published = time.time() - began
            assert receiver.wait_for(lambda pushes: len(pushes) >= 2)
            time.sleep(STARTS)
    return [push.at - began for push in receiver.pushes[1:]], published


@pytest.fixture(scope="module")
def hosts() -> Iterator[tuple[RunningHost, RunningHost]]:
    """Two hosts on one storage."""
    with running_azurite() as azurite:
        settings = host_settings(
            azurite,
            PUSHGRID_TIME_SCALE="6",
            PUSHGRID_PROFILE="2020",
            PUSHGRID_CACHE_SECONDS="1",
        )
        with running_host(settings) as host, running_host(settings) as second:
            yield host, second


def test_a_pause_on_one_host_keeps_the_events_of_all_until_another_resumes(
    hosts: tuple[RunningHost, RunningHost], subscriber: Callable[..., Subscriber]
):
    """It lasts longer than a retry: that of a push which was under way when it began."""
    is_paused = Event()

    def answer(push: Push) -> int:
        is_first = push.headers["aeg-delivery-count"] == "0"
        if push.events[0]["data"]["number"] or not is_first:
            return 200
        return 500 if is_paused.wait(PATIENCE) else 200

    receiver, path = subscriber(answer), subscription_path("paused", "crm")
    first, second = (Deployment(url=host.url, token=lambda: ADMIN_KEY) for host in hosts)
    arm = Arm(hosts[0].url)
    arm.create_topic("paused")
    arm.create_subscription("paused", "crm", receiver.url)
    key, events = arm.key("paused"), [an_event(number) for number in range(5)]
    send(hosts[0].url, "paused", key, events[:1])
    assert receiver.wait_for(bool)

    assert first.post(f"{path}/pause")["changed"]
    is_paused.set()
    time.sleep(STORED_READ)
    for number in range(1, 5):
        send(hosts[number % 2].url, "paused", key, events[number : number + 1])
    until(lambda: _held(hosts, "paused") >= len(events))
    assert len(receiver.pushes) == 1
    assert second.post(f"{path}/resume")["changed"]

    assert receiver.wait_for(lambda pushes: len(pushes) > len(events))
    assert sorted(each for push in receiver.pushes[1:] for each in ids([push])) == sorted(
        event.id for event in events
    )
    (retry,) = [push for push in receiver.pushes[1:] if push.events[0]["id"] == events[0].id]
    assert retry.headers["aeg-delivery-count"] == "1"


def _held(hosts: tuple[RunningHost, RunningHost], topic: str) -> int:
    """Return how many deliveries of a topic were held, each as often as it was."""
    runs = [run for host in hosts for run in log_lines(host.lines, "delivery.run")]
    return sum(run.get("held", 0) for run in runs if run["topic"] == topic)
