"""Microsoft's JavaScript publisher works unchanged: with a key and a signature, in each schema."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from devhost.process import RunningHost
from testbed.arm import Arm
from testbed.subscriber import Subscriber
from tests.e2e.publishing import endpoint, publish_with_javascript

TEXT = "grüße ☃ 💶"
EVENT_GRID = [
    {
        "id": f"e-{number}",
        "subject": f"/orders/{number}",
        "eventType": "Shop.OrderPlaced",
        "data": {"number": number, "text": TEXT},
        "dataVersion": "1.0",
    }
    for number in range(3)
]
CLOUD_EVENT = {
    "id": "c-1",
    "source": "/shop",
    "type": "shop.placed",
    "data": {"text": TEXT},
    "extensionAttributes": {"team": "a"},
}


@pytest.mark.parametrize(
    ("schema", "input_schema", "events", "carrier"),
    [
        pytest.param("EventGrid", "EventGridSchema", EVENT_GRID, "key", id="Event Grid, key"),
        pytest.param("CloudEvent", "CloudEventSchemaV1_0", [CLOUD_EVENT], "SAS", id="Cloud, SAS"),
    ],
)
def test_it_publishes(
    host: RunningHost,
    arm: Arm,
    subscriber: Callable[..., Subscriber],
    schema: str,
    input_schema: str,
    events: list[dict[str, Any]],
    carrier: str,
    name: str,
):
    arm.create_topic(name, inputSchema=input_schema)
    receiver = subscriber()
    arm.create_subscription(name, "crm", receiver.url)
    where = endpoint(host.url, name)

    run = publish_with_javascript(
        endpoint=where, schema=schema, key=arm.key(name), signed=carrier == "SAS", events=events
    )
    receiver.wait_for(lambda pushes: len(pushes) >= len(events))

    assert run.returncode == 0, run.stderr
    arrived = {push.events[0]["id"]: push.events[0] for push in receiver.pushes}
    assert set(arrived) == {event["id"] for event in events}
    for event in events:
        shown = arrived[event["id"]]
        assert shown["data"] == event["data"]
        assert shown.items() >= event.get("extensionAttributes", {}).items()


def test_a_wrong_key_is_an_error_that_it_reads(host: RunningHost, arm: Arm, name: str):
    arm.create_topic(name)

    run = publish_with_javascript(
        endpoint=endpoint(host.url, name), schema="EventGrid", key="wrong", events=EVENT_GRID
    )

    assert run.returncode != 0
    assert "statusCode: 401" in run.stderr
    assert "code: 'Unauthorized'" in run.stderr
