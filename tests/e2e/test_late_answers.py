"""The 3-minute rule on the running system, in real time. Contract §3.5; design §2, Late answer."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator

import pytest
from azure.storage.queue import QueueServiceClient

from devhost.azurite import ACCOUNT, Azurite
from devhost.process import RunningHost, running_host
from testbed.arm import Arm, dead_letter_destination
from testbed.host_settings import host_settings
from testbed.subscriber import Answer, Push, Subscriber
from tests.e2e.publishing import an_event, ids, send


@pytest.fixture(scope="module")
def host(own_azurite: Azurite) -> Iterator[RunningHost]:
    """The host without a time scale: the endpoints' time is never scaled."""
    with running_host(host_settings(own_azurite)) as running:
        yield running


def test_an_answer_after_the_timeout_cancels_the_retry_unless_it_has_begun(
    host: RunningHost,
    own_azurite: Azurite,
    arm: Arm,
    subscriber: Callable[..., Subscriber],
) -> None:
    """
    Timeout 30 s, first retry due at 40 s, at most 1 s of jitter.

    Answered 200 after 35 s: one push. After 45 s: the retry has begun; two pushes, and the answer
    to the second, at 85 s, cancels the third, due at 100 s. Meanwhile others are served.
    """
    topic, other = (f"{name}-{uuid.uuid4().hex[:8]}" for name in ("late", "other"))
    over = threading.Event()

    def after(seconds: float) -> Answer:
        def answer(_: Push) -> int:
            over.wait(seconds)
            return 200

        return answer

    in_time, too_late, neighbour = subscriber(after(35)), subscriber(after(45)), subscriber()
    healthy = subscriber()
    dead_letters = dead_letter_destination(ACCOUNT, "dead")
    for name in (topic, other):
        arm.create_topic(name)
    for name, each in (("in-time", in_time), ("too-late", too_late), ("neighbour", neighbour)):
        arm.create_subscription(topic, name, each.url, deadLetterDestination=dead_letters)
    arm.create_subscription(other, "healthy", healthy.url)

    event, others = an_event(), dict[str, float]()
    began = time.time()
    send(host.url, topic, arm.key(topic), [event])
    try:
        while (passed := time.time() - began) < 98:
            if passed > 86 and not queued(own_azurite):
                break
            another = an_event()
            others[another.id] = time.time()
            send(host.url, other, arm.key(other), [another])
            time.sleep(1)
    finally:
        over.set()

    assert queued(own_azurite) == 0
    assert [counts(each) for each in (in_time, too_late)] == [["0"], ["0", "1"]]
    assert ids(in_time.pushes) == ids(too_late.pushes) == {event.id}
    assert 40 <= too_late.pushes[1].at - too_late.pushes[0].at < 44
    assert len(neighbour.pushes) == 1
    assert neighbour.pushes[0].at - began < 5
    delays = [push.at - others[push.events[0]["id"]] for push in healthy.pushes]
    assert len(delays) == len(others)
    assert max(delays) < 5


def counts(subscriber: Subscriber) -> list[str]:
    return [push.headers["aeg-delivery-count"] for push in subscriber.pushes]


def queued(azurite: Azurite) -> int:
    """Count the messages of all queues, hidden or not."""
    client = QueueServiceClient.from_connection_string(azurite.connection_string)
    with client:
        queues = [client.get_queue_client(each) for each in client.list_queues()]
        return sum(each.get_queue_properties().approximate_message_count or 0 for each in queues)
