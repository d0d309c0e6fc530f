"""Secrets that come back hidden, and limits of a topic and of its delivery profile."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from shared.engine.ports import Table
from tests.functional.deployment import Logged
from tests.functional.manage.arm_api import CRM, ORDERS, URL, ArmApi, header, hook

SECRET = header("k3y")
PUBLIC = {"name": "x-team", "type": "Static", "properties": {"value": "crm"}}


def test_a_secret_that_comes_back_as_it_was_shown_keeps_its_value(orders: ArmApi) -> None:
    orders.json("PUT", CRM, hook(URL, PUBLIC, SECRET), status=201)
    shown = orders.json("GET", CRM)["properties"]["destination"]["properties"]
    hidden = shown["deliveryAttributeMappings"][1] | {"name": "X-KEY"}
    body = hook(URL, hidden)

    for method, given in (("PUT", body), ("PATCH", body["properties"])):
        orders.json(method, CRM, given, status=201)
        (kept,) = orders.json("POST", f"{CRM}/getDeliveryAttributes")["value"]
        assert kept == SECRET | {"name": "X-KEY"}


@pytest.mark.parametrize("action", ["getFullUrl", "getDeliveryAttributes"])
def test_the_log_names_who_reads_secrets_and_none_of_them(
    orders: ArmApi, action: str, logged: Logged, caplog: pytest.LogCaptureFixture
) -> None:
    orders.json("PUT", CRM, hook(URL, SECRET), status=201)

    orders.json("POST", f"{CRM}/{action}")

    (line,) = logged("secrets.listed")
    assert (line["topic"], line["subscription"], line["by"]) == ("orders", "crm", "the admin key")
    assert not any(secret in caplog.text for secret in ("k3y", urlsplit(URL).query))


@pytest.mark.parametrize("name", ["x-team", "x-new"])
def test_a_hidden_value_that_is_no_known_secret_is_refused(orders: ArmApi, name: str) -> None:
    orders.json("PUT", CRM, hook(URL, PUBLIC, SECRET), status=201)
    hidden = header("Hidden", name)

    error = orders.error("PUT", CRM, hook(URL, hidden), status=400)

    where = "properties.destination.properties.deliveryAttributeMappings[0].properties.value"
    assert (error["code"], error["target"]) == ("InvalidRequest", where)
    assert error["message"].endswith(
        "no secret is stored for a header of this name: give its value."
    )
    plain = hidden | {"properties": {"value": "Hidden"}}
    orders.json("PUT", CRM, hook(URL, plain), status=201)


def fill(orders: ArmApi, count: int) -> None:
    """Let the topic have so many event subscriptions."""
    orders.json("PUT", CRM, hook(), status=201)
    for number in range(count - 1):
        copy = orders.stored() | {"name": f"copy-{number}"}
        orders.resources.put(Table.EVENT_SUBSCRIPTIONS, "orders", copy["name"], copy, None)


def test_a_topic_has_at_most_500_subscriptions(orders: ArmApi) -> None:
    fill(orders, 499)

    last = f"{ORDERS}/eventSubscriptions/last"
    orders.json("PUT", last, hook(), status=201)
    error = orders.error("PUT", f"{last}-but-one", hook(), status=400)

    assert (error["code"], "at most 500" in error["message"]) == ("QuotaExceeded", True)
    surplus = orders.stored() | {"name": "surplus"}
    orders.resources.put(Table.EVENT_SUBSCRIPTIONS, "orders", "surplus", surplus, None)
    orders.json("PUT", last, hook(labels=["a"]), status=201)  # those that are there stay
    orders.json("PATCH", last, {"labels": ["b"]}, status=201)


def test_of_two_who_create_the_last_one_together_one_is_refused(orders: ArmApi) -> None:
    fill(orders, 499)
    first, second = (f"{ORDERS}/eventSubscriptions/{name}" for name in ("first", "second"))
    orders.pusher.during_handshakes.append(lambda: orders.json("PUT", second, hook(), status=201))

    error = orders.error("PUT", first, hook(), status=400)

    assert error["code"] == "QuotaExceeded"
    assert orders.backoffs == [1]
    assert [orders.call("GET", each).status for each in (first, second)] == [404, 200]
    assert len(orders.resources.list(Table.EVENT_SUBSCRIPTIONS, "orders")) == 500
