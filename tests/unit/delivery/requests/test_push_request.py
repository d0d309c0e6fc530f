"""What a subscriber receives, contract §2.1, §2.2, §5.6; and what is kept of its answer."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from typing import Any

import pytest
from cloudevents.core.formats.json import JSONFormat
from hypothesis import given
from hypothesis import strategies as st

from pushgrid.testing.memory import START
from shared.delivery.delivery import Batch
from shared.delivery.requests.push_request import convert, push_request
from shared.events.publish_http import read_events
from shared.events.topic import InputSchema
from shared.http import Audience, OutboundRequest
from shared.subscriptions.subscription import (
    Batching,
    DeliverySchema,
    DynamicHeader,
    EventSubscription,
    StaticHeader,
    SubscriptionKey,
)
from tests.builders import (
    CRM,
    ORIGIN,
    TOPIC_ID,
    URL,
    a_delivery,
    a_subscription,
    a_topic,
    compact,
    terms,
    text,
)
from tests.strategies import json_values
from tests.unit.events.publishing import ARRIVAL, a_request, body_of

CLOUD = a_subscription(delivery_schema=DeliverySchema.CLOUD_EVENTS)


def pushed(subscription: EventSubscription, batch: Batch, **overrides: Any) -> OutboundRequest:
    return push_request(subscription, terms(**overrides), batch, START)


def cloud(event: str) -> Any:
    return json.loads(convert(event, InputSchema.EVENT_GRID, DeliverySchema.CLOUD_EVENTS))


def test_an_event_grid_delivery_is_an_array_of_one() -> None:
    delivery = a_delivery(attempts=2)
    audience = Audience("contoso.example", "api://hook")

    request = pushed(a_subscription(name="To-Crm", audience=audience), (delivery,))

    assert request == OutboundRequest(
        "POST",
        URL,
        {
            "aeg-event-type": "Notification",
            "aeg-subscription-name": "TO-CRM",
            "aeg-delivery-count": "2",
            "aeg-output-event-id": delivery.system_id(SubscriptionKey("orders", "to-crm")),
            "Content-Type": "application/json; charset=utf-8",
            "aeg-metadata-version": "1",
            "aeg-data-version": "1.0",
        },
        f"[{text()}]".encode(),
        audience,
    )


def test_a_cloud_event_is_a_single_object() -> None:
    request = pushed(CLOUD, (a_delivery(text=text()),))

    assert request.headers == {
        "aeg-event-type": "Notification",
        "aeg-subscription-name": "CRM",
        "aeg-delivery-count": "0",
        "aeg-output-event-id": a_delivery().system_id(CRM),
        "Content-Type": "application/cloudevents+json; charset=utf-8",
        "aeg-metadata-version": "1.0",
        "WebHook-Request-Origin": "eventgrid.azure.net",
    }
    assert json.loads(request.body) == cloud(text())


@pytest.mark.parametrize(("topic", "said"), [("orders", None), ("shop.orders", "false")])
def test_a_request_says_that_it_is_of_a_namespace(topic: str, said: str | None) -> None:
    request = pushed(a_subscription(topic=topic), (a_delivery(text=text()),))

    assert request.headers.get("aeg-compatibility-mode-enabled") == said


BATCHES = {"batching": Batching(max_events=2)}


def pair(**second: Any) -> Batch:
    other = a_delivery(1, attempts=2, text=text(id="e-1", **second))
    return (a_delivery(attempts=2, text=text()), other)


def test_a_batch_is_one_array_and_names_no_single_event() -> None:
    request = pushed(a_subscription(), pair(), **BATCHES)

    assert request.headers == {
        "aeg-event-type": "Notification",
        "aeg-subscription-name": "CRM",
        "aeg-delivery-count": "2",
        "Content-Type": "application/json; charset=utf-8",
        "aeg-metadata-version": "1",
        "aeg-data-version": "1.0",
    }
    assert request.body == f"[{text()},{text(id='e-1')}]".encode()


@pytest.mark.parametrize("events", [1, 2])
def test_a_batch_of_cloud_events_has_a_type_of_its_own(events: int) -> None:
    """Contract §2.2: also if it is one event, whose id the request names."""
    batch = pair()[:events]

    request = pushed(CLOUD, batch, **BATCHES)

    assert json.loads(request.body) == [cloud(each.event) for each in batch]
    assert request.headers["Content-Type"] == "application/cloudevents-batch+json; charset=utf-8"
    named = batch[0].system_id(CRM) if events == 1 else None
    assert request.headers.get("aeg-output-event-id") == named


def test_a_data_version_is_named_only_where_all_agree() -> None:
    request = pushed(a_subscription(), pair(dataVersion="2.0"), **BATCHES)

    assert "aeg-data-version" not in request.headers


@pytest.mark.parametrize("subscription", [a_subscription(), CLOUD])
def test_custom_headers_go_along(subscription: EventSubscription) -> None:
    headers = (
        StaticHeader(name="Authorization", value="Bearer s3cret", is_secret=True),
        DynamicHeader(name="x-total", path=("data", "total")),
        DynamicHeader(name="x-none", path=("data", "none")),
    )

    request = pushed(subscription, pair(), headers=headers, **BATCHES)

    without = pushed(subscription, pair(), **BATCHES)
    custom = {"Authorization": "Bearer s3cret", "x-total": "12.5"}
    assert request == without._replace(headers={**without.headers, **custom})


def test_a_custom_event_is_an_array_of_the_original() -> None:
    subscription = a_subscription(
        input_schema=InputSchema.CUSTOM, delivery_schema=DeliverySchema.CUSTOM_INPUT
    )

    batch = (a_delivery(text=text(data={"key": 1}, dataVersion="7")),)
    request = pushed(subscription, batch)

    assert (request.body, request.headers["aeg-data-version"]) == (b'[{"key":1}]', "7")


@pytest.mark.parametrize(
    ("version", "fits"),
    [(version, True) for version in ("1.0", "", "2026-02 beta", "v" * 1024)]
    + [(version, False) for version in ("1\r\nX-Evil: 1", "1\x00", "ü", "\x7f", "v" * 1025)],
)
def test_the_data_version_is_the_events_where_a_header_can_hold_it(
    version: str, *, fits: bool
) -> None:
    """Design §5: no CR, LF or NUL in headers, nothing unencodable, nothing too long."""
    request = pushed(a_subscription(), (a_delivery(text=text(dataVersion=version)),))

    assert request.headers.get("aeg-data-version") == (version if fits else None)
    assert json.loads(request.body)[0]["dataVersion"] == version


def test_what_is_stored_is_what_is_sent() -> None:
    """The bytes of an event in ASCII are not written anew."""
    event = '{"dataVersion":"","data":[1.10,1E5,-0,123456789012345678901234567890,"a\\nb"]}'

    request = pushed(a_subscription(), (a_delivery(text=event),))

    assert request.body == f"[{event}]".encode()


@pytest.mark.parametrize("value", ["grüße", "☃💶", "\x01\x7f", "\\u00e9", '"'], ids=ascii)
def test_text_is_sent_as_utf_8(value: str) -> None:
    """Escapes would make a text of a megabyte three, and receivers have limits."""
    request = pushed(a_subscription(), (a_delivery(text=text(data=value)),))

    assert json.loads(request.body)[0]["data"] == value
    if value.isprintable() and "\\" not in value:
        assert json.dumps(value, ensure_ascii=False).encode() in request.body


@given(json_values)
def test_conversion_keeps_data_as_it_is(data: Any) -> None:
    assert repr(cloud(text(data=data))["data"]) == repr(json.loads(compact(data)))


def test_event_grid_becomes_cloud_events_field_by_field() -> None:
    assert cloud(text()) == {
        "specversion": "1.0",
        "id": "e-0",
        "source": TOPIC_ID,
        "type": "Shop.OrderPlaced",
        "time": "2026-02-09T12:00:00Z",
        "subject": "/orders/17",
        "dataschema": "#1.0",
        "data": {"total": 12.5},
    }


SAME = [
    (InputSchema.EVENT_GRID, DeliverySchema.EVENT_GRID),
    (InputSchema.CLOUD_EVENTS, DeliverySchema.CLOUD_EVENTS),
    (InputSchema.CUSTOM, DeliverySchema.EVENT_GRID),
]


@pytest.mark.parametrize(("given_schema", "wanted"), SAME)
def test_the_same_schema_is_not_written_anew(
    given_schema: InputSchema, wanted: DeliverySchema
) -> None:
    assert convert("not even JSON", given_schema, wanted) == "not even JSON"


def test_the_system_id_is_stable_and_of_one_delivery() -> None:
    """Design §2: a receiver can recognise repeats; names are the same whatever their case."""
    delivery = a_delivery(attempts=1)
    system_id = delivery.system_id(CRM)

    others = {
        a_delivery(1).system_id(CRM),
        delivery.system_id(SubscriptionKey("orders", "billing")),
        delivery.system_id(SubscriptionKey("returns", "crm")),
        a_delivery(origin=ORIGIN._replace(publish_id="p")).system_id(CRM),
    }

    assert a_delivery().system_id(SubscriptionKey("Orders", "CRM")) == system_id
    assert len(others | {system_id}) == 5


@given(st.text(st.characters(codec="utf-8")), st.integers(0, 5000))
def test_a_system_id_is_a_name_based_uuid(publish_id: str, position: int) -> None:
    """Those of deliveries that wait were made so: it never changes."""
    delivery = a_delivery(origin=ORIGIN._replace(publish_id=publish_id))
    names = uuid.UUID("6f1c0d0e-6a53-4a3e-9a55-6c3a4b5f7d21")

    found = replace(delivery, position=position).system_id(SubscriptionKey("Orders", "crm"))

    assert found == str(uuid.uuid5(names, f"{publish_id}/{position}/orders/crm"))


ABSENT = "absent"
EVENT = {
    "id": "e-1",
    "subject": "/orders/17",
    "eventType": "Shop.OrderPlaced",
    "eventTime": "2026-02-09T12:00:00Z",
}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"subject": "/orders/17", "dataschema": "#", "data": ABSENT}),
        ({"subject": ""}, {"subject": ABSENT}),
        ({"eventTime": "2026-02-09T12:00:00"}, {"time": "2026-02-09T12:00:00Z"}),
        ({"eventTime": "2026-02-09 12:00"}, {"time": "2026-02-09T12:00:00Z"}),
        ({"eventTime": "2026-02-09T12:00:00,5+0200"}, {"time": "2026-02-09T12:00:00.5+02:00"}),
        ({"dataVersion": "1.0 beta#2"}, {"dataschema": "#1.0%20beta%232"}),
        ({"data": [1, None]}, {"data": [1, None]}),
        ({"data": None}, {"data": None}),
    ],
)
def test_every_event_is_a_cloud_event(given: dict[str, Any], expected: dict[str, Any]) -> None:
    (event,) = read_events(a_request(body_of([EVENT | given])), a_topic(), ARRIVAL)

    written = convert(event.text, InputSchema.EVENT_GRID, DeliverySchema.CLOUD_EVENTS)

    assert JSONFormat().read(None, written).get_attributes()["id"] == "e-1"
    document = json.loads(written)
    assert {name: document.get(name, ABSENT) for name in expected} == expected
