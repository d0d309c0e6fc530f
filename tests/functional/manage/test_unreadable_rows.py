"""Rows that can't be read: said, listed where their place is known, replaced by PUT, deleted."""

from __future__ import annotations

import pytest

from shared.engine.ports import Table
from tests.functional.manage.arm_api import (
    BODIES,
    CRM,
    GROUP,
    ORDERS,
    SHOP,
    SHOP_CRM,
    SHOP_ORDERS,
    TOPICS,
    ArmApi,
    hook,
)

AUDIT = f"{ORDERS}/eventSubscriptions/audit"
EXTENSION = f"{ORDERS}/providers/Microsoft.EventGrid/eventSubscriptions"
SUBSCRIPTION = Table.EVENT_SUBSCRIPTIONS, "orders", "crm"
SHOP_SUBSCRIPTION = Table.EVENT_SUBSCRIPTIONS, "shop.orders", "crm"
ROWS = {
    ORDERS: (Table.TOPICS, "topic", "orders"),
    SHOP: (Table.TOPICS, "namespace", "shop"),
    SHOP_ORDERS: (Table.TOPICS, "namespacetopic", "shop.orders"),
}
DAMAGES = [None, [1], {"name": "crm", "properties": {}}, {"id": 1, "name": 2, "properties": []}]


@pytest.fixture
def api(full: ArmApi) -> ArmApi:
    full.json("PUT", AUDIT, hook(), status=201)
    return full


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", CRM),
        ("GET", f"{EXTENSION}/crm"),
        ("PATCH", CRM),
        ("GET", f"{CRM}/attempts"),
        ("POST", f"{CRM}/getFullUrl"),
        ("POST", f"{CRM}/getDeliveryAttributes"),
    ],
)
def test_an_unreadable_subscription_is_neither_missing_nor_a_fault_of_the_caller(
    api: ArmApi, method: str, path: str, damage: object
) -> None:
    api.resources.damage(*SUBSCRIPTION, damage)

    error = api.error(method, path, {"labels": ["new"]}, status=503)

    assert "PUT replaces it, and DELETE deletes it" in error["message"]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize(
    "path", [f"{ORDERS}/eventSubscriptions", EXTENSION, f"{GROUP}/eventSubscriptions"]
)
def test_a_list_shows_that_it_has_failed_beside_the_others(
    api: ArmApi, path: str, damage: object
) -> None:
    api.resources.damage(*SUBSCRIPTION, damage)

    listed = api.json("GET", path)["value"]

    states = {each["name"]: each["properties"]["provisioningState"] for each in listed}
    assert states == {"crm": "Failed", "audit": "Succeeded"}
    (failed,) = [each for each in listed if each["name"] == "crm"]
    assert failed["id"] == CRM


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize(("path", "row"), [(CRM, SUBSCRIPTION), (SHOP_CRM, SHOP_SUBSCRIPTION)])
def test_put_replaces_and_delete_deletes_an_unreadable_subscription(
    api: ArmApi, path: str, row: tuple[Table, str, str], damage: object
) -> None:
    api.resources.damage(*row, damage)
    repaired = api.json("PUT", path, BODIES[path], status=201)
    got = api.json("GET", path)

    api.resources.damage(*row, damage)

    assert api.call("DELETE", path).status == 204
    api.error("GET", path, status=404)
    assert (repaired["name"], got["properties"]["provisioningState"]) == ("crm", "Succeeded")


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("path", list(ROWS))
def test_an_unreadable_topic_is_no_missing_one_and_in_no_list(
    api: ArmApi, path: str, damage: object
) -> None:
    """Nobody knows where it belongs."""
    other = f"{path}2"
    api.json("PUT", other, BODIES[path], status=201)
    api.resources.damage(*ROWS[path], damage)

    for method, target in (
        ("GET", path),
        ("PATCH", path),
        ("POST", f"{path}/listKeys"),
        ("GET", f"{path}/eventSubscriptions" if path != SHOP else SHOP_ORDERS),
    ):
        body = {"tags": {}, "properties": {"eventRetentionInDays": 1}}
        api.error(method, target, body, status=503)
    listed = api.json("GET", path.rpartition("/")[0])["value"]
    assert [each["name"] for each in listed] == [other.rpartition("/")[2]]
    assert api.json("GET", f"{GROUP}/eventSubscriptions")["value"] or path == ORDERS


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("path", list(ROWS))
def test_put_replaces_and_delete_deletes_an_unreadable_topic(
    api: ArmApi, path: str, damage: object
) -> None:
    keys = api.json("POST", f"{path}/listKeys")
    api.resources.damage(*ROWS[path], damage)
    api.json("PUT", path, BODIES[path], status=201)
    new_keys = api.json("POST", f"{path}/listKeys")
    table, partition, name = ROWS[path]

    api.resources.damage(table, partition, name, damage)

    assert api.call("DELETE", path).status == 204
    api.error("GET", path, status=404)
    assert new_keys["key1"] != keys["key1"]
    gone = {ORDERS: "orders", SHOP: "shop.orders", SHOP_ORDERS: "shop.orders"}[path]
    assert list(api.resources.list(Table.EVENT_SUBSCRIPTIONS, gone)) == []


@pytest.mark.parametrize("path", list(ROWS))
def test_a_topic_of_another_shape_keeps_its_keys(api: ArmApi, path: str) -> None:
    """As after a rollback: publishers must not need new ones."""
    keys = api.json("POST", f"{path}/listKeys")
    api.resources.damage(*ROWS[path], {"keys": keys, "later": True})

    api.json("PUT", path, BODIES[path], status=201)

    assert api.json("POST", f"{path}/listKeys") == keys


def test_a_deleted_topic_takes_its_unreadable_rows_along(api: ArmApi) -> None:
    for row in (SUBSCRIPTION, (Table.ENDPOINT_HEALTH, "orders", "crm")):
        api.resources.damage(*row, None)

    assert api.call("DELETE", ORDERS).status == 204

    for table in (Table.EVENT_SUBSCRIPTIONS, Table.ENDPOINT_HEALTH):
        assert list(api.resources.list(table, "orders")) == []


def test_metrics_by_subscription_are_there_beside_an_unreadable_row(api: ArmApi) -> None:
    api.resources.damage(*SUBSCRIPTION, None)
    query = "metricnames=MatchedEventCount&$filter=EventSubscriptionName eq '*'"

    answer = api.call("GET", f"{ORDERS}/providers/Microsoft.Insights/metrics?{query}")

    assert answer.status == 200
    assert TOPICS in str(answer.body)
