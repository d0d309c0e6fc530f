"""What is known of an endpoint goes with its event subscription. Design §4."""

from __future__ import annotations

from typing import Any

import pytest

from shared.adapters.storage.health_table import TableHealth
from shared.delivery.health.endpoint_health import Health
from shared.engine.ports import Table
from shared.errors import StorageUnavailable
from shared.subscriptions.subscription import SubscriptionKey
from tests.fakes import FakeClock
from tests.functional.manage.arm_api import (
    CRM,
    ORDERS,
    SHOP,
    SHOP_CRM,
    SHOP_ORDERS,
    ArmApi,
    hook,
    push,
)


def know(api: ArmApi, *places: tuple[str, str]) -> None:
    """Write rows as delivering does."""
    for topic, name in places:
        health = TableHealth(api.resources, FakeClock().monotonic)
        health.write(SubscriptionKey(topic, name), Health(endpoint="g-1", failures=3), None)


def known(api: ArmApi, *topics: str) -> list[str]:
    return [
        str(row.document["name"])
        for topic in topics
        for row in api.resources.list(Table.ENDPOINT_HEALTH, topic)
    ]


def test_a_deleted_subscription_leaves_no_health(orders: ArmApi) -> None:
    orders.json("PUT", CRM, hook(), status=201)
    know(orders, ("orders", "CRM"), ("orders", "erp"), ("other", "crm"))

    orders.call("DELETE", CRM)

    assert known(orders, "orders", "other") == ["erp", "crm"]


def test_a_deleted_topic_leaves_no_health(orders: ArmApi) -> None:
    orders.json("PUT", CRM, hook(), status=201)
    know(orders, ("orders", "crm"), ("orders", "left-over"), ("other", "crm"))

    orders.call("DELETE", ORDERS)

    assert known(orders, "orders", "other") == ["crm"]


@pytest.mark.parametrize("path", [SHOP, SHOP_ORDERS, SHOP_CRM], ids=["all", "topic", "one"])
def test_nor_do_topics_of_namespaces(shop_orders: ArmApi, path: str) -> None:
    shop_orders.json("PUT", SHOP_CRM, push(), status=201)
    know(shop_orders, ("shop.orders", "crm"))

    shop_orders.call("DELETE", path)

    assert known(shop_orders, "shop.orders") == []


@pytest.mark.parametrize("path", [CRM, ORDERS], ids=["subscription", "topic"])
def test_what_is_deleted_is_deleted_though_its_health_stays(
    orders: ArmApi, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders.json("PUT", CRM, hook(), status=201)
    know(orders, ("orders", "crm"))
    delete = orders.resources.delete

    def fails_for_health(table: Table, *key: Any) -> bool:
        if table is Table.ENDPOINT_HEALTH:
            raise StorageUnavailable("busy")
        return delete(table, *key)

    monkeypatch.setattr(orders.resources, "delete", fails_for_health)

    assert orders.call("DELETE", path).status in (200, 204)
    assert known(orders, "orders") == ["crm"]
    assert orders.resources.list(Table.EVENT_SUBSCRIPTIONS, "orders") == []
