"""Batching, custom headers and limits, as the callers of the management API see them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.functional.manage.arm_api import CRM, ORDERS, ArmApi, hook

LIST = f"{ORDERS}/eventSubscriptions"
CLOUD = {"eventDeliverySchema": "CloudEventSchemaV1_0"}
MAPPINGS = [
    {"name": "x-team", "type": "Static", "properties": {"value": "crm"}},
    {"name": "Authorization", "type": "Static", "properties": {"value": "k3y", "isSecret": True}},
    {"name": "x-kind", "type": "Dynamic", "properties": {"sourceField": "data.kind"}},
]


def batched() -> dict[str, Any]:
    body = hook()
    body["properties"]["destination"]["properties"] |= {
        "maxEventsPerBatch": 100,
        "preferredBatchSizeInKilobytes": 1024,
        "deliveryAttributeMappings": MAPPINGS,
    }
    return body


@pytest.mark.parametrize("schema", [{}, CLOUD])
def test_batching_and_headers_are_kept_and_secrets_are_not_shown(
    orders: ArmApi, schema: dict[str, str]
) -> None:
    body = batched()
    body["properties"] |= schema

    answer = orders.json("PUT", CRM, body, status=201)

    (sent,) = orders.pusher.sent
    assert sent.request.headers["Authorization"] == "k3y"
    assert "x-kind" not in sent.request.headers
    for shown in (answer, orders.json("GET", CRM), orders.json("GET", LIST)["value"][0]):
        properties = shown["properties"]["destination"]["properties"]
        assert properties["maxEventsPerBatch"] == 100
        values = [each["properties"] for each in properties["deliveryAttributeMappings"]]
        assert values == [
            {"value": "crm", "isSecret": False},
            {"value": "Hidden", "isSecret": True},
            {"sourceField": "data.kind"},
        ]
        assert "k3y" not in json.dumps(shown)


def test_a_secret_that_comes_back_as_it_was_shown_keeps_its_value(orders: ArmApi) -> None:
    orders.json("PUT", CRM, batched(), status=201)
    body = batched()
    shown = orders.json("GET", CRM)["properties"]["destination"]["properties"]
    secret = shown["deliveryAttributeMappings"][1] | {"name": "AUTHORIZATION"}
    target = body["properties"]["destination"]["properties"]
    target["deliveryAttributeMappings"] = [secret]

    orders.json("PUT", CRM, body, status=201)
    (kept,) = orders.json("POST", f"{CRM}/getDeliveryAttributes")["value"]
    patch = {"destination": body["properties"]["destination"]}
    orders.json("PATCH", CRM, patch, status=201)

    assert kept["properties"] == {"value": "k3y", "isSecret": True}
    assert orders.json("POST", f"{CRM}/getDeliveryAttributes")["value"] == [kept]


@pytest.mark.parametrize("name", ["x-team", "x-new"])
def test_a_hidden_value_that_is_no_known_secret_is_refused(orders: ArmApi, name: str) -> None:
    orders.json("PUT", CRM, batched(), status=201)
    body = batched()
    hidden = {"name": name, "type": "Static", "properties": {"value": "Hidden", "isSecret": True}}
    target = body["properties"]["destination"]["properties"]
    target["deliveryAttributeMappings"] = [hidden]

    error = orders.error("PUT", CRM, body, status=400)

    where = "properties.destination.properties.deliveryAttributeMappings[0].properties.value"
    assert (error["code"], error["target"]) == ("InvalidRequest", where)
    assert error["message"].endswith(
        "no secret is stored for a header of this name: give its value."
    )
    hidden["properties"] = {"value": "Hidden"}
    orders.json("PUT", CRM, body, status=201)


def test_what_the_topics_profile_does_not_have_is_refused(api: ArmApi) -> None:
    body = {"location": "x", "tags": {"deliveryProfile": "2019"}}
    api.json("PUT", ORDERS, body, status=201)

    error = api.error("PUT", CRM, batched(), status=400)

    assert [fault["message"] for fault in error["details"]] == [
        "Output batching is not available under the delivery profile 2019.",
        "Custom delivery headers are not available under the delivery profile 2019.",
    ]
    assert api.pusher.sent == []


def test_an_open_policy_follows_the_topics_profile(orders: ArmApi) -> None:
    def policy() -> Any:
        return orders.json("GET", CRM)["properties"]["retryPolicy"]

    orders.json("PUT", CRM, hook(), status=201)
    before = policy()
    body = {"location": "x", "tags": {"deliveryProfile": "2017"}}
    orders.json("PUT", ORDERS, body, status=201)

    assert before == {"maxDeliveryAttempts": 30, "eventTimeToLiveInMinutes": 1440}
    assert policy() == {"maxDeliveryAttempts": None, "eventTimeToLiveInMinutes": 120}
