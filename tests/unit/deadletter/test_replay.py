"""Dead letters of every form, as the contract shows them (§4.2), back to events of a topic."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shared.deadletter.reader import DeadLetter, read_blob
from shared.deadletter.replay import NotReplayable, event_text
from shared.delivery.requests.conversion import convert
from shared.events.topic import InputSchema, Topic
from shared.subscriptions.subscription import DeliverySchema
from tests.builders import a_topic

AZURE_TOPIC = "/subscriptions/s/resourceGroups/rg/providers/Microsoft.EventGrid/topics/orders"
EVENT = {
    "id": "a-1",
    "topic": AZURE_TOPIC,
    "subject": "/orders/17",
    "eventType": "Shop.OrderPlaced",
    "eventTime": "2025-01-02T03:04:05Z",
    "dataVersion": "1.0",
    "metadataVersion": "1",
    "data": {"total": 12.5},
}
ADDED = {
    "deadLetterReason": "MaxDeliveryAttemptsExceeded",
    "deliveryAttempts": 5,
    "lastDeliveryOutcome": "TimedOut",
    "lastHttpStatusCode": 408,
    "publishTime": "2025-01-02T03:04:06.1234567Z",
    "lastDeliveryAttemptTime": "2025-01-02T03:11:06.7654321Z",
}
CLOUD_EVENT = {
    "specversion": "1.0",
    "id": "a-2",
    "source": "/shop",
    "type": "shop.placed",
    "subject": "17",
    "time": "2025-01-02T03:04:05Z",
    "datacontenttype": "application/json",
    "data": {"total": 12.5},
}
CLOUD_ADDED = {name.lower(): value for name, value in ADDED.items()}
NAMESPACE = {
    "deadLetterProperties": {
        "deadletterreason": "Maximum delivery attempts was exceeded.",
        "deliveryattempts": 1,
        "deliveryresult": "Event was not acknowledged nor rejected.",
        "publishutc": "2023-09-23T02:30:00.0000000Z",
        "deliveryattemptutc": "2023-09-23T02:31:00.0000000Z",
    },
    "event": CLOUD_EVENT,
}
# What the conversion for delivery makes of EVENT.
CONVERTED = json.loads(
    convert(json.dumps(EVENT), InputSchema.EVENT_GRID, DeliverySchema.CLOUD_EVENTS)
)


def replayed(letter: dict[str, Any], schema: InputSchema) -> Any:
    (read,) = read_blob(json.dumps([letter]).encode())
    assert isinstance(read, DeadLetter)
    return json.loads(event_text(read, topic(schema)))


def topic(schema: InputSchema) -> Topic:
    return a_topic(input_schema=schema)


@pytest.mark.parametrize(
    ("letter", "schema", "event"),
    [
        (EVENT | ADDED, InputSchema.EVENT_GRID, EVENT),
        (EVENT | ADDED, InputSchema.CUSTOM, EVENT),
        (EVENT | ADDED, InputSchema.CLOUD_EVENTS, CONVERTED),
        (CLOUD_EVENT | CLOUD_ADDED, InputSchema.CLOUD_EVENTS, CLOUD_EVENT),
        (NAMESPACE, InputSchema.CLOUD_EVENTS, CLOUD_EVENT),
        (CONVERTED | CLOUD_ADDED, InputSchema.EVENT_GRID, EVENT),
        (CONVERTED | CLOUD_ADDED, InputSchema.CUSTOM, EVENT),
    ],
)
def test_a_dead_letter_becomes_the_event_that_was_published(
    letter: dict[str, Any], schema: InputSchema, event: dict[str, Any]
):
    assert replayed(letter, schema) == event


@pytest.mark.parametrize(
    ("letter", "schema", "why"),
    [
        (EVENT | ADDED | {"id": 5}, InputSchema.EVENT_GRID, "'id'"),
        (EVENT | ADDED | {"more": 5}, InputSchema.EVENT_GRID, "'more'"),
        (CLOUD_EVENT | CLOUD_ADDED | {"type": ""}, InputSchema.CLOUD_EVENTS, "'eventType'"),
        (CLOUD_EVENT | CLOUD_ADDED | {"tenant": "x"}, InputSchema.EVENT_GRID, "'tenant'"),
        (
            CLOUD_EVENT | CLOUD_ADDED | {"datacontenttype": "text/plain"},
            InputSchema.EVENT_GRID,
            "'datacontenttype'",
        ),
        (
            CLOUD_EVENT | CLOUD_ADDED | {"dataschema": "https://x"},
            InputSchema.EVENT_GRID,
            "'dataschema'",
        ),
        (EVENT | ADDED | {"data": "x" * 1_100_000}, InputSchema.EVENT_GRID, "maximum size"),
    ],
)
def test_what_has_no_form_in_the_schema_is_refused(
    letter: dict[str, Any], schema: InputSchema, why: str
):
    with pytest.raises(NotReplayable, match=why):
        replayed(letter, schema)
