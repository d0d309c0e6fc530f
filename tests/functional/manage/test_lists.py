"""Lists: pages and the filter on names."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from tests.functional.manage.world import HOST, ORDERS, TOPICS, World, hook


@pytest.fixture
def many(world: World) -> World:
    """A deployment with 25 topics."""
    for number in range(25):
        name = f"{'Topic' if number % 2 else 'topic'}-{number:02}"
        world.json("PUT", f"{TOPICS}/{name}", {"location": "x"}, status=201)
    return world


def names(answer: Any) -> list[str]:
    return [topic["name"].lower() for topic in answer["value"]]


def pages(world: World, target: str) -> list[int]:
    """Follow the links from *target* on; return how long each page is."""
    seen: list[str] = []
    lengths = []
    while target:
        answer = world.json("GET", target)
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
def test_links_lead_through_the_whole_list(many: World, query: str, expected: list[int]) -> None:
    assert pages(many, TOPICS + query) == expected


def test_a_link_stays_good_when_a_topic_goes(many: World) -> None:
    link = many.json("GET", f"{TOPICS}?$top=2")["nextLink"]
    many.call("DELETE", f"{TOPICS}/topic-01")

    assert names(many.json("GET", link)) == ["topic-02", "topic-03"]


@pytest.mark.parametrize("top", ["0", "101", "-1", "x", "1.5", "", "\u0661", "0050000", "9" * 5000])
def test_a_page_has_1_to_100(world: World, top: str) -> None:
    error = world.error("GET", f"{TOPICS}?$top={quote(top)}", status=400)

    assert error["target"] == "$top"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("contains(name,'crm')", ["crm", "crm-old", "my-crm"]),
        ("CONTAINS(name,'CRM')", ["crm", "crm-old", "my-crm"]),
        ("contains( name , '-' )", ["crm-old", "my-crm"]),
        ("name eq 'CRM'", ["crm"]),
        ("name ne 'crm'", ["billing", "crm-old", "my-crm"]),
        ("contains(name,'crm') and name ne 'crm-old'", ["crm", "my-crm"]),
        ("name eq 'crm' or name eq 'billing'", ["billing", "crm"]),
        ("not contains(name,'crm')", ["billing"]),
        ("not not name eq 'crm'", ["crm"]),
        (
            "name eq 'billing' or contains(name,'crm') and name ne 'crm'",
            ["billing", "crm-old", "my-crm"],
        ),
        (
            "(name eq 'billing' or contains(name,'crm')) and name ne 'crm'",
            ["billing", "crm-old", "my-crm"],
        ),
        ("(name eq 'crm' or name eq 'billing') and name eq 'crm'", ["crm"]),
        ("name eq 'crm' or name eq 'billing' and name eq 'crm'", ["crm"]),
        ("not name eq 'crm' and contains(name,'crm')", ["crm-old", "my-crm"]),
        ("not (name eq 'crm' or contains(name,'-'))", ["billing"]),
        ("name eq 'it''s'", []),
        ("(" * 98 + "name eq 'crm'" + ")" * 98, ["crm"]),
        ("not " * 196 + "name eq 'crm'", ["crm"]),
        ("contains(name,'')", ["billing", "crm", "crm-old", "my-crm"]),
        (" ", ["billing", "crm", "crm-old", "my-crm"]),
    ],
)
def test_names_can_be_filtered(orders: World, text: str, expected: list[str]) -> None:
    for name in ("crm", "crm-old", "my-crm", "billing"):
        orders.json("PUT", f"{ORDERS}/eventSubscriptions/{name}", hook(), status=201)

    answer = orders.json("GET", f"{ORDERS}/eventSubscriptions?$filter={quote(text)}")

    assert names(answer) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("location eq 'x'", "'name' is missing"),
        ("name", "'ne' is missing"),
        ("name gt 'x'", "'ne' is missing"),
        ("name eq", "a text in quotes is missing"),
        ("name eq crm", "a text in quotes is missing"),
        ("name eq 'crm", "can't be read from position 7"),
        ("name eq 'crm' 'x'", "'x' is not expected"),
        ("name eq 'crm' and", "'name' is missing"),
        ("(name eq 'crm'", "')' is missing"),
        ("contains(name 'x')", "',' is missing"),
        ("contains(location,'x')", "'name' is missing"),
        ("startswith(name,'x')", "'name' is missing"),
        ("name eq 5", "can't be read"),
        ("(" * 200, "'name' is missing"),
        ("(" * 201, "too long"),
    ],
)
def test_any_other_filter_is_refused(world: World, text: str, words: str) -> None:
    error = world.error("GET", f"{TOPICS}?$filter={quote(text)}", status=400)

    assert (error["code"], error["target"]) == ("InvalidRequest", "$filter")
    assert words in error["message"]
