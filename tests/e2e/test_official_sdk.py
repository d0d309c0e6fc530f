"""The official publisher works unchanged, and a plain HTTP server gets each event once."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from azure.core.credentials import AzureKeyCredential, AzureSasCredential
from azure.core.messaging import CloudEvent
from azure.eventgrid import EventGridPublisherClient, generate_sas

from devhost.process import RunningHost
from testbed.arm import Arm
from testbed.subscriber import Subscriber
from tests.e2e.publishing import an_event, endpoint, ids


@pytest.fixture
def topic() -> str:
    return f"topic-{uuid.uuid4().hex[:8]}"


@pytest.mark.parametrize("carrier", ["key", "sas"])
def test_each_event_of_the_sdk_arrives_once_with_its_headers(
    host: RunningHost, arm: Arm, subscriber: Callable[..., Subscriber], topic: str, carrier: str
):
    created = arm.create_topic(topic)
    endpoint_of_subscriber = subscriber()
    arm.create_subscription(topic, "Crm", endpoint_of_subscriber.url)
    url, key = endpoint(host.url, topic), arm.key(topic)
    credential = (
        AzureKeyCredential(key)
        if carrier == "key"
        else AzureSasCredential(generate_sas(url, key, datetime.now(UTC) + timedelta(hours=1)))
    )
    events = [an_event(number, text="grüße ☃ 💶") for number in range(100)]

    with EventGridPublisherClient(url, credential) as client:
        client.send(events[0])
        client.send(events[1:])
    endpoint_of_subscriber.wait_for(lambda pushes: len(pushes) >= 100)

    pushes = endpoint_of_subscriber.pushes
    assert len(pushes) == 100
    assert ids(pushes) == {event.id for event in events}
    push = next(push for push in pushes if push.events[0]["id"] == events[7].id)
    assert push.events == [
        {
            "id": events[7].id,
            "subject": "/orders/7",
            "eventType": "Shop.OrderPlaced",
            "eventTime": push.events[0]["eventTime"],
            "data": {"number": 7, "text": "grüße ☃ 💶"},
            "dataVersion": "1.0",
            "metadataVersion": "1",
            "topic": created["id"],
        }
    ]
    expected = {
        "content-type": "application/json; charset=utf-8",
        "aeg-event-type": "Notification",
        "aeg-subscription-name": "CRM",
        "aeg-delivery-count": "0",
        "aeg-data-version": "1.0",
        "aeg-metadata-version": "1",
    }
    assert push.headers.items() >= expected.items()
    assert len({push.headers["aeg-output-event-id"] for push in pushes}) == 100


def test_cloud_events_arrive_as_single_objects(
    host: RunningHost, arm: Arm, subscriber: Callable[..., Subscriber], topic: str
):
    arm.create_topic(topic, inputSchema="CloudEventSchemaV1_0")
    receiver = subscriber()
    arm.create_subscription(topic, "crm", receiver.url)
    sent = CloudEvent(source="/shop", type="shop.placed", data={"n": 1}, extensions={"team": "a"})

    credential = AzureKeyCredential(arm.key(topic))
    with EventGridPublisherClient(endpoint(host.url, topic), credential) as client:
        client.send(sent)
    receiver.wait_for(lambda pushes: len(pushes) >= 1)

    (push,) = receiver.pushes
    assert push.body.startswith(b"{")
    assert CloudEvent.from_dict(push.events[0]).data == {"n": 1}
    assert push.events[0].items() >= {"id": sent.id, "source": "/shop", "team": "a"}.items()
    assert (
        push.headers.items()
        >= {
            "content-type": "application/cloudevents+json; charset=utf-8",
            "aeg-event-type": "Notification",
            "aeg-metadata-version": "1.0",
            "webhook-request-origin": "eventgrid.azure.net",
        }.items()
    )
    assert "aeg-data-version" not in push.headers


def test_an_event_grid_topic_delivers_cloud_events_where_asked(
    host: RunningHost, arm: Arm, subscriber: Callable[..., Subscriber], topic: str
):
    created = arm.create_topic(topic)
    receiver = subscriber()
    arm.create_subscription(topic, "crm", receiver.url, eventDeliverySchema="CloudEventSchemaV1_0")
    sent = an_event(3)

    with EventGridPublisherClient(
        endpoint(host.url, topic), AzureKeyCredential(arm.key(topic))
    ) as client:
        client.send(sent)
    receiver.wait_for(lambda pushes: len(pushes) >= 1)

    (event,) = receiver.pushes[0].events
    assert (
        event.items()
        >= {
            "specversion": "1.0",
            "id": sent.id,
            "source": created["id"],
            "type": "Shop.OrderPlaced",
            "subject": "/orders/3",
            "dataschema": "#1.0",
            "data": {"number": 3},
        }.items()
    )


def test_filters_choose_who_gets_what(
    host: RunningHost, arm: Arm, subscriber: Callable[..., Subscriber], topic: str
):
    arm.create_topic(topic)
    everything, evens = subscriber(), subscriber()
    arm.create_subscription(topic, "everything", everything.url)
    arm.create_subscription(topic, "evens", evens.url, filter={"subjectEndsWith": "/2"})

    credential = AzureKeyCredential(arm.key(topic))
    with EventGridPublisherClient(endpoint(host.url, topic), credential) as client:
        client.send([an_event(1), an_event(2), an_event(3)])
    everything.wait_for(lambda pushes: len(pushes) >= 3)
    evens.wait_for(lambda pushes: len(pushes) >= 1)

    assert [push.events[0]["subject"] for push in evens.pushes] == ["/orders/2"]
    assert len(everything.pushes) == 3
