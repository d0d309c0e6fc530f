"""Events of the publisher's own schema, with the official client: mapped, filtered, delivered."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from azure.core.credentials import AzureKeyCredential
from azure.eventgrid import EventGridPublisherClient

from devhost.process import RunningHost
from testbed.arm import Arm
from testbed.subscriber import Subscriber, answers
from tests.e2e.dead_letters import DeadLetters
from tests.e2e.publishing import endpoint

TIME_SCALE = 50
MAPPING = {
    "inputSchemaMappingType": "Json",
    "properties": {
        "id": {"sourceField": "key"},
        "eventTime": {"sourceField": "at"},
        "eventType": {"sourceField": "kind", "defaultValue": "Shop.Generic"},
        "subject": {"sourceField": "path", "defaultValue": "/none"},
        "dataVersion": {"defaultValue": "1.0"},
    },
}
# Of all kinds: an integer beyond a double, a long fraction, what is not ASCII, nesting.
GIVEN = {
    "key": "k-1",
    "at": "2026-02-09T12:00:00+01:00",
    "kind": "Shop.OrderPlaced",
    "path": "/orders/17",
    "total": 12345678901234567890,
    "rate": 0.1234567890123456,
    "small": 1e-12,
    "text": 'grüße ☃ 💶 \u0000 "',
    "none": None,
    "lines": [{"sku": "a", "tags": ["x", []]}, {"sku": "b", "deep": {"er": {"still": True}}}],
}
OTHER = {"key": "k-2", "total": 1}


@pytest.fixture
def topic(arm: Arm) -> str:
    name = f"custom-{uuid.uuid4().hex[:8]}"
    arm.create_topic(name, inputSchema="CustomEventSchema", inputSchemaMapping=MAPPING)
    return name


def send(host: RunningHost, arm: Arm, topic: str, *events: dict[str, Any]) -> None:
    credential = AzureKeyCredential(arm.key(topic))
    with EventGridPublisherClient(endpoint(host.url, topic), credential) as client:
        client.send(list(events))


def test_it_is_delivered_in_each_schema_unchanged(
    host: RunningHost, arm: Arm, subscriber: Callable[..., Subscriber], topic: str
):
    """The whole object is the data of the converted event; contract §1.4, §5.6."""
    as_sent, as_event, as_cloud_event = subscriber(), subscriber(), subscriber()
    arm.create_subscription(topic, "as-sent", as_sent.url)
    arm.create_subscription(topic, "as-event", as_event.url, eventDeliverySchema="EventGridSchema")
    arm.create_subscription(
        topic, "as-cloud-event", as_cloud_event.url, eventDeliverySchema="CloudEventSchemaV1_0"
    )

    send(host, arm, topic, GIVEN)
    for each in (as_sent, as_event, as_cloud_event):
        each.wait_for(lambda pushes: len(pushes) >= 1)

    assert as_sent.pushes[0].events == [GIVEN]
    assert as_sent.pushes[0].body.startswith(b"[")
    (event,) = as_event.pushes[0].events
    topic_id = event.pop("topic")
    assert topic_id.endswith(f"/topics/{topic}")
    assert event == {
        "id": "k-1",
        "subject": "/orders/17",
        "eventType": "Shop.OrderPlaced",
        "eventTime": "2026-02-09T12:00:00+01:00",
        "data": GIVEN,
        "dataVersion": "1.0",
        "metadataVersion": "1",
    }
    assert as_cloud_event.pushes[0].events == [
        {
            "specversion": "1.0",
            "id": "k-1",
            "source": topic_id,
            "type": "Shop.OrderPlaced",
            "subject": "/orders/17",
            "time": "2026-02-09T12:00:00+01:00",
            "dataschema": "#1.0",
            "data": GIVEN,
        }
    ]
    assert as_cloud_event.pushes[0].body.startswith(b"{")


def test_filters_match_the_original_and_the_mapped_event(
    host: RunningHost, arm: Arm, subscriber: Callable[..., Subscriber], topic: str
):
    filters: dict[str, dict[str, Any]] = {
        "data": {
            "advancedFilters": [
                {"operatorType": "NumberGreaterThan", "key": "data.total", "value": 10}
            ]
        },
        "subject": {"subjectBeginsWith": "/none"},
        "type": {"includedEventTypes": ["shop.generic"]},
        "both": {
            "subjectBeginsWith": "/orders",
            "advancedFilters": [
                {"operatorType": "StringIn", "key": "data.kind", "values": ["Shop.OrderPlaced"]}
            ],
        },
    }
    receivers = {name: subscriber() for name in filters}
    for name, wanted in filters.items():
        arm.create_subscription(topic, f"by-{name}", receivers[name].url, filter=wanted)

    send(host, arm, topic, GIVEN, OTHER)
    for each in receivers.values():
        each.wait_for(lambda pushes: len(pushes) >= 1)

    found = {
        name: [event["key"] for push in each.pushes for event in push.events]
        for name, each in receivers.items()
    }
    assert found == {"data": ["k-1"], "subject": ["k-2"], "type": ["k-2"], "both": ["k-1"]}


def test_its_dead_letter_is_wrapped_in_event_grids_envelope(
    host: RunningHost,
    arm: Arm,
    subscriber: Callable[..., Subscriber],
    topic: str,
    dead_letters: DeadLetters,
):
    receiver = subscriber(answers(400))
    arm.create_subscription(
        topic, "refusing", receiver.url, deadLetterDestination=dead_letters.destination
    )

    send(host, arm, topic, GIVEN)
    ((name, letters),) = dead_letters.wait_for(1).items()

    assert name.startswith("REFUSING/")
    (letter,) = letters
    expected = {
        "id": "k-1",
        "subject": "/orders/17",
        "eventType": "Shop.OrderPlaced",
        "eventTime": "2026-02-09T12:00:00+01:00",
        "data": GIVEN,
        "dataVersion": "1.0",
        "metadataVersion": "1",
        "deadLetterReason": "UndeliverableDueToHttpBadRequest",
        "deliveryAttempts": 1,
        "lastDeliveryOutcome": "BadRequest",
        "lastHttpStatusCode": 400,
    }
    assert letter.items() >= expected.items()
    assert receiver.pushes[0].events == [GIVEN]
