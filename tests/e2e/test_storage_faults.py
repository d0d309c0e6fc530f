"""Storage fails now and then: refused loudly or repeated, but nothing accepted is lost."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest
from azure.core.exceptions import HttpResponseError

from devhost.azurite import Azurite
from devhost.process import RunningHost, running_host
from testbed.arm import Arm
from testbed.host_settings import host_settings
from testbed.storage_proxy import StorageProxy, running_storage_proxy
from testbed.subscriber import Push, Subscriber, answers
from tests.e2e.publishing import an_event, ids, post, send

ONE_EVENT = (
    b'[{"id":"%d","subject":"/a","eventType":"T","eventTime":"2026-01-01T00:00:00Z","data":{}}]'
)
REQUESTS, EVENTS = 10, 10  # published, and in each


@pytest.fixture(scope="module")
def proxy(own_azurite: Azurite) -> Iterator[StorageProxy]:
    with running_storage_proxy(own_azurite) as running:
        yield running


@pytest.fixture(scope="module")
def host(proxy: StorageProxy) -> Iterator[RunningHost]:
    """A host in an edition without holds: where each event fails at first, no probe succeeds."""
    settings = host_settings(proxy.azurite, PUSHGRID_TIME_SCALE="30", PUSHGRID_PROFILE="2017")
    with running_host(settings, options=("--invisibility", "5")) as running:
        yield running


def test_publishing_is_refused_while_queues_fail_and_works_again_afterwards(
    host: RunningHost,
    proxy: StorageProxy,
    arm: Arm,
    subscriber: Callable[..., Subscriber],
    name: str,
):
    receiver = subscriber()
    arm.create_topic(name)
    arm.create_subscription(name, "crm", receiver.url)
    key = arm.key(name)

    proxy.fault = lambda service, verb, _: service == "queue" and verb == "POST"
    refused = post(host.url, name, key, ONE_EVENT % 1)
    proxy.fault = None
    accepted = post(host.url, name, key, ONE_EVENT % 2)
    receiver.wait_for(lambda pushes: "2" in ids(pushes))

    assert refused.status_code == 503
    assert int(refused.headers["Retry-After"]) >= 1
    assert refused.json()["error"]["code"] == "ServiceUnavailable"
    assert accepted.status_code == 200
    assert ids(receiver.pushes) == {"2"}


def test_nothing_is_lost_when_every_other_storage_request_fails(
    host: RunningHost,
    proxy: StorageProxy,
    arm: Arm,
    subscriber: Callable[..., Subscriber],
    report: Callable[[str], None],
    name: str,
):
    """
    Publishers repeat what is refused.

    Every event is retried once, so that every kind of message goes through the bad storage.
    """
    chance = random.Random(5)
    receiver = subscriber(answers(503, 200))
    accepted: set[str] = set()
    arm.create_topic(name)
    arm.create_subscription(name, "crm", receiver.url)
    key = arm.key(name)

    def publish(number: int) -> int:
        events = [an_event(number * EVENTS + i) for i in range(EVENTS)]
        for refusals in count():
            with contextlib.suppress(HttpResponseError):
                send(host.url, name, key, events)
                accepted.update(event.id for event in events)
                return refusals
        raise AssertionError

    def all_taken(pushes: list[Push]) -> bool:
        again = [push for push in pushes if push.headers["aeg-delivery-count"] != "0"]
        return accepted <= ids(again)

    proxy.fault = lambda *_: chance.random() < 0.5
    with ThreadPoolExecutor(REQUESTS) as threads:
        refusals = sum(threads.map(publish, range(REQUESTS)))
    everything = receiver.wait_for(all_taken)
    proxy.fault = None
    report(
        f"storage fails every other request: {len(accepted)} events accepted after {refusals} "
        f"refusals, {len(receiver.pushes)} pushes"
    )

    assert everything
