"""Keys, made anew one at a time."""

from __future__ import annotations

import pytest

from tests.functional.manage.arm_api import ORDERS, ArmApi


@pytest.mark.parametrize(("name", "other"), [("key1", "key2"), ("KEY2", "key1")])
def test_one_key_is_made_anew_and_the_other_stays(orders: ArmApi, name: str, other: str) -> None:
    before = orders.json("POST", f"{ORDERS}/listKeys")

    after = orders.json("POST", f"{ORDERS}/regenerateKey", {"keyName": name})

    assert after == orders.json("POST", f"{ORDERS}/listKeys")
    assert after[other] == before[other]
    assert after[name.lower()] not in before.values()
    assert orders.json("GET", ORDERS)["name"] == "orders"


@pytest.mark.parametrize("body", [{"keyName": "key3"}, {"keyName": 1}, {"a": 1}, b"", b"[]"])
def test_there_are_no_other_keys(orders: ArmApi, body: object) -> None:
    before = orders.json("POST", f"{ORDERS}/listKeys")

    orders.error("POST", f"{ORDERS}/regenerateKey", body, status=400)

    assert orders.json("POST", f"{ORDERS}/listKeys") == before


def test_a_topic_that_is_not_there_has_no_keys(orders: ArmApi) -> None:
    for other in (ORDERS.replace("orders", "none"), ORDERS.replace("/rg/", "/other/")):
        for action in ("listKeys", "regenerateKey"):
            error = orders.error("POST", f"{other}/{action}", {"keyName": "key1"}, status=404)
            assert error["code"] == "ResourceNotFound"
