"""Topics, from their creation to their end."""

from __future__ import annotations

import pytest

from shared.engine.ports import Table
from shared.errors import Conflict
from tests.fakes import MemoryResources
from tests.functional.manage.arm_api import CRM, GROUP, HOST, ORDERS, TOPICS, ArmApi, hook

ELSEWHERE = ORDERS.replace("/rg/", "/other/")


def test_a_topic_is_created_at_once(api: ArmApi) -> None:
    """201 with a final state and no polling headers is all that the client needs."""
    body = {"location": "westeurope", "properties": {"inputSchema": "CloudEventSchemaV1_0"}}

    answer = api.json("PUT", ORDERS, body, status=201)

    assert answer["id"] == ORDERS
    assert answer["properties"]["provisioningState"] == "Succeeded"
    assert answer["properties"]["endpoint"] == f"{HOST}/topics/orders/api/events"
    assert answer["properties"]["inputSchema"] == "CloudEventSchemaV1_0"
    assert api.json("GET", ORDERS) == answer


def test_the_endpoint_stands_on_the_public_url(api: ArmApi) -> None:
    api.reconfigure(public_url="https://events.example")

    answer = api.json("PUT", ORDERS, {"location": "x"}, status=201)

    assert answer["properties"]["endpoint"] == "https://events.example/topics/orders/api/events"


def test_replacing_answers_201_too_and_keeps_the_keys(orders: ArmApi) -> None:
    before = orders.json("POST", f"{ORDERS}/listKeys")

    answer = orders.json("PUT", ORDERS.upper(), {"tags": {"a": "b"}}, status=201)

    assert (answer["id"], answer["tags"]) == (ORDERS, {"a": "b"})
    assert orders.json("POST", f"{ORDERS}/listKeys") == before


def test_a_topic_has_two_keys_of_its_own(orders: ArmApi) -> None:
    orders.json("PUT", f"{TOPICS}/returns", {"location": "x"}, status=201)

    assert orders.json("POST", f"{ORDERS}/listKeys") == {"key1": "key-1", "key2": "key-2"}
    assert orders.json("POST", f"{TOPICS}/returns/listKeys") == {"key1": "key-3", "key2": "key-4"}


@pytest.mark.parametrize("name", ["orders", "ORDERS"])
def test_a_name_is_taken_in_the_whole_deployment(orders: ArmApi, name: str) -> None:
    error = orders.error("PUT", ELSEWHERE.replace("orders", name), {"location": "x"}, status=409)

    assert error["code"] == "Conflict"
    assert "elsewhere in this deployment" in error["message"]
    assert orders.json("GET", ORDERS)["id"] == ORDERS


@pytest.mark.parametrize(
    "target", [f"{TOPICS}/none", ELSEWHERE, f"{TOPICS}/a_b", f"{TOPICS}/a%2Fb"]
)
def test_a_topic_that_is_not_there_is_not_found(orders: ArmApi, target: str) -> None:
    error = orders.error("GET", target, status=404)

    assert error["code"] == "ResourceNotFound"
    assert error["message"].startswith("The Resource 'Microsoft.EventGrid/topics/")
    assert orders.call("POST", f"{target}/listKeys").status == 404


def test_a_bad_topic_is_not_stored(api: ArmApi) -> None:
    api.error("PUT", f"{TOPICS}/Microsoft-x", {"location": "x"}, status=400)
    api.error("PUT", f"{TOPICS}/a%2Fb", {"location": "x"}, status=400)

    assert api.json("GET", TOPICS)["value"] == []


@pytest.mark.parametrize("target", [ORDERS, ORDERS.upper()])
def test_deleting_needs_no_polling(orders: ArmApi, target: str) -> None:
    answer = orders.call("DELETE", target)

    assert (answer.status, answer.body) == (204, b"")
    assert orders.call("GET", ORDERS).status == 404


@pytest.mark.parametrize("target", [f"{TOPICS}/none", ELSEWHERE])
def test_deleting_what_is_not_there_is_no_news(orders: ArmApi, target: str) -> None:
    assert orders.call("DELETE", target).status == 204
    assert orders.call("GET", ORDERS).status == 200


def test_a_topic_takes_its_subscriptions_with_it(orders: ArmApi) -> None:
    orders.json("PUT", CRM, hook(), status=201)

    orders.call("DELETE", ORDERS)
    orders.json("PUT", ORDERS, {"location": "x"}, status=201)

    assert orders.json("GET", f"{ORDERS}/eventSubscriptions")["value"] == []


@pytest.mark.parametrize("verb", ["list", "delete"])
def test_a_deletion_that_fails_half_way_can_be_repeated(orders: ArmApi, verb: str) -> None:
    orders.json("PUT", CRM, hook(), status=201)
    orders.resources.fail_next(verb)

    assert orders.call("DELETE", ORDERS).status == 503
    assert orders.call("GET", ORDERS).status == 200
    assert orders.call("DELETE", ORDERS).status == 204
    assert orders.resources.list(Table.EVENT_SUBSCRIPTIONS, "orders") == []


class Late(MemoryResources):
    """Somebody creates a subscription just before the topic goes."""

    def delete(self, table, partition, name, etag=None):
        if table is Table.TOPICS:
            self.put(Table.EVENT_SUBSCRIPTIONS, name, "late", {"name": "late"}, None)
        return super().delete(table, partition, name, etag)


def test_a_topic_takes_along_what_was_created_meanwhile() -> None:
    api = ArmApi(resources=Late())
    api.json("PUT", ORDERS, {"location": "x"}, status=201)

    assert api.call("DELETE", ORDERS).status == 204
    assert api.resources.list(Table.EVENT_SUBSCRIPTIONS, "orders") == []


def test_topics_are_listed_by_group_and_by_subscription(orders: ArmApi) -> None:
    others = [
        TOPICS.replace("/rg/", "/rg2/") + "/billing",
        TOPICS.replace("/s1/", "/s10/") + "/stock",
    ]
    for other in others:
        orders.json("PUT", other, {"location": "x"}, status=201)

    def names(target: str) -> list[str]:
        answer = orders.json("GET", target)
        assert answer["nextLink"] is None
        return [topic["name"] for topic in answer["value"]]

    assert names(TOPICS) == names(TOPICS.upper()) == ["orders"]
    assert names(GROUP.replace("/resourceGroups/rg", "") + "/topics") == ["billing", "orders"]
    assert names(TOPICS.replace("/s1/", "/s2/")) == []


def test_no_list_holds_a_key(orders: ArmApi) -> None:
    assert b"key-" not in orders.call("GET", TOPICS).body


class Raced(MemoryResources):
    """Somebody else is faster, *times* times."""

    times = 0

    def put(self, *args, **kwargs):
        if self.times > 0:
            self.times -= 1
            raise Conflict
        return super().put(*args, **kwargs)


@pytest.mark.parametrize(("times", "status"), [(1, 201), (14, 201), (15, 409)])
def test_a_lost_race_is_run_again(times: int, status: int) -> None:
    resources = Raced()
    resources.times = times
    api = ArmApi(resources=resources)

    assert api.call("PUT", ORDERS, {"location": "x"}).status == status
