"""A receiver built with the library of CloudEvents reads every CloudEvents delivery."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from azure.core.credentials import AzureKeyCredential
from azure.core.messaging import CloudEvent
from azure.eventgrid import EventGridPublisherClient
from cloudevents.core.base import BaseCloudEvent
from cloudevents.core.bindings.http import HTTPMessage, from_http_event
from cloudevents.core.formats.json import JSONFormat

from devhost.process import RunningHost
from testbed.arm import Arm
from testbed.subscriber import Push, Subscriber
from tests.e2e.publishing import an_event, endpoint, send

SENT: dict[str, dict[str, Any]] = {
    "an object": {"data": {"text": "grüße ☃ 💶", "big": 12345678901234567890}},
    "bytes": {"data": b"\x00\xff", "datacontenttype": "application/octet-stream"},
    "text": {"data": "plain", "datacontenttype": "text/plain"},
    "nothing": {},
    "everything": {
        "data": [1, 2.5, None],
        "subject": "/orders/1",
        "dataschema": "https://shop.example/order",
        "time": datetime(2026, 2, 9, 12, tzinfo=UTC),
        "extensions": {"team": "a", "traceparent": "00-1-2-03"},
    },
}


def received(push: Push) -> list[BaseCloudEvent]:
    """Read a push with the library; it knows no batches, so it reads the events of one."""
    if push.headers["content-type"].startswith("application/cloudevents-batch+json"):
        return [JSONFormat().read(None, json.dumps(each)) for each in json.loads(push.body)]
    assert push.headers["content-type"].startswith("application/cloudevents+json")
    return [from_http_event(HTTPMessage(headers=dict(push.headers), body=push.body))]


def publish(url: str, key: str, topic: str | None = None) -> dict[str, CloudEvent[Any]]:
    """
    Publish one of each kind, the first alone, as the client sends one otherwise than several.

    *topic* is that of a namespace. Return the events by their ids.
    """
    events = [
        CloudEvent(source="/shop", type="shop.placed", id=kind, **members)
        for kind, members in SENT.items()
    ]
    options = {"namespace_topic": topic} if topic else {}
    with EventGridPublisherClient(url, AzureKeyCredential(key), **options) as client:
        client.send(events[0])
        client.send(events[1:])
    return {event.id: event for event in events}


def check(read: BaseCloudEvent, sent: CloudEvent[Any]) -> None:
    attributes = read.get_attributes()
    assert (attributes["specversion"], attributes["source"]) == ("1.0", "/shop")
    assert read.get_data() == sent.data
    assert attributes["time"] == sent.time
    for name in ("type", "subject", "dataschema", "datacontenttype"):
        assert attributes.get(name) == getattr(sent, name)
    assert attributes.items() >= (sent.extensions or {}).items()


def test_single_events_and_batches(
    host: RunningHost, arm: Arm, subscriber: Callable[..., Subscriber], name: str
):
    arm.create_topic(name, inputSchema="CloudEventSchemaV1_0")
    singly, batched = subscriber(), subscriber()
    arm.create_subscription(name, "singly", singly.url)
    arm.create_subscription(name, "batched", batched.url, {"maxEventsPerBatch": 100})

    sent = publish(endpoint(host.url, name), arm.key(name))
    singly.wait_for(lambda pushes: len(pushes) >= len(sent))
    batched.wait_for(lambda pushes: sum(len(push.events) for push in pushes) >= len(sent))

    assert len(singly.pushes) == len(sent)
    assert max(len(push.events) for push in batched.pushes) >= len(sent) - 1
    for pushes in (singly.pushes, batched.pushes):
        read = {str(each.get_id()): each for push in pushes for each in received(push)}
        assert set(read) == set(sent)
        for kind, event in read.items():
            check(event, sent[kind])


def test_events_of_a_namespace(
    host: RunningHost, arm: Arm, subscriber: Callable[..., Subscriber], name: str
):
    arm.create_namespace(name)
    arm.create_namespace_topic(name, "orders")
    receiver = subscriber()
    arm.create_namespace_subscription((name, "orders"), "crm", receiver.url)

    url, key = f"{host.url}/namespaces/{name}", arm.key(name, "namespaces")
    sent = publish(url, key, "orders")
    receiver.wait_for(lambda pushes: len(pushes) >= len(sent))

    assert {push.headers["aeg-compatibility-mode-enabled"] for push in receiver.pushes} == {"false"}

    read = {str(each.get_id()): each for push in receiver.pushes for each in received(push)}
    assert set(read) == set(sent)
    for kind, event in read.items():
        check(event, sent[kind])


def test_events_that_were_published_in_event_grids_schema(
    host: RunningHost, arm: Arm, subscriber: Callable[..., Subscriber], name: str
):
    created = arm.create_topic(name)
    receiver = subscriber()
    arm.create_subscription(name, "crm", receiver.url, eventDeliverySchema="CloudEventSchemaV1_0")
    event = an_event(7, text="grüße")

    send(host.url, name, arm.key(name), [event])
    receiver.wait_for(lambda pushes: len(pushes) >= 1)

    (read,) = received(receiver.pushes[0])
    assert (read.get_id(), read.get_source()) == (event.id, created["id"])
    assert (read.get_type(), read.get_subject()) == ("Shop.OrderPlaced", "/orders/7")
    assert read.get_data() == {"number": 7, "text": "grüße"}
    assert read.get_time() == datetime.fromisoformat(str(event.event_time))
