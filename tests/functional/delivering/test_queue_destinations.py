"""Event subscriptions whose destination is a storage queue: from the ARM document to the put."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pushgrid.testing.memory import answered
from shared.engine.ports import Queue
from shared.http import QueueAddress
from tests.functional.delivering.failing import deliver_all
from tests.functional.delivering.product import Product, a_product
from tests.functional.deployment import Deployment
from tests.functional.manage.arm_api import (
    CRM,
    ORDERS,
    SHOP,
    SHOP_CRM,
    SHOP_ORDERS,
    URL,
    hook,
    push,
)

ACCOUNT = "/subscriptions/s1/resourceGroups/rg/providers/Microsoft.Storage/storageAccounts/acct"
QUEUE_ID = f"{ACCOUNT}/queueServices/default/queues/crm-in"


def queue(**properties: Any) -> dict[str, Any]:
    """Return the member ``destination``."""
    given = {"resourceId": ACCOUNT, "queueName": "crm-in", **properties}
    return {"endpointType": "StorageQueue", "properties": given}


@pytest.fixture
def product(app: Deployment) -> Product:
    """A deployment whose topic has one subscription, into a queue."""
    product = a_product(app)
    product.api.json("PUT", CRM, {"properties": {"destination": queue()}}, status=201)
    product.api.pusher.sent.clear()
    return product


def test_an_event_is_put_alone_and_without_headers(product: Product) -> None:
    product.publish(1, 2)
    deliver_all(product.app)

    requests = [sent.request for sent in product.api.pusher.sent]
    assert [each.queue for each in requests] == [QueueAddress("acct", "crm-in", 604800)] * 2
    assert [json.loads(each.body)["data"]["n"] for each in requests] == [1, 2]
    assert {each.url for each in requests} == {QUEUE_ID}
    assert product.app.on(Queue.RETRIES) == []


def test_a_queue_gets_what_its_subscription_says(product: Product) -> None:
    """A managed identity beside it means the app's own, whichever is named."""
    identity = {"type": "SystemAssigned", "userAssignedIdentity": None}
    wanted = {"identity": identity, "destination": queue(queueMessageTimeToLiveInSeconds=60)}
    properties = {
        "deliveryWithResourceIdentity": wanted,
        "eventDeliverySchema": "CloudEventSchemaV1_0",
    }
    product.api.call("DELETE", CRM)
    made = product.api.json("PUT", CRM, {"properties": properties}, status=201)
    product.publish(1)
    deliver_all(product.app)

    assert made["properties"]["deliveryWithResourceIdentity"] == wanted
    assert made["properties"]["destination"] is None
    [sent] = product.api.pusher.sent
    assert json.loads(sent.request.body)["specversion"] == "1.0"
    assert sent.request.queue == QueueAddress("acct", "crm-in", 60)


def test_a_queue_is_asked_for_no_consent_and_told_of_no_deletion(product: Product) -> None:
    assert product.api.in_force().has_consented
    product.api.call("DELETE", CRM)

    assert product.api.pusher.sent == []


def test_a_webhook_that_replaces_a_queue_is_asked(product: Product) -> None:
    product.api.pusher.script(URL, answered(404))
    patch = {"destination": hook()["properties"]["destination"]}

    product.api.error("PATCH", CRM, patch, status=400)

    assert [sent.request.url for sent in product.api.pusher.sent] == [URL]
    assert product.api.in_force().endpoint_url == QUEUE_ID


def test_the_documents_of_a_queue_come_back_as_they_were_given(product: Product) -> None:
    wanted = queue(queueMessageTimeToLiveInSeconds=-1)
    made = product.api.json("PUT", CRM, {"properties": {"destination": wanted}}, status=201)

    assert made["properties"]["destination"] == wanted
    changed = product.api.json("PATCH", CRM, {"labels": ["a"]}, status=201)
    assert changed["properties"]["destination"] == wanted
    error = product.api.error("POST", f"{CRM}/getFullUrl", status=400)
    assert error["message"] == "Only a webhook has an endpoint URL."
    assert product.api.json("POST", f"{CRM}/getDeliveryAttributes") == {"value": []}
    listed = product.api.json("GET", f"{ORDERS}/eventSubscriptions")["value"]
    assert [each["name"] for each in listed] == ["crm"]


def test_a_test_event_goes_into_the_queue(product: Product) -> None:
    answer = product.api.json("POST", f"{CRM}/test")

    [sent] = product.api.pusher.sent
    assert answer["succeeded"]
    assert answer["request"]["url"] == QUEUE_ID
    assert sent.request.queue == QueueAddress("acct", "crm-in", 604800)


def test_the_forecast_is_that_of_an_azure_resource(product: Product) -> None:
    """A webhook's 401 is never retried."""
    expected = product.api.json("GET", f"{CRM}/forecast?answers=401,200")

    assert [each["at"] for each in expected["attempts"]] == [0, 300]
    assert expected["end"]["state"] == "delivered"


def test_a_namespace_topic_has_queues_too(app: Deployment) -> None:
    product = a_product(app)
    product.api.json("PUT", SHOP, {"location": "x"}, status=201)
    product.api.json("PUT", SHOP_ORDERS, {"properties": {}}, status=201)

    made = product.api.json("PUT", SHOP_CRM, push(destination=queue()), status=201)

    kept = made["properties"]["deliveryConfiguration"]["push"]["destination"]
    assert kept == queue(queueMessageTimeToLiveInSeconds=None)
    assert product.api.in_force("shop.orders").endpoint_url == QUEUE_ID
