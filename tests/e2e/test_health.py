"""Probation and delayed delivery: kept in storage, and so the same for every host on it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from devhost.azurite import running_azurite
from devhost.process import running_host
from testbed.arm import Arm
from testbed.host_settings import host_settings
from testbed.subscriber import Push, Subscriber
from tests.e2e.publishing import an_event, ids, send

STARTS = 3.0  # seconds within which requests that follow a hold have come


def test_probation_survives_a_restart_and_holds_for_a_second_host(
    subscriber: Callable[..., Subscriber], report: Callable[[str], None]
):
    """404 means 5 minutes of probation, here 30 s: nothing, then one probe of either host."""
    scale, probation = 10, 30.0
    receiver = subscriber(lambda _: 404)
    with running_azurite() as azurite:
        settings = host_settings(azurite, PUSHGRID_TIME_SCALE=str(scale))
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
            receiver.wait_for(lambda pushes: len(pushes) >= 2)
            time.sleep(STARTS)

    gaps = [push.at - began for push in receiver.pushes[1:]]
    report(
        f"probation of {probation:.0f} s over a restart, two hosts: 10 events published by "
        f"{published:.1f} s, requests after {', '.join(f'{gap:.1f}' for gap in gaps)} s"
    )
    assert published < probation
    assert len(gaps) == 1  # its failure begins the next probation
    assert probation <= gaps[0] <= probation + 10


def test_delayed_delivery_holds_new_events_on_every_host_until_a_probe_succeeds(
    subscriber: Callable[..., Subscriber], report: Callable[[str], None]
):
    """Ten first attempts fail with 500, which has no probation: a minute's hold, here 15 s."""
    hold = 15.0
    is_up = threading.Event()

    def answer(_: Push) -> int:
        return 200 if is_up.is_set() else 500

    receiver = subscriber(answer)
    with running_azurite() as azurite:
        settings = host_settings(azurite, PUSHGRID_TIME_SCALE="4", PUSHGRID_PROFILE="2020")
        with running_host(settings) as host, running_host(settings) as second:
            arm = Arm(host.url)
            arm.create_topic("orders")
            arm.create_subscription("orders", "crm", receiver.url)
            key = arm.key("orders")
            events = [an_event(number) for number in range(12)]
            send(host.url, "orders", key, events[:10])
            assert receiver.wait_for(lambda pushes: len(pushes) >= 10)
            tenth = receiver.pushes[9].at
            time.sleep(1.5)  # longer than a host believes what it has read
            send(host.url, "orders", key, events[10:11])
            send(second.url, "orders", key, events[11:])
            is_up.set()
            expected = {event.id for event in events}
            everything = receiver.wait_for(lambda pushes: expected <= ids(pushes[10:]))

    gaps = [push.at - tenth for push in receiver.pushes[10:]]
    report(f"delayed delivery of {hold:.0f} s: requests again from {gaps[0]:.1f} s on")
    assert everything
    assert len(receiver.pushes) == 10 + len(events)
    assert hold - 0.5 <= gaps[0] <= hold + 10
