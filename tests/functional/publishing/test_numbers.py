"""Numbers arrive as they were published: in each schema, alone, in batches and as dead letters."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest

from pushgrid.testing.memory import answered
from shared.engine.ports import Queue
from shared.events.topic import FieldMapping, InputSchema
from shared.subscriptions.advanced_filter import AdvancedFilter, FilterOperator
from shared.subscriptions.filters import EventFilter
from shared.subscriptions.subscription import Batching, DeliverySchema, DynamicHeader
from tests.builders import CRM, DEAD, URL, a_delivery, a_topic
from tests.functional.deployment import Deployment
from tests.functional.publish_requests import publish

NUMBERS = "[1.10,1E2,-0,100.00,12345678901234567890,0.1,1e-7]"
DATA = '{"text":"gr\\u00fc\\u00dfe","price":1.10,"numbers":' + NUMBERS + "}"
EVENT_GRID = (
    '{"id":"a","subject":"/o","eventType":"t","eventTime":"2026-02-09T12:00:00Z","data":'
    + DATA
    + "}"
)
CLOUD_EVENT = (
    '{"specversion":"1.0","id":"a","source":"/s","type":"t","rank":2.50,"data":' + DATA + "}"
)
CUSTOM = (
    '{"key":1.50,"subject":"/o","type":"t","version":"1","price":1.10,"numbers":' + NUMBERS + "}"
)
MAPPING = {
    "id": FieldMapping("key", None),
    "subject": FieldMapping("subject", None),
    "eventType": FieldMapping("type", None),
    "dataVersion": FieldMapping("version", None),
}
PAIRS = [
    (InputSchema.EVENT_GRID, DeliverySchema.EVENT_GRID, EVENT_GRID),
    (InputSchema.EVENT_GRID, DeliverySchema.CLOUD_EVENTS, EVENT_GRID),
    (InputSchema.CLOUD_EVENTS, DeliverySchema.CLOUD_EVENTS, CLOUD_EVENT),
    (InputSchema.CUSTOM, DeliverySchema.EVENT_GRID, CUSTOM),
    (InputSchema.CUSTOM, DeliverySchema.CLOUD_EVENTS, CUSTOM),
    (InputSchema.CUSTOM, DeliverySchema.CUSTOM_INPUT, CUSTOM),
]


def send(app: Deployment, given: InputSchema, *texts: str) -> None:
    is_cloud = given is InputSchema.CLOUD_EVENTS
    app.directory.topics["orders"] = a_topic(
        input_schema=given, mapping=MAPPING if given is InputSchema.CUSTOM else {}
    )
    kind = "application/cloudevents-batch+json" if is_cloud else "application/json"
    body = f"[{','.join(texts)}]".encode()
    assert publish(app, body=body, content_type=kind).status == 200


def bodies(app: Deployment) -> list[str]:
    (text,) = app.queues.texts(Queue.DELIVERIES)
    app.work(text)
    return [sent.request.body.decode() for sent in app.pusher.sent]


def numbers(body: str) -> list[str]:
    return re.findall(r'"numbers":(\[[^]]*\])', body.replace(" ", "").replace("\n", ""))


@pytest.mark.parametrize("batching", [Batching(), Batching(max_events=10)], ids=["one", "batch"])
@pytest.mark.parametrize(("given", "wanted", "text"), PAIRS)
def test_they_are_delivered_and_dead_lettered_as_written(
    app: Deployment, given: InputSchema, wanted: DeliverySchema, text: str, batching: Batching
) -> None:
    app.subscribe(input_schema=given, delivery_schema=wanted, batching=batching, dead_letter=DEAD)
    app.pusher.script(URL, answered(400))

    send(app, given, text, text)
    sent = bodies(app)
    app.clock.advance(timedelta(minutes=6))
    app.write_dead_letters.run(app.in_a_minute())

    assert [found for body in sent for found in numbers(body)] == [NUMBERS] * 2
    assert all('"rank":2.50,' in body for body in sent if given is InputSchema.CLOUD_EVENTS)
    (blob,) = app.dead_letters.blobs.values()
    assert numbers(blob.decode()) == [NUMBERS] * 2


def test_headers_and_mapped_members_keep_them(app: Deployment) -> None:
    header = DynamicHeader(name="x-price", path=("data", "price"))
    app.subscribe(
        input_schema=InputSchema.CUSTOM,
        delivery_schema=DeliverySchema.EVENT_GRID,
        headers=(header,),
    )

    send(app, InputSchema.CUSTOM, CUSTOM)

    (body,) = bodies(app)
    assert '"id":"1.50"' in body
    assert app.pusher.sent[0].request.headers["x-price"] == "1.10"


@pytest.mark.parametrize(
    ("operator", "values", "is_wanted"),
    [
        (FilterOperator.NUMBER_IN, (1.1,), True),
        (FilterOperator.STRING_IN, ("1.10",), False),
    ],
)
def test_filters_see_numbers(
    app: Deployment, operator: FilterOperator, values: Any, *, is_wanted: bool
) -> None:
    wanted = AdvancedFilter(operator=operator, key=("data", "price"), values=values)
    app.subscribe(filter=EventFilter(advanced=(wanted,)))

    send(app, InputSchema.EVENT_GRID, EVENT_GRID)

    assert bool(app.queues.texts(Queue.DELIVERIES)) is is_wanted


def test_a_poison_record_shows_them(app: Deployment) -> None:
    app.intake.records.write(Queue.DELIVERIES, "body", "why", [(CRM, a_delivery(text=EVENT_GRID))])

    (record,) = app.dead_letters.poison.values()
    assert numbers(record.decode()) == [NUMBERS]
