"""`PUSHGRID_LOCAL_SHORTCUTS`: chosen keys, and consent that is assumed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shared.http import HttpAnswer
from tests.functional.manage.arm_api import (
    CRM,
    KEY,
    ORDERS,
    SHOP,
    SHOP_CRM,
    SHOP_ORDERS,
    ArmApi,
    hook,
    push,
)

CHOSEN = "bG9jYWwta2V5"
ASSUMED = {"authorization": f"Bearer {KEY}", "pushgrid-consent": "assumed"}
LOOPBACK = [
    "https://127.0.0.1:9000/",
    "https://LOCALHOST./",
    "https://[::1]/",
    "https://a.localhost",
]
ELSEWHERE = ["https://crm.example/", "https://localhost.example/", "https://10.0.0.1/"]


@pytest.fixture
def local(full: ArmApi) -> ArmApi:
    """A deployment for local use."""
    full.reconfigure(has_local_shortcuts=True)
    full.pusher.sent.clear()
    return full


def assume(api: ArmApi, path: str, body: Any, method: str = "PUT") -> HttpAnswer:
    return api.call(method, path, body, headers=ASSUMED)


@pytest.mark.parametrize("path", [ORDERS, SHOP, SHOP_ORDERS])
def test_a_key_can_be_chosen(local: ArmApi, path: str) -> None:
    before = local.json("POST", f"{path}/listKeys")

    body = {"keyName": "key2", "keyValue": CHOSEN}
    answer = local.json("POST", f"{path}/regenerateKey", body)

    assert answer == {"key1": before["key1"], "key2": CHOSEN}
    assert local.json("POST", f"{path}/listKeys") == answer


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ("short", "has 5."),
        ("a" * 9, "has a character too few or too many"),
        ("a" * 132, "has 132."),
        ("=" * 8, "has '=' before its end"),
        (f"{CHOSEN}\n", "has a blank or a line break: leave it out"),
        ("ünïcödé!", "has a character that is not of Base64"),
        (f"{CHOSEN}ab", "has wrong padding: its Base64 must end with '=='"),
        ("local-key___", "is Base64 for URLs"),
    ],
)
def test_a_key_must_be_one_that_signatures_can_be_made_with(
    local: ArmApi, value: str, fault: str
) -> None:
    error = local.error(
        "POST", f"{ORDERS}/regenerateKey", {"keyName": "key1", "keyValue": value}, status=400
    )

    assert error["target"] == "keyValue"
    assert f"must be Base64 of 8 to 128 characters; this {fault}" in error["message"]


@pytest.mark.parametrize("url", LOOPBACK)
def test_an_endpoint_on_loopback_need_not_answer(local: ArmApi, url: str) -> None:
    for path, body in ((CRM, hook(url)), (SHOP_CRM, push(url))):
        answer = assume(local, path, body)

        assert answer.status == 201
        assert local.state(path) == "Succeeded"
    assert local.in_force().has_consented
    assert local.pusher.sent == []


@pytest.mark.parametrize("url", ELSEWHERE)
@pytest.mark.parametrize("method", ["PUT", "POST"])
def test_any_other_endpoint_is_refused(local: ArmApi, url: str, method: str) -> None:
    path = CRM if method == "PUT" else f"{CRM}/whatIf"

    answer = assume(local, path, hook(url), method)

    assert answer.status == 400
    assert url.split("/")[2] in json.loads(answer.body)["error"]["message"]
    assert local.pusher.sent == []


def test_elsewhere_there_are_no_shortcuts(orders: ArmApi) -> None:
    before = orders.json("POST", f"{ORDERS}/listKeys")

    body = {"keyName": "key1", "keyValue": CHOSEN}
    error = orders.error("POST", f"{ORDERS}/regenerateKey", body, status=400)
    assert assume(orders, CRM, hook("https://localhost/")).status == 201

    assert error["target"] == "keyValue"
    assert "PUSHGRID_LOCAL_SHORTCUTS" in error["message"]
    assert orders.json("POST", f"{ORDERS}/listKeys") == before
    assert len(orders.pusher.sent) == 1
