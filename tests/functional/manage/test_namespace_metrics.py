"""Metrics of namespaces, and what metrics there are: in Azure Monitor's words."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from unittest.mock import Mock
from urllib.parse import quote

import pytest
from azure.mgmt.monitor import models

from pushgrid.testing.memory import START
from shared.delivery.policy import EndReason
from shared.metrics import DEFINITIONS, Metric, Series
from tests.builders import a_minute
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

INSIGHTS = "/providers/Microsoft.Insights"
EXTENSION = f"{ORDERS}/providers/Microsoft.EventGrid/eventSubscriptions/crm"
OTHER = SHOP.replace("/shop", "/other")
RETURNS = f"{SHOP}/topics/returns"
DELIVERED = Series(Metric.DELIVERY_SUCCESS)
PUBLISHED = Series(Metric.PUBLISH_SUCCESS)


def dropped(reason: str) -> Series:
    return Series(Metric.DROPPED, (("DropReason", reason),))


@pytest.fixture
def counted(shop_orders: ArmApi) -> ArmApi:
    """Two topics with a subscription each; a minute ago both were busy, and another namespace."""
    api = shop_orders
    api.json("PUT", SHOP_CRM, push(), status=201)
    api.json("PUT", RETURNS, {"properties": {}}, status=201)
    api.json("PUT", f"{RETURNS}/eventSubscriptions/erp", push(), status=201)
    api.json("PUT", OTHER, {"location": "x"}, status=201)
    api.json("PUT", f"{OTHER}/topics/orders", {"properties": {}}, status=201)
    ends = {
        dropped(EndReason.CONTAINER_NOT_FOUND): 2,
        dropped(EndReason.MAX_ATTEMPTS): 3,
        DELIVERED: 4,
    }
    count(api, "shop.orders", "", {PUBLISHED: 9, **ends})
    count(api, "shop.orders", "crm", ends)
    count(api, "shop.returns", "", {PUBLISHED: 1, DELIVERED: 1})
    count(api, "shop.returns", "erp", {DELIVERED: 1})
    count(api, "other.orders", "", {PUBLISHED: 100, DELIVERED: 100})
    return api


def count(api: ArmApi, topic: str, subscription: str, counts: dict[Series, int]) -> None:
    start = START - timedelta(minutes=1)
    api.counts.write([a_minute(counts, start=start, topic=topic, subscription=subscription)])


def totals(api: ArmApi, resource: str, name: str, condition: str = "") -> dict[str, float]:
    """Ask for a metric of the last hour; return its sums by the dimensions of the filter."""
    query = f"metricnames={name}&interval=FULL&aggregation=total&$filter={quote(condition)}"
    (metric,) = api.json("GET", f"{resource}{INSIGHTS}/metrics?{query}")["value"]
    return {
        "/".join(value["value"] for value in each["metadatavalues"]): each["data"][0]["total"]
        for each in metric["timeseries"]
    }


@pytest.mark.parametrize(
    ("resource", "name", "condition", "expected"),
    [
        (SHOP, "SuccessfulPublishedEvents", "", {"": 10}),
        (SHOP, "SuccessfulPublishedEvents", "Topic eq '*'", {"orders": 9, "returns": 1}),
        (SHOP, "SuccessfulReceivedEvents", "topic eq 'ORDERS'", {"orders": 4}),
        (SHOP, "SuccessfulReceivedEvents", "EventSubscriptionName eq '*'", {"crm": 4, "erp": 1}),
        (
            SHOP,
            "SuccessfulReceivedEvents",
            "EventSubscriptionName eq '*' and Topic eq 'returns'",
            {"erp/returns": 1},
        ),
        (SHOP, "DroppedEventCount", "", {"": 5}),
        (SHOP, "FailedDeadLetteredEvents", "", {"": 2}),
        (SHOP, "FailedPublishedEvents", "", {"": 0}),
        (SHOP_ORDERS, "DroppedEvents", "DropReason eq '*'", {
            "DeadLetterContainerNotFound": 2,
            "MaxDeliveryAttemptsExceeded": 3,
        }),
        (SHOP_CRM, "SuccessfulReceivedEvents", "", {"": 4}),
        (SHOP_CRM.upper(), "FailedDeadLetteredEvents", "", {"": 2}),
    ],
)  # fmt: skip
def test_a_namespace_has_azures_names_for_what_its_topics_count(
    counted: ArmApi, resource: str, name: str, condition: str, expected: dict[str, float]
) -> None:
    assert totals(counted, resource, name, condition) == expected


def test_only_what_is_asked_for_is_read(counted: ArmApi, monkeypatch: pytest.MonkeyPatch) -> None:
    minutes = Mock(wraps=counted.counts.minutes)
    monkeypatch.setattr(counted.counts, "minutes", minutes)

    totals(counted, SHOP, "DroppedEvents", "Topic eq 'returns'")

    assert [each.args[:2] for each in minutes.call_args_list] == [("shop.returns", "")]


def test_a_namespace_takes_only_its_own_topics_along(counted: ArmApi) -> None:
    assert counted.call("DELETE", SHOP).status == 204

    assert counted.call("GET", f"{OTHER}/topics/orders").status == 200


def test_the_answer_says_what_and_where_it_is(counted: ArmApi) -> None:
    for resource, kind in (
        (SHOP, "Microsoft.EventGrid/namespaces"),
        (SHOP_ORDERS, "Microsoft.EventGrid/namespaces/topics"),
        (SHOP_CRM, "Microsoft.EventGrid/namespaces/topics/eventsubscriptions"),
    ):
        answer = counted.json("GET", f"{resource}{INSIGHTS}/metrics?interval=FULL")

        assert (answer["namespace"], answer["resourceregion"]) == (kind, "westeurope")
        metric = answer["value"][0]
        assert metric["id"] == f"{resource}{INSIGHTS}/metrics/{metric['name']['value']}"


@pytest.mark.parametrize(
    ("resource", "name", "words"),
    [
        (SHOP, "PublishSuccessCount", "SuccessfulPublishedEvents"),
        (SHOP_CRM, "SuccessfulPublishedEvents", "SuccessfulReceivedEvents"),
        (ORDERS, "SuccessfulPublishedEvents", "PublishSuccessCount"),
    ],
)
def test_each_kind_has_its_own_names(counted: ArmApi, resource: str, name: str, words: str) -> None:
    counted.json("PUT", ORDERS, {"location": "x"}, status=201)
    counted.json("PUT", CRM, hook(), status=201)
    error = counted.error("GET", f"{resource}{INSIGHTS}/metrics?metricnames={name}", status=400)

    assert words in error["message"]


def definitions(api: ArmApi, resource: str) -> dict[str, dict[str, Any]]:
    answer = api.json("GET", f"{resource}{INSIGHTS}/metricDefinitions")
    assert models.MetricDefinitionCollection.deserialize(answer).value
    return {each["name"]["value"]: each for each in answer["value"]}


def dimensions(each: dict[str, Any]) -> list[str]:
    return [dimension["value"] for dimension in each["dimensions"]]


def test_definitions_are_those_of_the_kind(counted: ArmApi) -> None:
    counted.json("PUT", ORDERS, {"location": "x"}, status=201)
    counted.json("PUT", CRM, hook(), status=201)

    assert list(definitions(counted, ORDERS)) == list(DEFINITIONS)
    assert "PublishSuccessCount" not in definitions(counted, CRM)
    assert list(definitions(counted, EXTENSION)) == list(definitions(counted, CRM))
    of_namespace = definitions(counted, SHOP)
    assert dimensions(of_namespace["FailedReceivedEvents"]) == [
        *("Topic", "EventSubscriptionName", "Error", "ErrorType")
    ]
    assert list(definitions(counted, SHOP_ORDERS)) == list(of_namespace)
    of_subscription = definitions(counted, SHOP_CRM)
    assert dimensions(of_subscription["FailedReceivedEvents"]) == ["Error", "ErrorType"]
    assert "SuccessfulPublishedEvents" not in of_subscription


@pytest.mark.parametrize("resource", [f"{ORDERS}-other", CRM, SHOP, SHOP_CRM])
@pytest.mark.parametrize("what", ["metrics", "metricDefinitions"])
def test_what_is_not_there_has_none(orders: ArmApi, resource: str, what: str) -> None:
    assert orders.error("GET", f"{resource}{INSIGHTS}/{what}", status=404)["code"] == (
        "ResourceNotFound"
    )


def test_what_is_defined_can_be_asked_for_by_each_dimension(counted: ArmApi) -> None:
    for resource in (SHOP, SHOP_ORDERS, SHOP_CRM):
        for name, each in definitions(counted, resource).items():
            for dimension in dimensions(each):
                assert isinstance(totals(counted, resource, name, f"{dimension} eq '*'"), dict)
