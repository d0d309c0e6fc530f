"""Deletions: contents go along, endpoints are notified, and failed ones can be repeated."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pushgrid.testing.memory import answered
from shared.delivery.health.endpoint_health import Health
from shared.engine.ports import CUSTOM_TOPICS, NAMESPACE_TOPICS, NAMESPACES, Table
from shared.errors import StorageUnavailable
from shared.http import Exchange, Failure, NotAnswered, OutboundRequest
from shared.subscriptions.subscription import SubscriptionKey
from tests.builders import a_table_health
from tests.functional.manage.arm_api import (
    CRM,
    ORDERS,
    SHOP,
    SHOP_CRM,
    SHOP_ORDERS,
    URL,
    ArmApi,
    header,
    hook,
)

OTHER = "https://other.example/hook"
CLOUD: dict[str, Any] = {"eventDeliverySchema": "CloudEventSchemaV1_0"}


@pytest.mark.parametrize(
    ("target", "topic", "left"),
    [
        (ORDERS, "orders", [1, 0]),
        (ORDERS.upper(), "orders", [1, 0]),
        (SHOP_ORDERS, "shop.orders", [0, 1]),
        (SHOP, "shop.orders", [0, 1]),
    ],
)
@pytest.mark.parametrize("verb", ["list", "delete", None])
def test_contents_go_along_and_what_failed_half_way_can_be_repeated(
    full: ArmApi, target: str, topic: str, left: list[int], verb: str | None
) -> None:
    """Otherwise nobody could address what is left."""
    if verb:
        full.resources.fail_next(verb)
        assert full.call("DELETE", target).status == 503
        assert full.call("GET", target).status == 200

    answer = full.call("DELETE", target)

    assert (answer.status, answer.body) == (204, b"")
    assert full.call("GET", target).status == 404
    assert full.resources.list(Table.EVENT_SUBSCRIPTIONS, topic) == []
    partitions = (NAMESPACE_TOPICS, CUSTOM_TOPICS)
    assert [len(full.resources.list(Table.TOPICS, each)) for each in partitions] == left


def test_a_topic_takes_along_what_was_created_meanwhile(
    orders: ArmApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody creates a subscription just before the topic goes."""
    delete = orders.resources.delete

    def late(table: Table, *key: Any) -> bool:
        if table is Table.TOPICS:
            orders.resources.put(Table.EVENT_SUBSCRIPTIONS, "orders", "late", {"name": "x"}, None)
        return delete(table, *key)

    monkeypatch.setattr(orders.resources, "delete", late)

    assert orders.call("DELETE", ORDERS).status == 204
    assert orders.resources.list(Table.EVENT_SUBSCRIPTIONS, "orders") == []


def test_a_topic_is_not_left_without_its_namespace(shop: ArmApi) -> None:
    """Which goes while its topic is written, and somebody has used that already."""
    used = (Table.EVENT_SUBSCRIPTIONS, "shop.orders", "crm", {"name": "crm"}, None)
    shop.before_put(
        lambda: (shop.resources.delete(Table.TOPICS, NAMESPACES, "shop"), shop.resources.put(*used))
    )

    error = shop.error("PUT", SHOP_ORDERS, {"properties": {}}, status=404)

    assert error["code"] == "ResourceNotFound"
    assert shop.resources.list(Table.TOPICS, NAMESPACE_TOPICS) == []
    assert shop.resources.list(Table.EVENT_SUBSCRIPTIONS, "shop.orders") == []


def notices(api: ArmApi) -> list[OutboundRequest]:
    return [
        sent.request
        for sent in api.pusher.sent
        if sent.request.headers.get("aeg-event-type") == "SubscriptionDeletion"
    ]


def test_an_endpoint_hears_that_its_subscription_is_deleted(orders: ArmApi) -> None:
    orders.json("PUT", CRM, hook(URL, header("s3")), status=201)

    orders.call("DELETE", CRM)

    (notice,) = notices(orders)
    assert (notice.method, notice.url) == ("POST", URL)
    assert notice.headers == {
        "Content-Type": "application/json; charset=utf-8",
        "aeg-event-type": "SubscriptionDeletion",
        "aeg-subscription-name": "CRM",
        "aeg-delivery-count": "0",
        "aeg-data-version": "1",
        "aeg-metadata-version": "1",
        "x-key": "s3",
    }
    (event,) = json.loads(notice.body)
    assert event.pop("id")
    assert event == {
        "topic": ORDERS,
        "subject": "",
        "eventType": "Microsoft.EventGrid.SubscriptionDeletedEvent",
        "eventTime": "2026-02-09T12:00:00.0000000Z",
        "metadataVersion": "1",
        "dataVersion": "1",
        "data": {"eventSubscriptionId": CRM},
    }


def test_endpoints_of_cloud_events_hear_it_in_their_schema(orders: ArmApi) -> None:
    orders.json("PUT", CRM, hook(**CLOUD), status=201)

    orders.call("DELETE", CRM)

    (notice,) = notices(orders)
    assert notice.headers["Content-Type"] == "application/cloudevents+json; charset=utf-8"
    event = json.loads(notice.body)
    assert event.pop("id")
    assert event == {
        "specversion": "1.0",
        "source": ORDERS,
        "type": "Microsoft.EventGrid.SubscriptionDeletedEvent",
        "time": "2026-02-09T12:00:00.0000000Z",
        "data": {"eventSubscriptionId": CRM},
    }


@pytest.mark.parametrize("path", [CRM, ORDERS], ids=["subscription", "topic"])
@pytest.mark.parametrize(
    "exchange", [answered(500), NotAnswered(Failure.TIMED_OUT, "", 5)], ids=["500", "silence"]
)
def test_all_endpoints_hear_it_once_whatever_they_answer(
    orders: ArmApi, path: str, exchange: Exchange
) -> None:
    orders.json("PUT", CRM, hook(), status=201)
    orders.json("PUT", f"{CRM}-2", hook(OTHER), status=201)
    orders.pusher.script(URL, exchange)

    assert [orders.call("DELETE", path).status for _ in range(2)] == [204, 204]

    assert orders.call("GET", path).status == 404
    assert [notice.url for notice in notices(orders)] == ([URL] if path == CRM else [URL, OTHER])


def test_a_deletion_that_fails_half_way_has_notified_those_that_are_gone(
    orders: ArmApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its repeat does not find them any more."""
    orders.json("PUT", CRM, hook(), status=201)
    orders.json("PUT", f"{CRM}-2", hook(OTHER), status=201)
    delete = orders.resources.delete

    def second_fails(table: Table, partition: str, name: str, *rest: Any) -> bool:
        if name.endswith("-2"):
            raise StorageUnavailable
        return delete(table, partition, name, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(orders.resources, "delete", second_fails)
        failed = orders.call("DELETE", ORDERS)
    repeated = orders.call("DELETE", ORDERS)

    assert (failed.status, repeated.status) == (503, 204)
    assert [notice.url for notice in notices(orders)] == [URL, OTHER]


@pytest.mark.parametrize(
    ("urls", "notified"), [((OTHER,), []), ((URL, OTHER), [URL])], ids=["created", "updated"]
)
def test_only_the_endpoint_in_force_hears_it(
    orders: ArmApi, urls: tuple[str, ...], notified: list[str]
) -> None:
    """Who never consented hears nothing."""
    orders.pusher.script(OTHER, answered(200))
    for url in urls:
        orders.json("PUT", CRM, hook(url), status=201)

    orders.call("DELETE", CRM)

    assert [notice.url for notice in notices(orders)] == notified


def know(api: ArmApi, *keys: tuple[str, str]) -> None:
    """Write rows as delivering does."""
    for topic, name in keys:
        health = a_table_health(api.resources)
        health.write(SubscriptionKey(topic, name), Health(endpoint="g-1", failures=3), None)


def known(api: ArmApi, *topics: str) -> list[str]:
    return [
        str(row.document["name"])
        for topic in topics
        for row in api.resources.list(Table.ENDPOINT_HEALTH, topic)
    ]


@pytest.mark.parametrize(
    ("path", "topic", "left"),
    [
        (CRM, "orders", ["erp"]),
        (ORDERS, "orders", []),
        (SHOP, "shop.orders", []),
        (SHOP_ORDERS, "shop.orders", []),
        (SHOP_CRM, "shop.orders", ["erp"]),
    ],
)
def test_what_is_deleted_leaves_no_health(
    full: ArmApi, path: str, topic: str, left: list[str]
) -> None:
    """Nor does what is in it; *erp* is left from a subscription that went before."""
    know(full, (topic, "CRM"), (topic, "erp"), ("other", "crm"))

    full.call("DELETE", path)

    assert known(full, topic, "other") == [*left, "crm"]


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
