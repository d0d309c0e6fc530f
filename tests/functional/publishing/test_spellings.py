"""An event as people write it, from its publisher to filters, deliveries and dead letters."""

from __future__ import annotations

from typing import Any

from pushgrid.testing.deployment import Pushgrid

CLOUD = "CloudEventSchemaV1_0"
PUBLISHED = {
    "Id": 48213,
    "SUBJECT": "/orders/17",
    "eventtype": "Shop.OrderPlaced",
    "EventTime": "2016-12-31 23:59:60z",
    "Data": {"Total": 12.5, "ID": 1},
    "dataversion": 1.1,
}
DOCUMENTED = {
    "id": "48213",
    "subject": "/orders/17",
    "eventType": "Shop.OrderPlaced",
    "eventTime": "2016-12-31 23:59:60z",
    "data": {"Total": 12.5, "ID": 1},
    "dataVersion": "1.1",
    "metadataVersion": "1",
}


def test_other_spellings_are_filtered_and_delivered_as_the_documented_ones(pushgrid: Pushgrid):
    orders = pushgrid.topic("orders")
    wanted: dict[str, Any] = {
        "includedEventTypes": ["Shop.OrderPlaced"],
        "subjectBeginsWith": "/orders/",
        "advancedFilters": [{"operatorType": "StringIn", "key": "id", "values": ["48213"]}],
    }
    crm = orders.subscribe("crm", filter=wanted)
    erp = orders.subscribe("erp", eventDeliverySchema=CLOUD)
    refusing = orders.subscribe("refusing", answers=[400])

    predicted = pushgrid.arm("POST", f"{orders.path}/matches", PUBLISHED)["value"]
    orders.publish(PUBLISHED)
    pushgrid.advance(minutes=10)

    assert [each["matched"] for each in predicted] == [1, 1, 1]
    (received,) = crm.received
    assert received == DOCUMENTED | {"topic": received["topic"]}
    assert erp.received == [
        {
            "specversion": "1.0",
            "id": "48213",
            "source": received["topic"],
            "type": "Shop.OrderPlaced",
            "subject": "/orders/17",
            "time": "2016-12-31T23:59:60Z",
            "dataschema": "#1.1",
            "data": {"Total": 12.5, "ID": 1},
        }
    ]
    (letter,) = refusing.dead_letters
    assert letter.items() >= received.items()


def test_a_dead_letter_of_cloud_events_is_published_as_it_is(pushgrid: Pushgrid):
    orders = pushgrid.topic("orders", inputSchema=CLOUD)
    crm = orders.subscribe("crm", answers=[400, 200])
    orders.publish({"type": "Shop.OrderPlaced"})
    pushgrid.advance(minutes=10)

    orders.publish(crm.dead_letters)

    assert crm.received == crm.dead_letters
    assert "lastdeliveryattempttime" in crm.received[0]
