"""Lists: their pages, and what belongs to them across topics."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from tests.functional.manage.arm_api import (
    GROUP,
    HOST,
    ORDERS,
    SHOP,
    SHOP_CRM,
    SHOP_ORDERS,
    TOPICS,
    ArmApi,
    hook,
    push,
)

PROVIDER = "/providers/Microsoft.EventGrid"


@pytest.fixture
def many(api: ArmApi) -> ArmApi:
    """A deployment with 25 topics."""
    for number in range(25):
        name = f"{'Topic' if number % 2 else 'topic'}-{number:02}"
        api.json("PUT", f"{TOPICS}/{name}", {"location": "x"}, status=201)
    return api


def names(answer: Any) -> list[str]:
    return [topic["name"].lower() for topic in answer["value"]]


def pages(api: ArmApi, target: str) -> list[int]:
    """Follow the links from *target* on; return how long each page is."""
    seen: list[str] = []
    lengths = []
    while target:
        answer = api.json("GET", target)
        lengths.append(len(answer["value"]))
        seen += names(answer)
        target = answer["nextLink"]
        assert target is None or target.startswith(f"{HOST}/subscriptions/s1/")
    assert seen == [f"topic-{number:02}" for number in range(len(seen))]
    return lengths


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", [20, 5]),
        ("?$top=10", [10, 10, 5]),
        ("?$top=25", [25]),
        ("?$top=100", [25]),
        ("?%24top=24", [24, 1]),
        ("?$top=2&$filter=contains(name,%27topic-0%27)", [2, 2, 2, 2, 2]),
    ],
)
def test_links_lead_through_the_whole_list(many: ArmApi, query: str, expected: list[int]) -> None:
    assert pages(many, TOPICS + query) == expected


def test_a_link_stays_good_when_a_topic_goes(many: ArmApi) -> None:
    link = many.json("GET", f"{TOPICS}?$top=2")["nextLink"]
    many.call("DELETE", f"{TOPICS}/topic-01")

    assert names(many.json("GET", link)) == ["topic-02", "topic-03"]


@pytest.mark.parametrize("top", ["0", "101", "-1", "x", "1.5", "", "\u0661", "0050000", "9" * 5000])
def test_a_page_has_1_to_100(api: ArmApi, top: str) -> None:
    assert api.error("GET", f"{TOPICS}?$top={quote(top)}", status=400)["target"] == "$top"


@pytest.fixture
def three_topics(orders: ArmApi) -> ArmApi:
    """Topics in two groups and two locations, and one of a namespace; each has a ``crm``."""
    returns = f"{TOPICS}/returns".replace("/rg/", "/back-office/")
    orders.json("PUT", returns, {"location": "North Europe"}, status=201)
    bills = f"{TOPICS}/bills".replace("/s1/", "/s2/")
    orders.json("PUT", bills, {"location": "westeurope"}, status=201)
    for topic in (ORDERS, returns, bills):
        orders.json("PUT", f"{topic}/eventSubscriptions/crm", hook(), status=201)
    orders.json("PUT", SHOP, {"location": "westeurope"}, status=201)
    orders.json("PUT", SHOP_ORDERS, {"properties": {}}, status=201)
    orders.json("PUT", SHOP_CRM, push(), status=201)
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
        (f"{ORDERS}{{p}}/eventSubscriptions", ["orders"]),
        (f"{GROUP}/eventSubscriptions", ["orders"]),
    ],
)
def test_lists_go_across_topics(three_topics: ArmApi, path: str, topics: list[str]) -> None:
    listed = three_topics.json("GET", path.format(p=PROVIDER, e="eventSubscriptions"))["value"]

    found = [each["properties"]["topic"].rpartition("/")[2] for each in listed]
    assert sorted(found) == topics
    assert {each["type"] for each in listed} <= {"Microsoft.EventGrid/eventSubscriptions"}


def test_pages_tell_equal_names_apart(three_topics: ArmApi) -> None:
    seen: list[Any] = []
    target = f"/subscriptions/s1{PROVIDER}/eventSubscriptions?$top=1&$filter=name eq 'crm'"

    while target:
        page = three_topics.json("GET", target)
        seen += [each["id"] for each in page["value"]]
        target = page["nextLink"]

    assert len(seen) == len(set(seen)) == 2
