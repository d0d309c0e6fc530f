"""Namespaces and their topics."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shared.engine.ports import NAMESPACE_TOPICS, NAMESPACES, Table
from tests.fakes import MemoryResources
from tests.functional.manage.arm_api import GROUP, HOST, SHOP, SHOP_CRM, SHOP_ORDERS, ArmApi, push


def test_a_namespace_is_answered_with_its_defaults(shop: ArmApi) -> None:
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


def test_a_topic_is_answered_with_its_defaults(shop: ArmApi) -> None:
    created = shop.json("PUT", SHOP_ORDERS, {}, status=400)
    assert created["error"]["code"] == "InvalidRequestContent"

    assert shop.json("PUT", SHOP_ORDERS, {"properties": {}}, status=201) == {
        "id": SHOP_ORDERS,
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


def test_names_are_unique_and_places_exact(shop_orders: ArmApi) -> None:
    elsewhere = SHOP.replace("/rg/", "/other/")

    assert shop_orders.error("PUT", elsewhere, {"location": "x"}, status=409)["code"] == "Conflict"
    for target in (elsewhere, f"{elsewhere}/topics/orders", f"{SHOP}/topics/none"):
        assert shop_orders.error("GET", target, status=404)["code"] == "ResourceNotFound"
        assert (
            shop_orders.error("PATCH", target, {"tags": {}}, status=404)["code"]
            == "ResourceNotFound"
        )
        assert shop_orders.call("DELETE", target).status == 204
    without = f"{elsewhere}/topics/new"
    assert shop_orders.error("PUT", without, {"properties": {}}, status=404)
    assert shop_orders.resources.get(Table.TOPICS, NAMESPACE_TOPICS, "shop.new") is None
    assert shop_orders.call("GET", SHOP_ORDERS).status == 200


def test_each_has_keys_of_its_own(shop_orders: ArmApi) -> None:
    known = [shop_orders.json("POST", f"{each}/listKeys") for each in (SHOP, SHOP_ORDERS)]
    assert len({key for keys in known for key in keys.values()}) == 4

    after = shop_orders.json("POST", f"{SHOP}/regenerateKey", {"keyName": "key2"})

    assert after["key1"] == known[0]["key1"]
    assert after["key2"] not in known[0].values()
    shop_orders.json("PUT", SHOP, {"location": "x"}, status=201)
    assert shop_orders.json("POST", f"{SHOP}/listKeys") == after
    assert shop_orders.json("POST", f"{SHOP_ORDERS}/listKeys") == known[1]


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


@pytest.mark.parametrize("gone", [SHOP, SHOP_ORDERS])
def test_what_is_deleted_takes_what_is_in_it_along(shop_orders: ArmApi, gone: str) -> None:
    shop_orders.json("PUT", SHOP_CRM, push(), status=201)

    assert shop_orders.call("DELETE", gone).status == 204

    assert shop_orders.call("GET", gone).status == 404
    assert shop_orders.call("GET", SHOP_CRM).status == 404
    assert shop_orders.resources.list(Table.EVENT_SUBSCRIPTIONS, "shop.orders") == []
    assert shop_orders.resources.list(Table.TOPICS, NAMESPACE_TOPICS) == []


def test_lists_across_leave_namespaces_out(shop_orders: ArmApi) -> None:
    shop_orders.json("PUT", SHOP_CRM, push(), status=201)

    assert shop_orders.json("GET", f"{GROUP}/eventSubscriptions")["value"] == []
    assert len(shop_orders.json("GET", f"{SHOP_ORDERS}/eventSubscriptions")["value"]) == 1


def test_no_answer_holds_a_key(shop_orders: ArmApi) -> None:
    for target in (SHOP, SHOP_ORDERS, f"{GROUP}/namespaces", f"{SHOP}/topics"):
        assert "key-" not in json.dumps(shop_orders.json("GET", target))


@pytest.mark.parametrize("gone", [SHOP, SHOP_ORDERS])
def test_a_deletion_that_failed_half_way_can_be_repeated(shop_orders: ArmApi, gone: str) -> None:
    """Otherwise nobody could address what is left."""
    shop_orders.json("PUT", SHOP_CRM, push(), status=201)
    shop_orders.resources.fail_next("list")

    assert shop_orders.call("DELETE", gone).status == 503
    assert shop_orders.call("GET", gone).status == 200

    assert shop_orders.call("DELETE", gone).status == 204
    assert shop_orders.resources.list(Table.EVENT_SUBSCRIPTIONS, "shop.orders") == []


class Deleting(MemoryResources):
    """The namespace goes while its topic is written, which somebody has used already."""

    def put(self, table, partition, name, document, etag):
        if partition == NAMESPACE_TOPICS:
            self.delete(Table.TOPICS, NAMESPACES, "shop")
            super().put(Table.EVENT_SUBSCRIPTIONS, "shop.orders", "crm", {"name": "crm"}, None)
        return super().put(table, partition, name, document, etag)


def test_a_topic_is_not_left_without_its_namespace() -> None:
    api = ArmApi(resources=Deleting())
    api.json("PUT", SHOP, {"location": "x"}, status=201)

    assert (
        api.error("PUT", SHOP_ORDERS, {"properties": {}}, status=404)["code"] == "ResourceNotFound"
    )
    assert api.resources.list(Table.TOPICS, NAMESPACE_TOPICS) == []
    assert api.resources.list(Table.EVENT_SUBSCRIPTIONS, "shop.orders") == []
