"""The states of all topics and their subscriptions, as the status routes answer them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from pushgrid.testing.memory import START, answered
from shared.clock import timestamp
from shared.engine.operations.topic_states import topic_states
from shared.engine.ports import CUSTOM_TOPICS, Table
from tests.functional.manage.arm_api import CRM, ORDERS, SHOP_CRM, ArmApi, hook, push

MINUTE = timedelta(minutes=1)


def read(arm: ArmApi) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = topic_states(arm.resources, arm.clock.now())["value"]
    return found


def subscriptions(arm: ArmApi) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for topic in read(arm) for each in topic["subscriptions"]}


def add(arm: ArmApi, name: str, body: dict[str, Any] | None = None) -> str:
    path = f"{ORDERS}/eventSubscriptions/{name}"
    arm.json("PUT", path, body or hook(), status=201)
    return path


def test_there_is_one_state_for_each_subscription(orders: ArmApi) -> None:
    add(orders, "plain")
    orders.json("POST", f"{add(orders, 'paused')}/pause")
    add(orders, "late", hook(expirationTimeUtc=timestamp(START + MINUTE)))
    orders.clock.advance(2 * MINUTE)
    orders.pusher.script("https://silent.example/", answered(200))
    add(orders, "silent", hook("https://silent.example/"))

    found = subscriptions(orders)

    assert found["plain"] == {
        "name": "plain",
        "id": f"{ORDERS}/eventSubscriptions/plain",
        "isReadable": True,
        "endpoint": "https://crm.example/hook",
        "hasConsented": True,
        "validation": None,
        "isExpired": False,
        "limits": {},
        "paused": None,
        "held": None,
        "waiting": 0,
        "oldestSeenSeconds": None,
        "awaitingBlob": 0,
        "blobsDueSeconds": None,
    }
    assert found["paused"]["paused"] == {"since": timestamp(START), "by": "the admin key"}
    assert found["late"]["isExpired"]
    assert not found["silent"]["hasConsented"]
    assert "s3cret" not in repr(found)


def test_a_hold_is_shown_with_its_reason(orders: ArmApi) -> None:
    add(orders, "crm")
    orders.hold(minutes=1)
    why = "probation for NotFound: 5 min"

    [trouble] = topic_states(orders.resources, orders.clock.now())["troubles"]

    assert (trouble["kind"], trouble["since"]) == ("held", timestamp(START))
    held = subscriptions(orders)["crm"]["held"]
    assert held == {"until": timestamp(START + MINUTE), "why": why}
    orders.json("PUT", CRM, hook("https://other.example/"), status=201)
    assert subscriptions(orders)["crm"]["held"] is None


def test_topics_of_namespaces_have_the_name_that_publishers_use(shop_orders: ArmApi) -> None:
    shop_orders.json("PUT", SHOP_CRM, push(), status=201)

    (topic,) = read(shop_orders)

    assert (topic["name"], topic["inputSchema"]) == ("shop.orders", "CloudEventSchemaV1_0")
    assert topic["id"].endswith("/namespaces/shop/topics/orders")
    assert [each["name"] for each in topic["subscriptions"]] == ["crm"]


def test_what_can_not_be_read_is_named_and_harms_nothing_else(orders: ArmApi) -> None:
    add(orders, "crm")
    add(orders, "billing")
    orders.resources.damage(Table.EVENT_SUBSCRIPTIONS, "orders", "crm", {"name": "crm"})
    orders.resources.damage(Table.TOPICS, CUSTOM_TOPICS, "orders", {"name": "orders"})

    (topic,) = read(orders)

    assert (topic["name"], topic["isReadable"]) == ("orders", False)
    found = {each["name"]: each["isReadable"] for each in topic["subscriptions"]}
    assert found == {"crm": False, "billing": True}


def test_a_storage_account_with_subscriptions_is_a_topic(orders: ArmApi) -> None:
    source = "/subscriptions/s1/resourceGroups/rg/providers/Microsoft.Storage/storageAccounts/acct"
    path = f"{source}/providers/Microsoft.EventGrid/eventSubscriptions/ops"
    orders.json("PUT", path, hook(), status=201)

    found = topic_states(orders.resources, orders.clock.now(), {"acct", "other"})["value"]

    _, account = found
    assert (account["name"], account["id"]) == ("system-acct", source)
    assert [each["id"] for each in account["subscriptions"]] == [path]
