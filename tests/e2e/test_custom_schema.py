"""Events of the publisher's own schema, with the official client: mapped, filtered, delivered."""

from __future__ import annotations

from collections.abc import Callable

from azure.core.credentials import AzureKeyCredential
from azure.eventgrid import EventGridPublisherClient

from devhost.process import RunningHost
from testbed.arm import Arm
from testbed.subscriber import Subscriber
from tests.e2e.publishing import endpoint

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
OTHER = {"key": "k-2", "total": 1}  # the filters keep it out


def test_it_is_filtered_and_delivered_in_each_schema_unchanged(
    host: RunningHost, arm: Arm, subscriber: Callable[..., Subscriber], name: str
):
    """The whole object is the data of the converted event; contract §1.4, §5.6."""
    arm.create_topic(name, inputSchema="CustomEventSchema", inputSchemaMapping=MAPPING)
    as_sent, as_event, as_cloud_event = subscriber(), subscriber(), subscriber()
    above = [{"operatorType": "NumberGreaterThan", "key": "data.total", "value": 10}]
    arm.create_subscription(name, "as-sent", as_sent.url, filter={"advancedFilters": above})
    arm.create_subscription(
        name,
        "as-event",
        as_event.url,
        eventDeliverySchema="EventGridSchema",
        filter={"includedEventTypes": ["shop.orderplaced"]},
    )
    arm.create_subscription(
        name,
        "as-cloud-event",
        as_cloud_event.url,
        eventDeliverySchema="CloudEventSchemaV1_0",
        filter={"subjectBeginsWith": "/orders"},
    )

    credential = AzureKeyCredential(arm.key(name))
    with EventGridPublisherClient(endpoint(host.url, name), credential) as client:
        client.send([OTHER, GIVEN])
    for each in (as_sent, as_event, as_cloud_event):
        assert each.wait_for(bool)
        assert len(each.pushes) == 1

    assert as_sent.pushes[0].events == [GIVEN]
    assert as_sent.pushes[0].body.startswith(b"[")
    (event,) = as_event.pushes[0].events
    topic_id = event.pop("topic")
    assert topic_id.endswith(f"/topics/{name}")
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
