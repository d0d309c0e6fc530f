"""The other ways to an event subscription: as an extension of its topic, and in lists across."""

from __future__ import annotations

from typing import Any

import pytest

from shared.engine.ports import Table
from tests.functional.manage.arm_api import CRM, GROUP, ORDERS, TOPICS, ArmApi, hook

PROVIDER = "/providers/Microsoft.EventGrid"
EXTENSION = f"{ORDERS}{PROVIDER}/eventSubscriptions/crm"


def test_both_forms_are_the_same_resource(orders: ArmApi) -> None:
    created = orders.json("PUT", EXTENSION, hook(), status=201)

    assert created["id"] == EXTENSION
    assert created["type"] == "Microsoft.EventGrid/eventSubscriptions"
    lower_cased = ORDERS.replace("Microsoft.EventGrid", "microsoft.eventgrid")
    assert created["properties"]["topic"] == lower_cased
    nested = orders.json("GET", CRM)
    assert nested == created | {
        "id": CRM,
        "type": "Microsoft.EventGrid/topics/eventSubscriptions",
        "properties": created["properties"] | {"topic": ORDERS},
    }

    orders.json("PATCH", EXTENSION, {"labels": ["a"]}, status=201)
    assert orders.json("GET", CRM)["properties"]["labels"] == ["a"]
    listed = orders.json("GET", EXTENSION.removesuffix("/crm"))
    assert listed["value"] == [orders.json("GET", EXTENSION)]
    assert orders.json("POST", f"{EXTENSION}/getFullUrl") == orders.json(
        "POST", f"{CRM}/getFullUrl"
    )
    assert orders.json("POST", f"{EXTENSION}/getDeliveryAttributes") == {"value": []}

    assert orders.call("DELETE", EXTENSION).status == 204
    assert orders.call("GET", CRM).status == 404


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize(
    "scope",
    [
        "/subscriptions/s1",
        "/subscriptions/s1/resourceGroups/rg",
        "/subscriptions/s1/resourceGroups/rg/providers/Microsoft.Storage/storageAccounts/acct",
        f"{GROUP}/domains/d/topics/t",
    ],
)
def test_other_scopes_are_refused_by_name(orders: ArmApi, method: str, scope: str) -> None:
    target = f"{scope}{PROVIDER}/eventSubscriptions/crm"

    error = orders.error(method, target, hook(), status=400)

    assert error["code"] == "InvalidRequest"
    assert f"There are no event subscriptions of '{scope}' here" in error["message"]
    assert orders.pusher.sent == []


def test_an_extension_of_no_topic_is_not_found(orders: ArmApi) -> None:
    target = EXTENSION.replace("orders", "none")

    assert orders.error("PUT", target, hook(), status=404)["code"] == "ResourceNotFound"
    assert orders.error("GET", target, status=404)["code"] == "ResourceNotFound"


@pytest.fixture
def shop(orders: ArmApi) -> ArmApi:
    """Three topics, in two groups and two places; each has a subscription ``crm``."""
    returns = f"{TOPICS}/returns".replace("/rg/", "/back-office/")
    orders.json("PUT", returns, {"location": "North Europe"}, status=201)
    bills = f"{TOPICS}/bills".replace("/s1/", "/s2/")
    orders.json("PUT", bills, {"location": "westeurope"}, status=201)
    for topic in (ORDERS, returns, bills):
        orders.json("PUT", f"{topic}/eventSubscriptions/crm", hook(), status=201)
    return orders


@pytest.mark.parametrize(
    ("path", "topics"),
    [
        ("/subscriptions/s1{p}/eventSubscriptions", ["orders", "returns"]),
        ("/subscriptions/S2{p}/eventSubscriptions", ["bills"]),
        ("/subscriptions/s3{p}/eventSubscriptions", []),
        ("/subscriptions/s1/resourceGroups/rg{p}/eventSubscriptions", ["orders"]),
        ("/subscriptions/s1{p}/locations/northeurope/eventSubscriptions", ["returns"]),
        ("/subscriptions/s1{p}/locations/West%20Europe/eventSubscriptions", ["orders"]),
        (
            "/subscriptions/s1{p}/topicTypes/microsoft.eventgrid.topics/eventSubscriptions",
            ["orders", "returns"],
        ),
        ("/subscriptions/s1{p}/topicTypes/Microsoft.Storage/eventSubscriptions", []),
        (
            "/subscriptions/s1{p}/locations/westeurope/topicTypes/Microsoft.EventGrid.Topics/{e}",
            ["orders"],
        ),
        (
            f"{ORDERS}{{p}}/eventSubscriptions",
            ["orders"],
        ),
    ],
)
def test_lists_go_across_topics(shop: ArmApi, path: str, topics: list[str]) -> None:
    listed = shop.json("GET", path.format(p=PROVIDER, e="eventSubscriptions"))["value"]

    found = [each["properties"]["topic"].rpartition("/")[2] for each in listed]
    assert sorted(found) == topics
    assert {each["type"] for each in listed} <= {"Microsoft.EventGrid/eventSubscriptions"}


def test_pages_tell_equal_names_apart(shop: ArmApi) -> None:
    seen: list[Any] = []
    target = f"/subscriptions/s1{PROVIDER}/eventSubscriptions?$top=1&$filter=name eq 'crm'"

    while target:
        page = shop.json("GET", target)
        seen += [each["id"] for each in page["value"]]
        target = page["nextLink"]

    assert len(seen) == len(set(seen)) == 2


def fill(orders: ArmApi, count: int) -> None:
    """Let the topic have so many event subscriptions."""
    orders.json("PUT", CRM, hook(), status=201)
    stored = orders.resources.get(Table.EVENT_SUBSCRIPTIONS, "orders", "crm")
    assert stored is not None
    for number in range(count - 1):
        name = f"copy-{number}"
        orders.resources.put(
            Table.EVENT_SUBSCRIPTIONS, "orders", name, {**stored.document, "name": name}, None
        )


def test_a_topic_has_at_most_500_subscriptions(orders: ArmApi) -> None:
    fill(orders, 499)

    last = f"{ORDERS}/eventSubscriptions/last"
    orders.json("PUT", last, hook(), status=201)
    error = orders.error("PUT", f"{last}-but-one", hook(), status=400)

    assert (error["code"], "at most 500" in error["message"]) == ("QuotaExceeded", True)
    orders.json("PUT", last, hook(labels=["a"]), status=201)
    orders.json("PATCH", last, {"labels": ["b"]}, status=201)


def test_of_two_who_create_the_last_one_together_one_is_refused(orders: ArmApi) -> None:
    fill(orders, 499)
    first, second = (f"{ORDERS}/eventSubscriptions/{name}" for name in ("first", "second"))
    orders.pusher.during_handshakes.append(lambda: orders.json("PUT", second, hook(), status=201))

    error = orders.error("PUT", first, hook(), status=400)

    assert error["code"] == "QuotaExceeded"
    assert orders.backoffs == [1]
    assert [orders.call("GET", each).status for each in (first, second)] == [404, 200]
    assert len(orders.resources.list(Table.EVENT_SUBSCRIPTIONS, "orders")) == 500
