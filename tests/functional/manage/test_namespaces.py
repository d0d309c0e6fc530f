"""Namespaces, their topics, and the event subscriptions of these."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes import answered
from tests.functional.manage.arm_api import GROUP, SHOP, SHOP_CRM, SHOP_ORDERS, URL, ArmApi, push


def test_patches_are_wrapped(shop_orders: ArmApi) -> None:
    patch = {"tags": {"a": "b"}, "properties": {"inboundIpRules": [{"ipMask": "203.0.113.1"}]}}
    namespace = shop_orders.json("PATCH", SHOP, patch)
    topic = shop_orders.json("PATCH", SHOP_ORDERS, {"properties": {"eventRetentionInDays": 3}})

    assert namespace == shop_orders.json("GET", SHOP)
    assert (namespace["tags"], namespace["location"]) == ({"a": "b"}, "westeurope")
    rule = {"ipMask": "203.0.113.1", "action": "Allow"}
    assert namespace["properties"]["inboundIpRules"] == [rule]
    assert topic["properties"]["eventRetentionInDays"] == 3
    assert topic == shop_orders.json("GET", SHOP_ORDERS)


@pytest.mark.parametrize(
    ("target", "body", "fault"),
    [
        (SHOP, {"properties": {"topicSpacesConfiguration": {"state": "Enabled"}}}, "MQTT"),
        (
            SHOP,
            {"properties": {"topicsConfiguration": {"customDomains": [{}]}}},
            "customDomains is not supported",
        ),
        (f"{GROUP}/namespaces/a.b", {"location": "x"}, "3-50 letters"),
        (SHOP_ORDERS, {"properties": {"eventRetentionInDays": 8}}, "between 1 and 7"),
        (SHOP_ORDERS, {"properties": {"eventRetentionInDays": 0}}, "between 1 and 7"),
        (SHOP_ORDERS, {"properties": {"inputSchema": "EventGridSchema"}}, "CloudEventSchemaV1_0"),
        (SHOP_ORDERS, {"properties": {"publisherType": "Partner"}}, "it can be: Custom"),
        (f"{SHOP}/topics/a.b", {"properties": {}}, "3-50 letters"),
    ],
)
def test_what_is_wrong_is_refused(
    shop: ArmApi, target: str, body: dict[str, Any], fault: str
) -> None:
    assert fault in shop.error("PUT", target, body, status=400)["message"]


def test_lists_hold_what_is_theirs(shop_orders: ArmApi) -> None:
    other = SHOP.replace("/shop", "/bank").replace("/rg/", "/other/")
    shop_orders.json("PUT", other, {"location": "x"}, status=201)
    shop_orders.json("PUT", f"{other}/topics/orders", {"properties": {}}, status=201)

    def names(target: str) -> list[str]:
        return [each["name"] for each in shop_orders.json("GET", target)["value"]]

    assert names(f"{GROUP}/namespaces") == ["shop"]
    assert names("/subscriptions/s1/providers/Microsoft.EventGrid/namespaces") == ["bank", "shop"]
    listed = shop_orders.json("GET", f"{SHOP}/topics")["value"]
    assert [each["id"] for each in listed] == [SHOP_ORDERS]
    assert shop_orders.json("GET", f"{GROUP}/topics")["value"] == []
    assert shop_orders.error("GET", f"{GROUP}/namespaces/none/topics", status=404)


DEAD_LETTERS = {
    "identity": {"type": "SystemAssigned", "userAssignedIdentity": None},
    "deadLetterDestination": {
        "endpointType": "StorageBlob",
        "properties": {"resourceId": "/x/storageAccounts/acct", "blobContainerName": "dead"},
    },
}


def test_a_subscription_is_answered_in_its_own_form(shop_orders: ArmApi) -> None:
    filters = {
        "includedEventTypes": ["Shop.OrderPlaced"],
        "filters": [{"operatorType": "StringIn", "key": "subject", "values": ["/a"]}],
    }
    body = push(
        maxDeliveryCount=3,
        eventTimeToLive="PT90S",
        deadLetterDestinationWithResourceIdentity=DEAD_LETTERS,
    )
    body["properties"]["filtersConfiguration"] = filters

    created = shop_orders.json("PUT", SHOP_CRM, body, status=201)

    assert created == shop_orders.json("GET", SHOP_CRM)
    destination = created["properties"]["deliveryConfiguration"]["push"].pop("destination")
    assert created == {
        "id": SHOP_CRM,
        "name": "crm",
        "type": "Microsoft.EventGrid/namespaces/topics/eventsubscriptions",
        "systemData": None,
        "properties": {
            "provisioningState": "Succeeded",
            "eventDeliverySchema": "CloudEventSchemaV1_0",
            "expirationTimeUtc": None,
            "deliveryConfiguration": {
                "deliveryMode": "Push",
                "push": {
                    "maxDeliveryCount": 3,
                    "eventTimeToLive": "PT90S",
                    "deadLetterDestinationWithResourceIdentity": DEAD_LETTERS,
                },
            },
            "filtersConfiguration": filters,
        },
    }
    assert destination["properties"]["endpointBaseUrl"] == "https://crm.example/hook"
    assert shop_orders.json("POST", f"{SHOP_CRM}/getFullUrl") == {"endpointUrl": URL}
    assert shop_orders.json("POST", f"{SHOP_CRM}/getDeliveryAttributes") == {"value": []}
    (sent,) = shop_orders.pusher.sent
    assert sent.request.method == "OPTIONS"


def test_what_a_subscription_leaves_open_follows_its_topic(shop_orders: ArmApi) -> None:
    created = shop_orders.json("PUT", SHOP_CRM, push(), status=201)

    delivered = created["properties"]["deliveryConfiguration"]["push"]
    assert (delivered["maxDeliveryCount"], delivered["eventTimeToLive"]) == (10, "P2D")


def test_a_patch_merges_the_delivery_configuration(shop_orders: ArmApi) -> None:
    before = shop_orders.json("PUT", SHOP_CRM, push(eventTimeToLive="P1D"), status=201)
    patch = {"properties": {"deliveryConfiguration": {"push": {"maxDeliveryCount": 4}}}}

    after = shop_orders.json("PATCH", SHOP_CRM, patch)

    before["properties"]["deliveryConfiguration"]["push"]["maxDeliveryCount"] = 4
    assert after == before
    assert len(shop_orders.pusher.sent) == 1

    filters = {"filters": [{"operatorType": "IsNotNull", "key": "data.a"}]}
    after = shop_orders.json("PATCH", SHOP_CRM, {"properties": {"filtersConfiguration": filters}})
    assert after["properties"]["filtersConfiguration"]["filters"] == filters["filters"]
    configuration = before["properties"]["deliveryConfiguration"]
    assert after["properties"]["deliveryConfiguration"] == configuration


@pytest.mark.parametrize(
    ("body", "target", "words"),
    [
        (
            {"properties": {"deliveryConfiguration": {"deliveryMode": "Queue", "queue": {}}}},
            "properties.deliveryConfiguration.deliveryMode",
            "Queue is not supported",
        ),
        (
            {"properties": {"filtersConfiguration": {}}},
            "properties.deliveryConfiguration.deliveryMode",
            "is missing",
        ),
        (push(maxDeliveryCount=11), "maxDeliveryCount", "between 1 and 10"),
        (push(maxDeliveryCount=0), "maxDeliveryCount", "between 1 and 10"),
        (push(eventTimeToLive="PT59S"), "eventTimeToLive", "between PT1M and"),
        (push(eventTimeToLive="P2DT1S"), "eventTimeToLive", "P2D"),
        (push(eventTimeToLive="1 day"), "eventTimeToLive", "ISO 8601"),
        (
            push()
            | {"properties": push()["properties"] | {"filtersConfiguration": {"filters": [1]}}},
            "properties.filtersConfiguration.filters",
            "list of objects",
        ),
    ],
)
def test_a_bad_subscription_is_refused(
    shop_orders: ArmApi, body: dict[str, Any], target: str, words: str
) -> None:
    error = shop_orders.error("PUT", SHOP_CRM, body, status=400)

    assert error["target"].endswith(target)
    assert words in error["message"]
    assert shop_orders.pusher.sent == []


@pytest.mark.parametrize("kind", ["EventHub", "ServiceBusQueue", "StorageQueue", "AzureFunction"])
def test_other_destinations_are_refused_by_name(shop_orders: ArmApi, kind: str) -> None:
    body = push(destination={"endpointType": kind, "properties": {}})

    assert kind in shop_orders.error("PUT", SHOP_CRM, body, status=400)["message"]


def test_an_endpoint_has_to_consent(shop_orders: ArmApi) -> None:
    shop_orders.pusher.script(URL, answered(200))

    assert shop_orders.error("PUT", SHOP_CRM, push(), status=400)["code"] == "Url validation"
    assert shop_orders.call("GET", SHOP_CRM).status == 404
