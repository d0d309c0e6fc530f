"""Kill the host in the middle of everything: nothing that was accepted is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from devhost.azurite import Azurite, running_azurite
from devhost.process import running_host
from testbed.arm import Arm
from testbed.host_settings import host_settings
from testbed.subscriber import Push, Subscriber
from tests.e2e.publishing import an_event, ids, send
from tests.host.running import until

OPTIONS = ("--invisibility", "5")  # what a killed host had received is visible again after 5 s
ENOUGH = 300  # accepted events


@pytest.mark.parametrize(("publishers", "batch"), [(1, 20), (16, 1)])
def test_nothing_accepted_is_lost_when_the_host_is_killed(
    publishers: int,
    batch: int,
    subscriber: Callable[..., Subscriber],
    report: Callable[[str], None],
):
    """
    Killed when at least 50 events were received and at least 50 accepted ones were not.

    All publishers have a request under way then; those of 16 share commits.
    """
    is_killed = threading.Event()

    def answer(_: Push) -> int:
        """Take 50 events; the next requests are unanswered when the host is killed."""
        if len(receiver.pushes) > 50:
            is_killed.wait()
        return 200

    receiver = subscriber(answer)
    accepted: set[str] = set()
    with running_azurite() as azurite:
        try:
            waiting = _until_killed(azurite, receiver, accepted, publishers, batch)
        finally:
            is_killed.set()
        with running_host(host_settings(azurite), options=OPTIONS):
            everything = receiver.wait_for(lambda pushes: accepted <= ids(pushes))
    received = ids(receiver.pushes)
    duplicates = len(receiver.pushes) - len(received)
    report(
        f"kill -9, {publishers} publishers: {len(accepted)} accepted, {waiting} waiting, "
        f"lost {len(accepted - received)}, duplicates {duplicates}"
    )

    assert everything
    assert accepted - received == set()


def _until_killed(
    azurite: Azurite, receiver: Subscriber, accepted: set[str], publishers: int, batch: int
) -> int:
    """Publish from threads and kill the host; return how many accepted events were waiting."""
    with running_host(host_settings(azurite), options=OPTIONS) as host:
        arm = Arm(host.url)
        arm.create_topic("orders")
        arm.create_subscription("orders", "crm", receiver.url)
        key = arm.key("orders")

        def publish() -> None:
            """Publish until a request is unanswered, because the host was killed."""
            while True:
                events = [an_event() for _ in range(batch)]
                try:
                    send(host.url, "orders", key, events)
                except Exception:  # noqa: BLE001 - not accepted
                    return
                accepted.update(event.id for event in events)

        threads = [threading.Thread(target=publish) for _ in range(publishers)]
        for thread in threads:
            thread.start()
        try:
            # Unanswered pushes fill the slots of a subscription, 64 at most: over 50 events wait.
            until(lambda: len(receiver.pushes) >= 50 and len(accepted) >= ENOUGH)
        finally:
            host.kill()
            for thread in threads:
                thread.join()
    waiting = len(accepted - ids(receiver.pushes))
    assert waiting >= 50
    return waiting
