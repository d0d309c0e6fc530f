"""Namespaces, their topics and their event subscriptions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shared.engine.ports import NAMESPACE_TOPICS, NAMESPACES, Table
from tests.fakes import MemoryResources, answered
from tests.functional.manage.world import GROUP, HOST, URL, World, hook

SHOP = f"{GROUP}/namespaces/shop"
ORDERS = f"{SHOP}/topics/orders"
CRM = f"{ORDERS}/eventSubscriptions/crm"
DEAD_LETTERS = {
    "identity": {"type": "SystemAssigned", "userAssignedIdentity": None},
    "deadLetterDestination": {
        "endpointType": "StorageBlob",
        "properties": {"resourceId": "/x/storageAccounts/acct", "blobContainerName": "dead"},
    },
}


def push(url: str = URL, **members: Any) -> dict[str, Any]:
    destination = hook(url)["properties"]["destination"]
    configuration = {"deliveryMode": "Push", "push": {"destination": destination, **members}}
    return {"properties": {"deliveryConfiguration": configuration}}


@pytest.fixture
def shop(world: World) -> World:
    """A deployment with the namespace ``shop``."""
    world.json("PUT", SHOP, {"location": "westeurope"}, status=201)
    return world


@pytest.fixture
def orders(shop: World) -> World:
    """A deployment with the topic ``orders`` of the namespace ``shop``."""
    shop.json("PUT", ORDERS, {"properties": {"eventRetentionInDays": 2}}, status=201)
    return shop


def test_a_namespace_is_answered_with_its_defaults(shop: World) -> None:
    assert shop.json("GET", SHOP) == {
        "id": SHOP,
        "name": "shop",
        "type": "Microsoft.EventGrid/namespaces",
        "location": "westeurope",
        "tags": None,
        "sku": {"name": "Standard", "capacity": 1},
        "systemData": None,
        "properties": {
            "provisioningState": "Succeeded",
            "publicNetworkAccess": "Enabled",
            "isZoneRedundant": False,
            "topicsConfiguration": {"hostname": HOST.removeprefix("https://") + "/namespaces/shop"},
        },
    }


def test_a_topic_is_answered_with_its_defaults(shop: World) -> None:
    created = shop.json("PUT", ORDERS, {}, status=400)
    assert created["error"]["code"] == "InvalidRequestContent"

    assert shop.json("PUT", ORDERS, {"properties": {}}, status=201) == {
        "id": ORDERS,
        "name": "orders",
        "type": "Microsoft.EventGrid/namespaces/topics",
        "systemData": None,
        "properties": {
            "provisioningState": "Succeeded",
            "publisherType": "Custom",
            "inputSchema": "CloudEventSchemaV1_0",
            "eventRetentionInDays": 7,
        },
    }


def test_patches_are_wrapped(orders: World) -> None:
    patch = {"tags": {"a": "b"}, "properties": {"inboundIpRules": [{"ipMask": "203.0.113.1"}]}}
    namespace = orders.json("PATCH", SHOP, patch)
    topic = orders.json("PATCH", ORDERS, {"properties": {"eventRetentionInDays": 3}})

    assert namespace == orders.json("GET", SHOP)
    assert (namespace["tags"], namespace["location"]) == ({"a": "b"}, "westeurope")
    rule = {"ipMask": "203.0.113.1", "action": "Allow"}
    assert namespace["properties"]["inboundIpRules"] == [rule]
    assert topic["properties"]["eventRetentionInDays"] == 3
    assert topic == orders.json("GET", ORDERS)


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
        (ORDERS, {"properties": {"eventRetentionInDays": 8}}, "between 1 and 7"),
        (ORDERS, {"properties": {"eventRetentionInDays": 0}}, "between 1 and 7"),
        (ORDERS, {"properties": {"inputSchema": "EventGridSchema"}}, "CloudEventSchemaV1_0"),
        (ORDERS, {"properties": {"publisherType": "Partner"}}, "it can be: Custom"),
        (f"{SHOP}/topics/a.b", {"properties": {}}, "3-50 letters"),
    ],
)
def test_what_is_wrong_is_refused(
    shop: World, target: str, body: dict[str, Any], fault: str
) -> None:
    assert fault in shop.error("PUT", target, body, status=400)["message"]


def test_names_are_unique_and_places_exact(orders: World) -> None:
    elsewhere = SHOP.replace("/rg/", "/other/")

    assert orders.error("PUT", elsewhere, {"location": "x"}, status=409)["code"] == "Conflict"
    for target in (elsewhere, f"{elsewhere}/topics/orders", f"{SHOP}/topics/none"):
        assert orders.error("GET", target, status=404)["code"] == "ResourceNotFound"
        assert orders.error("PATCH", target, {"tags": {}}, status=404)["code"] == "ResourceNotFound"
        assert orders.call("DELETE", target).status == 204
    without = f"{elsewhere}/topics/new"
    assert orders.error("PUT", without, {"properties": {}}, status=404)
    assert orders.resources.get(Table.TOPICS, NAMESPACE_TOPICS, "shop.new") is None
    assert orders.call("GET", ORDERS).status == 200


def test_each_has_keys_of_its_own(orders: World) -> None:
    known = [orders.json("POST", f"{each}/listKeys") for each in (SHOP, ORDERS)]
    assert len({key for keys in known for key in keys.values()}) == 4

    after = orders.json("POST", f"{SHOP}/regenerateKey", {"keyName": "key2"})

    assert after["key1"] == known[0]["key1"]
    assert after["key2"] not in known[0].values()
    orders.json("PUT", SHOP, {"location": "x"}, status=201)
    assert orders.json("POST", f"{SHOP}/listKeys") == after
    assert orders.json("POST", f"{ORDERS}/listKeys") == known[1]


def test_lists_hold_what_is_theirs(orders: World) -> None:
    other = SHOP.replace("/shop", "/bank").replace("/rg/", "/other/")
    orders.json("PUT", other, {"location": "x"}, status=201)
    orders.json("PUT", f"{other}/topics/orders", {"properties": {}}, status=201)

    def names(target: str) -> list[str]:
        return [each["name"] for each in orders.json("GET", target)["value"]]

    assert names(f"{GROUP}/namespaces") == ["shop"]
    assert names("/subscriptions/s1/providers/Microsoft.EventGrid/namespaces") == ["bank", "shop"]
    listed = orders.json("GET", f"{SHOP}/topics")["value"]
    assert [each["id"] for each in listed] == [ORDERS]
    assert orders.json("GET", f"{GROUP}/topics")["value"] == []
    assert orders.error("GET", f"{GROUP}/namespaces/none/topics", status=404)


def test_a_subscription_is_answered_in_its_own_form(orders: World) -> None:
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

    created = orders.json("PUT", CRM, body, status=201)

    assert created == orders.json("GET", CRM)
    destination = created["properties"]["deliveryConfiguration"]["push"].pop("destination")
    assert created == {
        "id": CRM,
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
    assert orders.json("POST", f"{CRM}/getFullUrl") == {"endpointUrl": URL}
    assert orders.json("POST", f"{CRM}/getDeliveryAttributes") == {"value": []}
    (sent,) = orders.pusher.sent
    assert sent.request.method == "OPTIONS"


def test_what_a_subscription_leaves_open_follows_its_topic(orders: World) -> None:
    created = orders.json("PUT", CRM, push(), status=201)

    delivered = created["properties"]["deliveryConfiguration"]["push"]
    assert (delivered["maxDeliveryCount"], delivered["eventTimeToLive"]) == (10, "P2D")


def test_a_patch_merges_the_delivery_configuration(orders: World) -> None:
    before = orders.json("PUT", CRM, push(eventTimeToLive="P1D"), status=201)
    patch = {"properties": {"deliveryConfiguration": {"push": {"maxDeliveryCount": 4}}}}

    after = orders.json("PATCH", CRM, patch)

    before["properties"]["deliveryConfiguration"]["push"]["maxDeliveryCount"] = 4
    assert after == before
    assert len(orders.pusher.sent) == 1

    filters = {"filters": [{"operatorType": "IsNotNull", "key": "data.a"}]}
    after = orders.json("PATCH", CRM, {"properties": {"filtersConfiguration": filters}})
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
    orders: World, body: dict[str, Any], target: str, words: str
) -> None:
    error = orders.error("PUT", CRM, body, status=400)

    assert error["target"].endswith(target)
    assert words in error["message"]
    assert orders.pusher.sent == []


@pytest.mark.parametrize("kind", ["EventHub", "ServiceBusQueue", "StorageQueue", "AzureFunction"])
def test_other_destinations_are_refused_by_name(orders: World, kind: str) -> None:
    body = push(destination={"endpointType": kind, "properties": {}})

    assert kind in orders.error("PUT", CRM, body, status=400)["message"]


def test_an_endpoint_has_to_consent(orders: World) -> None:
    orders.pusher.script(URL, answered(200))

    assert orders.error("PUT", CRM, push(), status=400)["code"] == "Url validation"
    assert orders.call("GET", CRM).status == 404


@pytest.mark.parametrize("gone", [SHOP, ORDERS])
def test_what_is_deleted_takes_what_is_in_it_along(orders: World, gone: str) -> None:
    orders.json("PUT", CRM, push(), status=201)

    assert orders.call("DELETE", gone).status == 204

    assert orders.call("GET", gone).status == 404
    assert orders.call("GET", CRM).status == 404
    assert orders.resources.list(Table.EVENT_SUBSCRIPTIONS, "shop.orders") == []
    assert orders.resources.list(Table.TOPICS, NAMESPACE_TOPICS) == []


def test_lists_across_leave_namespaces_out(orders: World) -> None:
    orders.json("PUT", CRM, push(), status=201)

    assert orders.json("GET", f"{GROUP}/eventSubscriptions")["value"] == []
    assert len(orders.json("GET", f"{ORDERS}/eventSubscriptions")["value"]) == 1


def test_no_answer_holds_a_key(orders: World) -> None:
    for target in (SHOP, ORDERS, f"{GROUP}/namespaces", f"{SHOP}/topics"):
        assert "key-" not in json.dumps(orders.json("GET", target))


@pytest.mark.parametrize("gone", [SHOP, ORDERS])
def test_a_deletion_that_failed_half_way_can_be_repeated(orders: World, gone: str) -> None:
    """Otherwise nobody could address what is left."""
    orders.json("PUT", CRM, push(), status=201)
    orders.resources.fail_next("list")

    assert orders.call("DELETE", gone).status == 503
    assert orders.call("GET", gone).status == 200

    assert orders.call("DELETE", gone).status == 204
    assert orders.resources.list(Table.EVENT_SUBSCRIPTIONS, "shop.orders") == []


class Deleting(MemoryResources):
    """The namespace goes while its topic is written."""

    def put(self, table, partition, name, document, etag):
        if partition == NAMESPACE_TOPICS:
            self.delete(Table.TOPICS, NAMESPACES, "shop")
        return super().put(table, partition, name, document, etag)


def test_a_topic_is_not_left_without_its_namespace() -> None:
    world = World(resources=Deleting())
    world.json("PUT", SHOP, {"location": "x"}, status=201)

    assert world.error("PUT", ORDERS, {"properties": {}}, status=404)["code"] == "ResourceNotFound"
    assert world.resources.list(Table.TOPICS, NAMESPACE_TOPICS) == []
