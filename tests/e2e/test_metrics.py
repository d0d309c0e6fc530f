"""What an operator sees from outside, with Azure Monitor's client and Prometheus' parser."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import requests
from azure.mgmt.monitor import MonitorManagementClient
from prometheus_client.parser import text_string_to_metric_families

from devhost.process import RunningHost
from testbed.arm import ADMIN_KEY, Arm
from testbed.subscriber import Subscriber
from tests.e2e.operator import Credential, Key
from tests.e2e.publishing import an_event, post, send
from tests.e2e.waiting import eventually

OPERATOR = {"Authorization": f"Bearer {ADMIN_KEY}"}
SUBSCRIPTION = "00000000-0000-0000-0000-000000000000"
TOPIC = f"orders-{uuid.uuid4().hex[:8]}"
ORDERS = (
    f"/subscriptions/{SUBSCRIPTION}/resourceGroups/local"
    f"/providers/Microsoft.EventGrid/topics/{TOPIC}"
)


def total(host: RunningHost, resource: str, name: str, condition: str = "") -> dict[str, float]:
    """Ask for the last hour as one sum, by the value of the one dimension that is asked for."""
    with MonitorManagementClient(
        Credential(), SUBSCRIPTION, base_url=host.url, authentication_policy=Key()
    ) as client:
        found: Any = client.metrics.list(
            resource, metricnames=name, interval="FULL", filter=condition or None
        )
    (metric,) = found.value
    return {
        "".join(value.value for value in series.metadatavalues): series.data[0].total
        for series in metric.timeseries
    }


def dimensions(host: RunningHost, resource: str) -> dict[str, list[str]]:
    """Ask which metrics a resource has; return the dimensions of each."""
    with MonitorManagementClient(
        Credential(), SUBSCRIPTION, base_url=host.url, authentication_policy=Key()
    ) as client:
        found: Any = client.metric_definitions.list(resource)
        return {each.name.value: [name.value for name in each.dimensions] for each in found}


def samples(host: RunningHost) -> dict[tuple[str, ...], float]:
    answer = requests.get(f"{host.url}/status/metrics", headers=OPERATOR, timeout=30)
    assert answer.status_code == 200, answer.text
    families = text_string_to_metric_families(answer.text)
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
    }


def test_what_happens_is_counted_and_shown(
    host: RunningHost, arm: Arm, subscriber: Callable[..., Subscriber]
) -> None:
    arm.create_topic(TOPIC)
    for name, status in (("crm", 200), ("erp", 400)):
        arm.create_subscription(TOPIC, name, subscriber(lambda _, s=status: s).url)
    send(host.url, TOPIC, arm.key(TOPIC), [an_event(number) for number in range(3)])
    assert post(host.url, TOPIC, "bm90IHRoZSBrZXk=", b"[]").status_code == 401

    crm = f"{ORDERS}/eventSubscriptions/crm"
    extension = f"{ORDERS}/providers/Microsoft.EventGrid/eventSubscriptions/erp"
    eventually(lambda: total(host, crm, "DeliverySuccessCount"), {"": 3.0})
    reason = "UndeliverableDueToHttpBadRequest"
    by_reason = "DropReason eq '*'"
    eventually(lambda: total(host, extension, "DroppedEventCount", by_reason), {reason: 3.0})
    eventually(lambda: total(host, ORDERS, "PublishSuccessCount"), {"": 3.0})
    assert total(host, ORDERS, "MatchedEventCount") == {"": 6.0}
    assert "DropReason" in dimensions(host, extension)["DroppedEventCount"]
    divided = "EventSubscriptionName eq '*'"
    assert total(host, ORDERS, "MatchedEventCount", divided) == {"crm": 3.0, "erp": 3.0}
    shown = samples(host)
    assert shown["pushgrid_delivery_success_total", TOPIC, "crm"] == 3
    assert shown["pushgrid_dropped_events_total", TOPIC, "erp", reason] == 3
    assert shown["pushgrid_destination_processing_duration_seconds_count", TOPIC, "crm"] == 3
    refused = "pushgrid_publish_fail_total", TOPIC, "ClientError", "Unauthorized"
    assert sum(value for key, value in shown.items() if set(key) == set(refused)) == 1
