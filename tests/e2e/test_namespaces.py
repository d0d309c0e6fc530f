"""Topics of namespaces, with the official client: published, delivered, dead-lettered."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from typing import Any

import pytest
import requests
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
from testbed.subscriber import Subscriber, answers
from tests.e2e.dead_letters import DeadLetters

TIME_SCALE = 50
HEADERS = [
    {"name": "X-Team", "type": "Static", "properties": {"value": "crm"}},
    {"name": "X-Key", "type": "Static", "properties": {"value": "s3", "isSecret": True}},
    {"name": "X-Number", "type": "Dynamic", "properties": {"sourceField": "data.number"}},
]


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


def test_binary_mode_is_read(
    host: RunningHost, arm: Arm, subscriber: Callable[..., Subscriber], namespace: str
):
    receiver = subscriber()
    arm.create_namespace_subscription((namespace, "orders"), "crm", receiver.url)
    attributes = {"specversion": "1.0", "id": "a", "source": "/s", "type": "t", "team": "a%20b"}

    answer = requests.post(
        f"{host.url}/namespaces/{namespace}/topics/orders:publish?api-version=2024-06-01",
        headers={
            "Authorization": f"SharedAccessKey {arm.key(namespace, 'namespaces')}",
            "Content-Type": "application/octet-stream",
        }
        | {f"ce-{name}": value for name, value in attributes.items()},
        data=b"\x00\xff",
        timeout=60,
    )
    receiver.wait_for(lambda pushes: len(pushes) >= 1)

    assert (answer.status_code, answer.content) == (200, b"{}")
    assert receiver.pushes[0].events == [
        attributes
        | {"team": "a b", "datacontenttype": "application/octet-stream", "data_base64": "AP8="}
    ]


def test_what_fails_comes_again_by_its_age_and_ends_in_the_envelope(
    host: RunningHost,
    arm: Arm,
    subscriber: Callable[..., Subscriber],
    namespace: str,
    dead_letters: DeadLetters,
):
    """Tried at 0, 10 and 30 s of its age; never again after a 404, whatever the default profile."""
    receiver = subscriber(answers(500, 500, 404))
    arm.create_namespace_subscription(
        (namespace, "orders"),
        "Crm",
        receiver.url,
        {"deliveryAttributeMappings": HEADERS},
        eventTimeToLive="PT12H",
        deadLetterDestinationWithResourceIdentity={
            "identity": {"type": "SystemAssigned"},
            "deadLetterDestination": dead_letters.destination,
        },
    )
    sent = an_event(7, extensions={"team": "a"})

    with publisher(host, namespace, arm.key(namespace, "namespaces")) as client:
        client.send(sent)
    ((name, letters),) = dead_letters.wait_for(1).items()

    folder, _, blob = name.rpartition("/")
    assert re.fullmatch(rf"{namespace}/orders/Crm/20\d\d/[1-9]\d?/[1-9]\d?/(0|[1-9]\d?)", folder)
    assert uuid.UUID(blob.removesuffix(".json"))
    assert [push.headers["aeg-delivery-count"] for push in receiver.pushes] == ["0", "1", "2"]
    assert receiver.pushes[0].headers["x-key"] == "s3"
    (letter,) = letters
    assert letter["event"] == receiver.pushes[0].events[0]
    assert letter["customDeliveryProperties"] == {"X-Team": "crm", "X-Number": "7"}
    told = letter["deadLetterProperties"]
    times = [told.pop("publishutc"), told.pop("deliveryattemptutc")]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{7}Z", each) for each in times)
    assert times[0] < times[1]
    assert told == {
        "deadletterreason": "Undeliverable due to client error",
        "deliveryattempts": 3,
        "deliveryresult": "NotFound",
    }


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
