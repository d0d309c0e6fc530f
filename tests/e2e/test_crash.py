"""Kill the host in the middle of everything: nothing that was accepted is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from urllib.parse import urljoin, urlsplit

import pytest

from devhost.azurite import Azurite, running_azurite
from devhost.process import running_host
from testbed.arm import Arm
from testbed.host_settings import host_settings
from testbed.subscriber import Push, Subscriber
from tests.e2e.publishing import an_event, send
from tests.host.running import until

OPTIONS = ("--invisibility", "5")  # what a killed host had received is visible again after 5 s
SECONDS = 0.3  # that an endpoint takes to answer

Delivered = tuple[str, str]  # the path of the subscription's endpoint, and the event's id


@pytest.mark.parametrize(
    ("publishers", "batch", "subscriptions"),
    [
        pytest.param(1, 20, 1, id="requests of 20"),
        pytest.param(16, 1, 1, id="group commits"),
        pytest.param(4, 1, 10, id="fan-out messages"),
    ],
)
def test_nothing_accepted_is_lost_when_the_host_is_killed(
    publishers: int,
    batch: int,
    subscriptions: int,
    subscriber: Callable[..., Subscriber],
    report: Callable[[str], None],
):
    """
    Killed when at least 50 deliveries were received and at least 50 accepted ones were not.

    All publishers have a request under way then; those of 16 share commits. Of ten subscriptions
    each has received a part of what fan-out messages have for it.
    """
    is_killed = threading.Event()

    def answer(_: Push) -> int:
        """Answer more slowly than events are published; a second would make the endpoint slow."""
        is_killed.wait(SECONDS)
        return 200

    receiver = subscriber(answer)
    accepted: set[Delivered] = set()
    with running_azurite() as azurite:
        try:
            waiting = _until_killed(azurite, receiver, accepted, publishers, batch, subscriptions)
        finally:
            is_killed.set()
        with running_host(host_settings(azurite), options=OPTIONS):
            everything = receiver.wait_for(lambda pushes: accepted <= _delivered(pushes))
    received = _delivered(receiver.pushes)
    duplicates = sum(len(push.events) for push in receiver.pushes) - len(received)
    report(
        f"kill -9, {publishers} publishers, {subscriptions} subscriptions: {len(accepted)} "
        f"accepted, {waiting} waiting, lost {len(accepted - received)}, duplicates {duplicates}"
    )

    assert everything
    assert accepted - received == set()


def _delivered(pushes: Iterable[Push]) -> set[Delivered]:
    return {(push.path, event["id"]) for push in pushes for event in push.events}


def _until_killed(
    azurite: Azurite,
    receiver: Subscriber,
    accepted: set[Delivered],
    publishers: int,
    batch: int,
    subscriptions: int,
) -> int:
    """Publish from threads and kill the host; return how many accepted deliveries were waiting."""
    paths = [f"{urlsplit(receiver.url).path.rstrip('/')}/{n}" for n in range(subscriptions)]
    with running_host(host_settings(azurite), options=OPTIONS) as host:
        arm = Arm(host.url)
        arm.create_topic("orders")
        for number, path in enumerate(paths):
            arm.create_subscription("orders", f"crm-{number}", urljoin(receiver.url, path))
        key = arm.key("orders")

        def publish() -> None:
            """Publish until a request is unanswered, because the host was killed."""
            while True:
                events = [an_event() for _ in range(batch)]
                try:
                    send(host.url, "orders", key, events)
                except Exception:  # noqa: BLE001 - not accepted
                    return
                accepted.update((path, event.id) for event in events for path in paths)

        threads = [threading.Thread(target=publish) for _ in range(publishers)]
        for thread in threads:
            thread.start()
        try:
            # Publishers never wait for deliveries: the longer it takes, the more are waiting.
            until(lambda: len(receiver.pushes) >= 50 and _waiting(accepted, receiver) >= 50)
        finally:
            host.kill()
            for thread in threads:
                thread.join()
    return _waiting(accepted, receiver)


def _waiting(accepted: set[Delivered], receiver: Subscriber) -> int:
    return len(accepted.copy() - _delivered(list(receiver.pushes)))
