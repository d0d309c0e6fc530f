"""Namespaces, their topics, and the event subscriptions of these."""

from __future__ import annotations

from typing import Any

import pytest

from tests.functional.manage.arm_api import GROUP, SHOP, SHOP_CRM, SHOP_ORDERS, ArmApi, push
from tests.unit.arm.documents import dead_letter


@pytest.mark.parametrize(
    ("target", "body", "fault"),
    [
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


def test_dead_letters_and_limits_are_kept(shop_orders: ArmApi) -> None:
    wanted: dict[str, Any] = {
        "maxDeliveryCount": 3,
        "eventTimeToLive": "PT120S",
        "deadLetterDestinationWithResourceIdentity": {
            "identity": {"type": "SystemAssigned", "userAssignedIdentity": None},
            "deadLetterDestination": dead_letter(),
        },
    }

    created = shop_orders.json("PUT", SHOP_CRM, push(**wanted), status=201)

    configuration = created["properties"]["deliveryConfiguration"]["push"]
    assert {name: configuration[name] for name in wanted} == wanted
    assert created == shop_orders.json("GET", SHOP_CRM)
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
            {"properties": {"filtersConfiguration": {}}},
            "properties.deliveryConfiguration.deliveryMode",
            "is missing",
        ),
        (push(destination={"endpointType": "EventHub"}), "endpointType", "EventHub"),
        (push(maxDeliveryCount=11), "maxDeliveryCount", "between 1 and 10"),
        (push(maxDeliveryCount=0), "maxDeliveryCount", "between 1 and 10"),
        (push(eventTimeToLive="PT59S"), "eventTimeToLive", "between PT1M and"),
        (push(eventTimeToLive="P2DT1M"), "eventTimeToLive", "P2D"),
        (push(eventTimeToLive="PT90S"), "eventTimeToLive", "in whole minutes"),
        (push(eventTimeToLive="PT1M0.5S"), "eventTimeToLive", "in whole minutes"),
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
