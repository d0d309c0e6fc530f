"""The official publisher works unchanged, and a plain HTTP server gets each event once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from azure.core.credentials import AzureKeyCredential, AzureSasCredential
from azure.eventgrid import EventGridPublisherClient, generate_sas

from devhost.process import RunningHost
from testbed.arm import Arm
from testbed.subscriber import Subscriber
from tests.e2e.publishing import an_event, endpoint, ids


@pytest.mark.parametrize("carrier", ["key", "sas"])
def test_each_event_of_the_sdk_arrives_once_with_its_headers(
    host: RunningHost, arm: Arm, subscriber: Callable[..., Subscriber], name: str, carrier: str
):
    created = arm.create_topic(name)
    endpoint_of_subscriber = subscriber()
    arm.create_subscription(name, "Crm", endpoint_of_subscriber.url)
    url, key = endpoint(host.url, name), arm.key(name)
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
