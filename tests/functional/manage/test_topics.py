"""Topics, namespaces with their topics, and the event subscriptions of these."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from tests.functional.deployment import Logged
from tests.functional.manage.arm_api import (
    GROUP,
    ORDERS,
    SHOP,
    SHOP_CRM,
    SHOP_ORDERS,
    TOPICS,
    ArmApi,
    lose_the_race,
    push,
)
from tests.unit.arm.documents import dead_letter


def test_the_endpoint_is_on_the_public_url(api: ArmApi) -> None:
    api.reconfigure(public_url="https://events.example")

    answer = api.json("PUT", ORDERS, {"location": "x"}, status=201)

    assert answer["properties"]["endpoint"] == "https://events.example/topics/orders/api/events"


@pytest.mark.parametrize(("times", "status"), [(1, 201), (14, 201), (15, 409)])
def test_a_lost_race_is_run_again(api: ArmApi, times: int, status: int) -> None:
    api.before_put(*[lose_the_race] * times)

    assert api.call("PUT", ORDERS, {"location": "x"}).status == status
    assert api.backoffs == list(range(1, min(times, 14) + 1))


@pytest.mark.parametrize("taken", [ORDERS, ORDERS.upper(), SHOP])
def test_a_name_is_taken_in_the_whole_deployment(shop: ArmApi, taken: str) -> None:
    shop.json("PUT", ORDERS, {"location": "x"}, status=201)
    before = shop.json("GET", taken)
    elsewhere = re.sub("/rg/", "/other/", taken, flags=re.IGNORECASE)

    error = shop.error("PUT", elsewhere, {"location": "x"}, status=409)

    assert error["code"] == "Conflict"
    assert "elsewhere in this deployment" in error["message"]
    assert shop.json("GET", taken) == before


@pytest.mark.parametrize(
    "target",
    [
        f"{TOPICS}/none",
        ORDERS.replace("/rg/", "/other/"),
        f"{TOPICS}/a_b",
        f"{TOPICS}/a%2Fb",
        SHOP.replace("/rg/", "/other/"),
        SHOP_ORDERS.replace("/rg/", "/other/"),
        f"{SHOP}/topics/none",
    ],
)
def test_what_is_not_there_is_not_found(shop_orders: ArmApi, target: str) -> None:
    """A deletion finds it done."""
    shop_orders.json("PUT", ORDERS, {"location": "x"}, status=201)
    for method, path, body in (
        ("GET", target, None),
        ("PATCH", target, {"tags": {}}),
        ("POST", f"{target}/listKeys", None),
        ("POST", f"{target}/regenerateKey", {"keyName": "key1"}),
    ):
        error = shop_orders.error(method, path, body, status=404)
        assert error["code"] == "ResourceNotFound"
        assert error["message"].startswith("The Resource 'Microsoft.EventGrid/")

    assert shop_orders.call("DELETE", target).status == 204
    assert shop_orders.call("GET", ORDERS).status == 200
    assert shop_orders.call("GET", SHOP_ORDERS).status == 200


@pytest.mark.parametrize("target", [ORDERS, SHOP, SHOP_ORDERS])
@pytest.mark.parametrize(("name", "other"), [("key1", "key2"), ("KEY2", "key1")])
def test_one_key_is_made_anew_and_the_others_stay(
    shop_orders: ArmApi, target: str, name: str, other: str
) -> None:
    """Each topic and each namespace has two of its own."""
    shop_orders.json("PUT", ORDERS, {"location": "x"}, status=201)
    before = {
        each: shop_orders.json("POST", f"{each}/listKeys") for each in (ORDERS, SHOP, SHOP_ORDERS)
    }
    known = [key for keys in before.values() for key in keys.values()]

    after = shop_orders.json("POST", f"{target}/regenerateKey", {"keyName": name})
    put: object = {"properties": {}} if target == SHOP_ORDERS else {"location": "x"}
    shop_orders.json("PUT", target, put, status=201)

    assert len(set(known)) == 6
    assert after[name.lower()] not in known
    assert after[other] == before[target][other]
    for each, keys in (before | {target: after}).items():
        assert shop_orders.json("POST", f"{each}/listKeys") == keys


@pytest.mark.parametrize(
    ("target", "noun"), [(ORDERS, "topic"), (SHOP, "namespace"), (SHOP_ORDERS, "topic")]
)
def test_the_log_names_who_did_it_and_no_key(
    shop_orders: ArmApi, target: str, noun: str, logged: Logged, caplog: pytest.LogCaptureFixture
) -> None:
    shop_orders.json("PUT", ORDERS, {"location": "x"}, status=201)

    keys = shop_orders.json("POST", f"{target}/listKeys")
    regenerated = shop_orders.json("POST", f"{target}/regenerateKey", {"keyName": "key1"})
    shop_orders.call("DELETE", target)

    listed, (changed,) = logged("keys.listed"), logged("keys.changed")
    assert [(each["id"], each["by"]) for each in listed] == [(target, "the admin key")]
    assert (changed["id"], changed["key"], changed["by"]) == (target, "key1", "the admin key")
    assert {each["by"] for each in logged(f"{noun}.changed")} == {"the admin key"}
    assert logged(f"{noun}.changed")[-1]["action"] == "delete"
    assert not any(key in caplog.text for key in {*keys.values(), *regenerated.values()})


def test_rules_about_addresses_need_a_front_end_that_tells_them(api: ArmApi) -> None:
    rules = {"location": "x", "properties": {"inboundIpRules": [{"ipMask": "203.0.113.0/24"}]}}
    assert api.call("PUT", ORDERS, rules).status == 201

    api.reconfigure(deployment=replace(api.table.deployment, has_client_ip_header=False))
    error = api.error("PUT", ORDERS, rules, status=400)

    assert error["target"] == "properties.inboundIpRules"
    assert "PUSHGRID_CLIENT_IP_HEADER" in error["message"]
    api.json("PUT", ORDERS, {"location": "x"}, status=201)


@pytest.mark.parametrize(("kind", "name"), [("topics", "orders"), ("namespaces", "shop")])
def test_lists_are_of_a_group_or_a_subscription(shop: ArmApi, kind: str, name: str) -> None:
    of_group = f"{GROUP}/{kind}"
    others = [
        of_group.replace("/rg/", "/rg2/") + "/billing",
        of_group.replace("/s1/", "/s10/") + "/stock",
    ]
    for target in (ORDERS, *others):
        shop.json("PUT", target, {"location": "x"}, status=201)

    def names(target: str) -> list[str]:
        answer = shop.json("GET", target)
        assert answer["nextLink"] is None
        return [each["name"] for each in answer["value"]]

    assert names(of_group) == names(of_group.upper()) == [name]
    assert names(of_group.replace("/resourceGroups/rg", "")) == ["billing", name]
    assert names(of_group.replace("/s1/", "/s2/")) == []


def test_a_namespace_lists_its_own_topics(shop_orders: ArmApi) -> None:
    other = SHOP.replace("/shop", "/bank")
    shop_orders.json("PUT", other, {"location": "x"}, status=201)
    shop_orders.json("PUT", f"{other}/topics/orders", {"properties": {}}, status=201)

    (listed,) = shop_orders.json("GET", f"{SHOP}/topics")["value"]

    assert listed["id"] == SHOP_ORDERS
    assert shop_orders.json("GET", f"{GROUP}/topics")["value"] == []
    assert shop_orders.error("GET", f"{GROUP}/namespaces/none/topics", status=404)


# --- what is special about namespaces


@pytest.mark.parametrize(
    ("target", "body", "fault"),
    [
        (f"{GROUP}/namespaces/a.b", {"location": "x"}, "3-50 letters"),
        (SHOP_ORDERS, {"properties": {"eventRetentionInDays": 8}}, "between 1 and 7"),
        (SHOP_ORDERS, {"properties": {"eventRetentionInDays": 0}}, "between 1 and 7"),
        (SHOP_ORDERS, {"properties": {"inputSchema": "EventGridSchema"}}, "CloudEventSchemaV1_0"),
        (SHOP_ORDERS, {"properties": {"publisherType": "Partner"}}, "it can be: Custom"),
        (f"{SHOP}/topics/a.b", {"properties": {}}, "3-50 letters"),
    ],
)
def test_what_is_wrong_is_refused(
    shop: ArmApi, target: str, body: dict[str, Any], fault: str
) -> None:
    assert fault in shop.error("PUT", target, body, status=400)["message"]


def test_dead_letters_and_limits_are_kept_and_left_open_they_follow_the_topic(
    shop_orders: ArmApi,
) -> None:
    opened = shop_orders.json("PUT", SHOP_CRM, push(), status=201)
    wanted: dict[str, Any] = {
        "maxDeliveryCount": 3,
        "eventTimeToLive": "PT120S",
        "deadLetterDestinationWithResourceIdentity": {
            "identity": {"type": "SystemAssigned", "userAssignedIdentity": None},
            "deadLetterDestination": dead_letter(),
        },
    }

    created = shop_orders.json("PUT", SHOP_CRM, push(**wanted), status=201)

    default, given = (
        each["properties"]["deliveryConfiguration"]["push"] for each in (opened, created)
    )
    assert (default["maxDeliveryCount"], default["eventTimeToLive"]) == (10, "P2D")
    assert {name: given[name] for name in wanted} == wanted
    assert created == shop_orders.json("GET", SHOP_CRM)
    (sent,) = shop_orders.pusher.sent
    assert sent.request.method == "OPTIONS"


@pytest.mark.parametrize(
    ("body", "target", "words"),
    [
        (
            {"properties": {"filtersConfiguration": {}}},
            "properties.deliveryConfiguration.deliveryMode",
            "is missing",
        ),
        (push(maxDeliveryCount=11), "maxDeliveryCount", "between 1 and 10"),
        (push(eventTimeToLive="PT59S"), "eventTimeToLive", "between PT1M and"),
        (push(eventTimeToLive="P2DT1M"), "eventTimeToLive", "P2D"),
        (push(eventTimeToLive="PT90S"), "eventTimeToLive", "in whole minutes"),
        (push(eventTimeToLive="1 day"), "eventTimeToLive", "ISO 8601"),
        (
            push()
            | {"properties": push()["properties"] | {"filtersConfiguration": {"filters": [1]}}},
            "properties.filtersConfiguration.filters",
            "list of objects",
        ),
    ],
)
def test_a_bad_subscription_is_refused(
    shop_orders: ArmApi, body: dict[str, Any], target: str, words: str
) -> None:
    error = shop_orders.error("PUT", SHOP_CRM, body, status=400)

    assert error["target"].endswith(target)
    assert words in error["message"]
    assert shop_orders.pusher.sent == []
