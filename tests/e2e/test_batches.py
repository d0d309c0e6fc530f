"""Output batching and custom headers on the running system, at ten times the speed of a day."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from itertools import chain, count

from devhost.process import RunningHost
from testbed.arm import Arm
from testbed.subscriber import Push, Subscriber
from tests.e2e.publishing import an_event, ids, send

AT_A_TIME = 100
HEADERS = [
    {"name": "x-team", "type": "Static", "properties": {"value": "crm"}},
    {"name": "Authorization", "type": "Static", "properties": {"value": "k3y", "isSecret": True}},
    {"name": "x-kind", "type": "Dynamic", "properties": {"sourceField": "data.kind"}},
]


def batch_ids(push: Push) -> list[str]:
    """Return the ids of a push, none of them twice."""
    found = [event["id"] for event in push.events]
    assert len(found) == len(set(found)) <= AT_A_TIME
    return found


def test_a_failed_batch_comes_back_with_its_headers_and_in_no_other_company(
    host: RunningHost, arm: Arm, subscriber: Callable[..., Subscriber], name: str
):
    """
    The first two requests fail; a batch of 1 KB events is kept in the payload blob.

    A request may have events of two messages; then each message brings its own back.
    """
    arm.create_topic(name, profile="2020")
    requests = count()
    refused: list[list[str]] = []

    def answer(push: Push) -> int:
        if next(requests) >= 2:
            return 200
        refused.append(batch_ids(push))
        return 503

    receiver = subscriber(answer)
    webhook = {
        "maxEventsPerBatch": AT_A_TIME,
        "preferredBatchSizeInKilobytes": 1024,
        "deliveryAttributeMappings": HEADERS,
    }
    shown = arm.create_subscription(name, "failing", receiver.url, webhook)
    events = [
        an_event(number, kind="ab"[number % 2], filler=uuid.uuid4().hex * 32)
        for number in range(2 * AT_A_TIME)
    ]

    send(host.url, name, arm.key(name), events)
    receiver.wait_for(lambda pushes: len(ids(pushes[2:])) >= len(events))

    assert "k3y" not in str(shown)
    (handshake,) = receiver.handshakes
    assert (handshake.headers["x-team"], handshake.headers["authorization"]) == ("crm", "k3y")
    again = [push for push in receiver.pushes if push.headers["aeg-delivery-count"] == "1"]
    assert sorted(chain.from_iterable(map(batch_ids, again))) == sorted(
        chain.from_iterable(refused)
    )
    for push in again:
        assert sum(set(batch_ids(push)) <= set(batch) for batch in refused) == 1
    accepted = [id_ for push in receiver.pushes for id_ in batch_ids(push)]
    for id_ in chain.from_iterable(refused):
        accepted.remove(id_)
    assert sorted(accepted) == sorted(event.id for event in events)
    for push in receiver.pushes:
        assert push.headers["x-team"] == "crm"
        assert push.headers["authorization"] == "k3y"
        assert {event["data"]["kind"] for event in push.events} == {push.headers["x-kind"]}
