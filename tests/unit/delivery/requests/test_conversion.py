"""Whatever Event Grid takes becomes a CloudEvent that CloudEvents' own library reads."""

from __future__ import annotations

import json
from typing import Any

import pytest
from cloudevents.core.formats.json import JSONFormat

from shared.delivery.requests.conversion import convert
from shared.events.publish_request import read_events
from shared.events.topic import InputSchema
from shared.subscriptions.subscription import DeliverySchema
from tests.builders import a_topic
from tests.unit.events.publishing import ARRIVAL, a_request, body_of

EVENT = {
    "id": "e-1",
    "subject": "/orders/17",
    "eventType": "Shop.OrderPlaced",
    "eventTime": "2026-02-09T12:00:00Z",
}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"subject": "/orders/17", "time": "2026-02-09T12:00:00Z", "dataschema": "#"}),
        ({"subject": ""}, {"subject": None}),
        ({"eventTime": "2026-02-09T12:00:00"}, {"time": "2026-02-09T12:00:00Z"}),
        ({"eventTime": "2026-02-09 12:00"}, {"time": "2026-02-09T12:00:00Z"}),
        ({"eventTime": "2026-02-09T12:00:00,5+0200"}, {"time": "2026-02-09T12:00:00.5+02:00"}),
        ({"dataVersion": "1.0 beta#2"}, {"dataschema": "#1.0%20beta%232"}),
        ({"data": [1, None]}, {"data": [1, None]}),
    ],
)
def test_every_event_is_a_cloud_event(given: dict[str, Any], expected: dict[str, Any]) -> None:
    (event,) = read_events(a_request(body_of([EVENT | given])), a_topic(), ARRIVAL)

    written = convert(event.text, InputSchema.EVENT_GRID, DeliverySchema.CLOUD_EVENTS)

    assert JSONFormat().read(None, written).get_attributes()["id"] == "e-1"
    document = json.loads(written)
    assert {name: document.get(name) for name in expected} == expected
