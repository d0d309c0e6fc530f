"""Lists: pages and the filter on names."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from tests.functional.manage.arm_api import HOST, ORDERS, TOPICS, ArmApi, hook


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
    error = api.error("GET", f"{TOPICS}?$top={quote(top)}", status=400)

    assert error["target"] == "$top"


def test_subscriptions_can_be_searched_by_name(orders: ArmApi) -> None:
    for name in ("crm", "crm-old", "my-crm", "billing"):
        orders.json("PUT", f"{ORDERS}/eventSubscriptions/{name}", hook(), status=201)
    text = quote("contains(name,'CRM') and name ne 'crm'")

    answer = orders.json("GET", f"{ORDERS}/eventSubscriptions?$filter={text}")

    assert names(answer) == ["crm-old", "my-crm"]


def test_a_search_that_cant_be_read_is_refused(api: ArmApi) -> None:
    error = api.error("GET", f"{TOPICS}?$filter=location%20eq%20%27x%27", status=400)

    assert (error["code"], error["target"]) == ("InvalidRequest", "$filter")
