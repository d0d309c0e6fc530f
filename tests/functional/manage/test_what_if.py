"""``whatIf``: what a PUT would change, without changing it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from pushgrid.testing.memory import answered
from shared.engine.ports import CUSTOM_TOPICS, Table
from tests.functional.manage.arm_api import (
    BODIES,
    CRM,
    ORDERS,
    SHOP,
    SHOP_CRM,
    SHOP_ORDERS,
    TOPICS,
    URL,
    ArmApi,
    header,
    hook,
    push,
)


@pytest.mark.parametrize(("path", "body"), (BODIES | {CRM: hook(URL, header())}).items())
def test_the_same_again_changes_nothing(full: ArmApi, path: str, body: object) -> None:
    full.json("PUT", path, body, status=201)
    shown = full.json("GET", path)

    answer = full.json("POST", f"{path}/whatIf", body)

    assert answer == {"changeType": "NoChange", "before": shown, "after": shown}


@pytest.mark.parametrize("path", BODIES)
def test_what_is_missing_would_be_created(full: ArmApi, path: str) -> None:
    new = f"{path}-2"

    answer = full.json("POST", f"{new}/whatIf", BODIES[path])

    assert (answer["changeType"], answer["before"]) == ("Create", None)
    assert answer["after"]["name"] == new.rpartition("/")[2]
    assert full.call("GET", new).status == 404


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (ORDERS, {"location": "x", "tags": {"a": "b"}}),
        (SHOP, {"location": "elsewhere"}),
        (SHOP_ORDERS, {"properties": {"eventRetentionInDays": 3}}),
        (CRM, hook(f"{URL}2")),
        (CRM, hook(URL, header("another"))),
        (SHOP_CRM, push(maxDeliveryCount=3)),
    ],
)
def test_what_differs_would_be_changed_secrets_included(
    full: ArmApi, path: str, body: object
) -> None:
    full.json("PUT", CRM, hook(URL, header()), status=201)
    shown, asked = full.json("GET", path), len(full.pusher.sent)

    answer = full.json("POST", f"{path}/whatIf", body)
    full.json("POST", f"{path}/whatIf", body)

    assert (answer["changeType"], answer["before"]) == ("Modify", shown)
    assert (full.json("GET", path), len(full.pusher.sent)) == (shown, asked)
    assert full.json("PUT", path, body, status=201) == answer["after"]


def test_its_faults_are_those_of_a_put(full: ArmApi) -> None:
    wrong = hook("ftp://x")

    assert full.error("POST", f"{CRM}/whatIf", wrong, status=400) == full.error(
        "PUT", CRM, wrong, status=400
    )
    full.error("POST", f"{TOPICS}/none/eventSubscriptions/crm/whatIf", hook(), status=404)


def test_an_expired_consent_has_to_be_asked_for_again(orders: ArmApi) -> None:
    orders.pusher.script(URL, answered(200))
    orders.json("PUT", CRM, hook(), status=201)

    awaiting = orders.json("POST", f"{CRM}/whatIf", hook())
    orders.clock.advance(timedelta(minutes=11))
    expired = orders.json("POST", f"{CRM}/whatIf", hook())

    assert (awaiting["changeType"], orders.state()) == ("NoChange", "Failed")
    assert awaiting["before"]["properties"]["provisioningState"] == "AwaitingManualAction"
    assert expired["changeType"] == "Modify"


def test_a_damaged_row_would_be_replaced(orders: ArmApi) -> None:
    orders.resources.damage(Table.TOPICS, CUSTOM_TOPICS, "orders", {"id": ORDERS})

    answer = orders.json("POST", f"{ORDERS}/whatIf", {"location": "local"})

    assert (answer["changeType"], answer["before"]) == ("Modify", {})
