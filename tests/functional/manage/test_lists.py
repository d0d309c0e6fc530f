"""Lists: their pages, and what belongs to them across topics."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from tests.functional.manage.arm_api import (
    GROUP,
    HOST,
    ORDERS,
    TOPICS,
    ArmApi,
    hook,
)

RG = "/subscriptions/s1/resourceGroups/rg"
PROVIDER = "/providers/Microsoft.EventGrid"
ACCOUNT = f"{RG}/providers/Microsoft.Storage/storageAccounts/acct"
OF_TOPICS, OF_ACCOUNTS = "Microsoft.EventGrid.Topics", "Microsoft.Storage.StorageAccounts"


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


@pytest.mark.parametrize("top", ["0", "101", "x", "", "\u0661", "9" * 5000])
def test_a_page_has_1_to_100(api: ArmApi, top: str) -> None:
    assert api.error("GET", f"{TOPICS}?$top={quote(top)}", status=400)["target"] == "$top"


@pytest.fixture
def four_topics(full: ArmApi) -> ArmApi:
    """Topics in two groups and two locations, one of a namespace, and a storage account's."""
    returns = f"{TOPICS}/returns".replace("/rg/", "/back-office/")
    bills = f"{TOPICS}/bills".replace("/s1/", "/s2/")
    system = {"source": ACCOUNT, "topicType": "Microsoft.Storage.StorageAccounts"}
    blobs = f"{GROUP}/systemTopics/blobs"
    for path, body in {
        ORDERS: {"location": "westeurope"},
        returns: {"location": "North Europe"},
        f"{returns}/eventSubscriptions/crm": hook(),
        bills: {"location": "westeurope"},
        f"{bills}/eventSubscriptions/crm": hook(),
        blobs: {"location": "West Europe", "properties": system},
        f"{blobs}/eventSubscriptions/nested": hook(),  # which only its system topic lists
        f"{ACCOUNT}{PROVIDER}/eventSubscriptions/crm": hook(),
    }.items():
        full.json("PUT", path, body, status=201)
    return full


@pytest.mark.parametrize(
    ("scope", "topics"),
    [
        (f"/subscriptions/s1{PROVIDER}", ["acct", "orders", "returns"]),
        (f"/subscriptions/S2{PROVIDER}", ["bills"]),
        (f"/subscriptions/s3{PROVIDER}", []),
        (f"{RG}{PROVIDER}", ["acct", "orders"]),
        (f"/subscriptions/s1{PROVIDER}/locations/northeurope", ["returns"]),
        (f"/subscriptions/s1{PROVIDER}/locations/West%20Europe", ["acct", "orders"]),
        (f"{RG}{PROVIDER}/locations/local", []),
        (f"/subscriptions/s1{PROVIDER}/topicTypes/{OF_TOPICS.lower()}", ["orders", "returns"]),
        (f"/subscriptions/s1{PROVIDER}/topicTypes/Microsoft.Storage", []),
        (f"{RG}{PROVIDER}/topicTypes/{OF_ACCOUNTS}", ["acct"]),
        (f"{RG}{PROVIDER}/locations/westeurope/topicTypes/{OF_TOPICS}", ["orders"]),
        (f"{RG}{PROVIDER}/locations/westeurope/topicTypes/{OF_ACCOUNTS}", ["acct"]),
        (f"{ORDERS}{PROVIDER}", ["orders"]),
        (GROUP, ["acct", "orders"]),
    ],
)
def test_lists_go_across_topics(four_topics: ArmApi, scope: str, topics: list[str]) -> None:
    listed = four_topics.json("GET", f"{scope}/eventSubscriptions")["value"]

    found = [each["properties"]["topic"].rpartition("/")[2] for each in listed]
    assert sorted(found) == topics
    assert {each["type"] for each in listed} <= {"Microsoft.EventGrid/eventSubscriptions"}


def test_pages_tell_equal_names_apart(four_topics: ArmApi) -> None:
    seen: list[Any] = []
    target = f"/subscriptions/s1{PROVIDER}/eventSubscriptions?$top=1&$filter=name eq 'crm'"

    while target:
        page = four_topics.json("GET", target)
        seen += [each["id"] for each in page["value"]]
        target = page["nextLink"]

    assert len(seen) == len(set(seen)) == 3
