"""PATCH: what it changes, what it leaves, and that no update is lost."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from shared.engine.ports import Table
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
    push,
)

NEW_URL = "https://new.example/hook"
IDENTITY = {"type": "SystemAssigned", "userAssignedIdentity": None}
SECRET = header("s3")


@pytest.fixture
def crm(orders: ArmApi) -> ArmApi:
    """A deployment with the subscription ``crm`` of ``orders``."""
    body = hook(URL, SECRET, labels=["old"], filter={"subjectBeginsWith": "/a"})
    orders.json("PUT", CRM, body, status=201)
    orders.pusher.sent.clear()
    return orders


def webhook(url: str = NEW_URL) -> dict[str, Any]:
    return dict(hook(url)["properties"]["destination"])


@pytest.mark.parametrize(
    ("patch", "changed"),
    [
        ({}, {}),
        ({"labels": None}, {"labels": None}),
        (
            {"filter": {"subjectEndsWith": "z"}},
            {"filter": {"subjectBeginsWith": "", "subjectEndsWith": "z"}},
        ),
        ({"labels": ["new"], "unknown": 1}, {"labels": ["new"]}),
    ],
)
def test_a_patch_of_a_subscription_is_flat_and_changes_what_it_names(
    crm: ArmApi, patch: dict[str, Any], changed: dict[str, Any]
) -> None:
    before = crm.json("GET", CRM)

    answer = crm.json("PATCH", CRM, patch or b"{}", status=201)

    assert answer == crm.json("GET", CRM)
    assert answer["properties"] == before["properties"] | changed
    assert crm.pusher.sent == []


def test_a_patch_of_an_expired_subscription_judges_what_it_changes(crm: ArmApi) -> None:
    crm.json("PATCH", CRM, {"expirationTimeUtc": "2026-02-10T00:00:00Z"}, status=201)
    crm.clock.advance(timedelta(days=2))

    answer = crm.json("PATCH", CRM, {"labels": ["new"]}, status=201)
    error = crm.error("PATCH", CRM, {"expirationTimeUtc": "2026-02-10T00:00:01Z"}, status=400)
    revived = crm.json("PATCH", CRM, {"expirationTimeUtc": "2027-01-01T00:00:00Z"}, status=201)

    assert answer["properties"]["labels"] == ["new"]
    assert answer["properties"]["expirationTimeUtc"] == "2026-02-10T00:00:00Z"
    assert error["message"].startswith("Invalid expiration time. ")
    assert revived["properties"]["expirationTimeUtc"] == "2027-01-01T00:00:00Z"


def test_of_the_two_forms_of_a_destination_the_newer_one_stays(crm: ArmApi) -> None:
    wrapped = {"identity": IDENTITY, "destination": webhook()}
    crm.json("PATCH", CRM, {"deliveryWithResourceIdentity": wrapped}, status=201)

    first = crm.json("GET", CRM)["properties"]
    assert first["destination"] is None
    assert first["deliveryWithResourceIdentity"]["identity"] == IDENTITY
    shown = first["deliveryWithResourceIdentity"]["destination"]["properties"]
    assert (shown["endpointUrl"], shown["endpointBaseUrl"]) == (None, NEW_URL)
    assert crm.json("POST", f"{CRM}/getFullUrl") == {"endpointUrl": NEW_URL}

    crm.json("PATCH", CRM, {"labels": ["kept"]}, status=201)
    assert crm.json("GET", CRM)["properties"] == first | {"labels": ["kept"]}

    crm.json("PATCH", CRM, {"destination": webhook(URL)}, status=201)
    last = crm.json("GET", CRM)["properties"]
    assert "deliveryWithResourceIdentity" not in last
    assert last["destination"]["properties"]["endpointBaseUrl"] == "https://crm.example/hook"


@pytest.mark.parametrize("form", ["destination", "deliveryWithResourceIdentity"])
def test_a_destination_without_a_url_keeps_the_known_one(crm: ArmApi, form: str) -> None:
    """So `az eventgrid event-subscription update` sends one if it is given no endpoint."""
    if form == "deliveryWithResourceIdentity":
        wrapped = {"identity": IDENTITY, "destination": webhook(URL)}
        crm.json("PATCH", CRM, {form: wrapped}, status=201)
    batching = {"maxEventsPerBatch": 9, "preferredBatchSizeInKilobytes": 64}
    given = {"endpointType": "WebHook", "properties": batching}
    patch = given if form == "destination" else {"identity": IDENTITY, "destination": given}

    answer = crm.json("PATCH", CRM, {form: patch}, status=201)["properties"]

    shown = answer[form] if form == "destination" else answer[form]["destination"]
    assert shown["properties"]["maxEventsPerBatch"] == 9
    assert crm.json("POST", f"{CRM}/getFullUrl") == {"endpointUrl": URL}
    assert crm.pusher.sent == []


def test_what_an_answer_shows_can_be_put_back(crm: ArmApi) -> None:
    """`az resource update` does. The URL is hidden there, and only its base is shown."""
    shown = crm.json("GET", CRM)
    elsewhere = {"endpointUrl": None, "endpointBaseUrl": NEW_URL}

    crm.json("PUT", CRM, shown, status=201)

    assert crm.json("POST", f"{CRM}/getFullUrl") == {"endpointUrl": URL}
    assert crm.pusher.sent == []
    shown["properties"]["destination"]["properties"] |= elsewhere
    error = crm.error("PUT", CRM, shown, status=400)
    assert "Supplied URL is invalid" in error["message"]


def test_a_patch_that_is_no_object_is_refused(crm: ArmApi) -> None:
    assert crm.error("PATCH", CRM, [1], status=400)["code"] == "InvalidRequest"
    assert crm.error("PATCH", ORDERS, [1], status=400)["code"] == "InvalidRequest"
    assert crm.error("PATCH", ORDERS, {"properties": 1}, status=400)["target"] == "properties"


@pytest.mark.parametrize(
    ("target", "patch", "form"),
    [
        (ORDERS, {"disableLocalAuth": True}, "A PATCH of a topic is wrapped in 'properties'"),
        (SHOP, {"inboundIpRules": []}, "A PATCH of a namespace is wrapped in 'properties'"),
        (SHOP_ORDERS, {"eventRetentionInDays": 1}, "A PATCH of a topic is wrapped in 'properties'"),
        (
            SHOP_CRM,
            {"deliveryConfiguration": {"push": {"maxDeliveryCount": 1}}},
            "A PATCH of an event subscription of a namespace topic is wrapped in 'properties'",
        ),
        (
            CRM,
            {"properties": {"labels": ["wrapped"]}},
            "A PATCH of an event subscription is flat, without 'properties'",
        ),
    ],
)
def test_a_patch_in_the_wrong_form_is_refused(
    crm: ArmApi, target: str, patch: dict[str, Any], form: str
) -> None:
    crm.json("PUT", SHOP, {"location": "local"}, status=201)
    crm.json("PUT", SHOP_ORDERS, {"properties": {}}, status=201)
    crm.json("PUT", SHOP_CRM, push(), status=201)
    before = crm.json("GET", target)

    error = crm.error("PATCH", target, patch, status=400)

    assert (error["code"], error["target"]) == ("InvalidRequest", None)
    assert error["message"] == f"{form}; this body has no known member."
    assert crm.json("GET", target) == before
    assert crm.call("PATCH", target, b"{}").status in (200, 201)
    assert crm.json("GET", target) == before


def test_two_who_patch_at_once_lose_nothing(crm: ArmApi) -> None:
    """The second comes while the first asks its endpoint: it merges again on what is there then."""
    crm.pusher.during_handshakes.append(
        lambda: crm.json("PATCH", CRM, {"labels": ["b"]}, status=201)
    )

    crm.json("PATCH", CRM, {"destination": webhook()}, status=201)

    properties = crm.json("GET", CRM)["properties"]
    assert properties["labels"] == ["b"]
    assert properties["destination"]["properties"]["endpointBaseUrl"] == NEW_URL
    assert len(crm.pusher.sent) == 1  # the consent counts for the whole call


def test_the_topic_is_read_again_too(crm: ArmApi) -> None:
    """Its delivery profile may have changed meanwhile, and with it what can be asked for."""

    def others() -> None:
        crm.json("PATCH", ORDERS, {"tags": {"deliveryProfile": "2017"}})
        crm.json("PATCH", CRM, {"destination": webhook(URL)}, status=201)

    crm.pusher.during_handshakes.append(others)
    patch = {"destination": webhook(), "retryPolicy": {"maxDeliveryAttempts": 5}}

    error = crm.error("PATCH", CRM, patch, status=400)

    assert error["target"] == "properties.retryPolicy.maxDeliveryAttempts"


def test_what_is_deleted_while_it_is_patched_stays_so(crm: ArmApi) -> None:
    crm.pusher.during_handshakes.append(lambda: crm.call("DELETE", CRM))

    error = crm.error("PATCH", CRM, {"destination": webhook()}, status=404)

    assert error["code"] == "ResourceNotFound"
    assert crm.resources.list(Table.EVENT_SUBSCRIPTIONS, "orders") == []


@pytest.mark.parametrize("target", [ORDERS, SHOP])
def test_a_patch_of_a_topic_or_namespace_changes_what_it_names(crm: ArmApi, target: str) -> None:
    crm.json("PUT", SHOP, {"location": "westeurope"}, status=201)
    before, keys = crm.json("GET", target), crm.json("POST", f"{target}/listKeys")
    rules = [{"ipMask": "203.0.113.0/24", "action": "allow"}]
    local = {"disableLocalAuth": True} if target == ORDERS else {}
    properties = {"inboundIpRules": rules, **local}

    answer = crm.json(
        "PATCH", target, {"tags": {"a": "b"}, "keys": {"key1": "mine"}, "properties": properties}
    )

    assert answer == crm.json("GET", target)
    assert (answer["tags"], answer["location"]) == ({"a": "b"}, "westeurope")
    shown = [{"ipMask": "203.0.113.0/24", "action": "Allow"}]
    assert answer["properties"] == before["properties"] | local | {"inboundIpRules": shown}
    again = crm.json("PATCH", target, {"properties": {"inboundIpRules": []}})
    assert again["properties"] == before["properties"] | local
    assert crm.json("POST", f"{target}/listKeys") == keys
