"""Topics of namespaces, with the official client: published, delivered, dead-lettered."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from azure.core.credentials import AzureKeyCredential
from azure.core.exceptions import (
    ClientAuthenticationError,
    HttpResponseError,
    ResourceNotFoundError,
)
from azure.core.messaging import CloudEvent
from azure.eventgrid import EventGridConsumerClient, EventGridPublisherClient

from devhost.process import RunningHost
from testbed.arm import Arm
from testbed.subscriber import Subscriber


@pytest.fixture
def namespace(arm: Arm) -> str:
    """A namespace with the topic ``orders``."""
    name = f"ns-{uuid.uuid4().hex[:8]}"
    arm.create_namespace(name)
    arm.create_namespace_topic(name, "orders", eventRetentionInDays=1)
    return name


def publisher(
    host: RunningHost, namespace: str, key: str, topic: str = "orders"
) -> EventGridPublisherClient:
    return EventGridPublisherClient(
        f"{host.url}/namespaces/{namespace}", AzureKeyCredential(key), namespace_topic=topic
    )


def an_event(number: int = 0, **attributes: Any) -> CloudEvent[Any]:
    return CloudEvent(
        source="/shop",
        type="shop.placed",
        subject=f"/orders/{number}",
        data={"number": number},
        **attributes,
    )


def test_the_official_client_publishes_one_and_many(
    host: RunningHost, arm: Arm, subscriber: Callable[..., Subscriber], namespace: str
):
    receiver = subscriber()
    arm.create_namespace_subscription((namespace, "orders"), "crm", receiver.url)
    one = an_event(1, extensions={"team": "a"})
    many = [an_event(number) for number in range(2, 5)]

    with publisher(host, namespace, arm.key(f"{namespace}/topics/orders", "namespaces")) as client:
        client.send(one)
    with publisher(host, namespace, arm.key(namespace, "namespaces")) as client:
        client.send(many)
    receiver.wait_for(lambda pushes: len(pushes) >= 4)

    assert {push.events[0]["id"] for push in receiver.pushes} == {each.id for each in (one, *many)}
    push = next(each for each in receiver.pushes if each.events[0]["id"] == one.id)
    assert push.body.startswith(b"{")
    assert push.events[0].items() >= {"team": "a", "data": {"number": 1}}.items()
    assert push.headers["aeg-compatibility-mode-enabled"] == "false"


def test_refusals_are_what_the_client_expects(host: RunningHost, arm: Arm, namespace: str):
    with pytest.raises(ClientAuthenticationError), publisher(host, namespace, "wrong") as client:
        client.send(an_event())
    key = arm.key(namespace, "namespaces")
    with pytest.raises(ResourceNotFoundError), publisher(host, namespace, key, "none") as client:
        client.send(an_event())


def test_pull_delivery_is_refused_by_name(host: RunningHost, arm: Arm, namespace: str):
    credential = AzureKeyCredential(arm.key(namespace, "namespaces"))
    with (
        EventGridConsumerClient(
            f"{host.url}/namespaces/{namespace}",
            credential,
            namespace_topic="orders",
            subscription="crm",
        ) as client,
        pytest.raises(HttpResponseError, match="subscribe a webhook"),
    ):
        client.receive(max_events=1)
