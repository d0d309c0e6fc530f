"""A wrong name in a path: who may list the names is told the near one, and nobody else."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from shared.engine.operations.operator_authorization import Operators
from shared.events.token_claims import Claims
from tests.builders import KEY
from tests.functional.deployment import Deployment
from tests.functional.manage.arm_api import CRM, GROUP, ORDERS, SHOP, SHOP_ORDERS, ArmApi, hook
from tests.functional.publish_requests import event, publish_request
from tests.token_verifier import Tokens

METRICS = "providers/Microsoft.Insights/metricDefinitions"
EXTENSION = "providers/Microsoft.EventGrid/eventSubscriptions"
#: Paths with a wrong name.
ORDRES, SHPO = f"{GROUP}/topics/ordres", f"{GROUP}/namespaces/shpo"
CRN = CRM.replace("crm", "crn")


@pytest.fixture
def api() -> ArmApi:
    api = ArmApi()
    for path in (ORDERS, SHOP, SHOP_ORDERS):
        api.json("PUT", path, {"location": "x"}, status=201)
    api.json("PUT", CRM, hook(), status=201)
    api.json("PUT", f"{ORDERS}/{EXTENSION}/billing", hook(), status=201)
    api.json(
        "PUT", f"{GROUP.replace('/rg/', '/other/')}/topics/returns", {"location": "x"}, status=201
    )
    return api


def message(api: ArmApi, method: str, path: str, body: Any = None) -> str:
    return str(api.json(method, path, body, status=404)["error"]["message"])


@pytest.mark.parametrize(
    ("method", "path", "near"),
    [
        ("GET", ORDRES, "orders"),
        ("POST", f"{GROUP}/topics/order/listKeys", "orders"),
        ("PATCH", f"{GROUP}/topics/Odrers", "orders"),
        ("GET", f"{ORDRES}/eventSubscriptions", "orders"),
        ("PUT", f"{ORDRES}/eventSubscriptions/crm", "orders"),
        ("GET", f"{ORDRES}/{METRICS}", "orders"),
        ("GET", CRM.replace("crm", "cmr"), "crm"),
        ("PATCH", CRN, "crm"),
        ("POST", f"{CRN}/pause", "crm"),
        ("GET", f"{CRN}/{METRICS}", "crm"),
        ("GET", f"{ORDERS}/{EXTENSION}/biling", "billing"),
        ("GET", SHPO, "shop"),
        ("GET", f"{SHPO}/topics/orders", "shop"),
        ("GET", f"{SHPO}/topics/orders/eventSubscriptions/crm", "shop"),
        ("GET", f"{SHOP}/topics/ordres", "orders"),
        ("GET", f"{CRN}/attempts", "crm"),
        ("GET", f"{ORDRES}/eventSubscriptions/crm/attempts", "orders"),
        ("GET", f"{SHOP}/topics/ordres/eventSubscriptions/crm/attempts", "shop.orders"),
    ],
)
def test_a_near_name_is_told(api: ArmApi, method: str, path: str, near: str) -> None:
    bodies = {"PUT": hook(), "PATCH": {"labels": ["a"], "tags": {"a": "b"}}}

    said = message(api, method, path, bodies.get(method))

    assert said.endswith(f"; did you mean '{near}'?")


@pytest.mark.parametrize(
    "path",
    [
        f"{GROUP}/topics/invoices",  # like none
        f"{GROUP}/topics/returnz",  # like one of another resource group
        f"{GROUP}/topics/returns",  # which exists there
    ],
)
def test_what_the_path_does_not_lead_to_is_not_meant(api: ArmApi, path: str) -> None:
    assert message(api, "GET", path).endswith("was not found.")


@pytest.mark.parametrize(
    ("where", "near"),
    [
        ({"topic": "ordres"}, "orders"),
        ({"topic": "shop.ordres"}, "shop.orders"),
        ({"topic": "orders", "subscription": "crn"}, "crm"),
        (
            {
                "topic": "orders",
                "container": "dead",
                "to": {"topic": "orders", "subscription": "crn"},
            },
            "crm",
        ),
    ],
)
def test_a_replay_of_a_near_name(api: ArmApi, where: dict[str, Any], near: str) -> None:
    said = message(api, "POST", f"{GROUP}/replays", where)

    assert said.endswith(f"; did you mean '{near}'?")


def test_without_a_key_no_name_is_told(api: ArmApi) -> None:
    api.reconfigure(operators=Operators(admin_key="another"))

    refused = api.call("GET", ORDRES)

    assert refused.status == 401
    assert b"orders'" not in refused.body


@pytest.mark.parametrize("status", [401, 404])
def test_publishers_who_may_list_nothing_are_told_no_name(app: Deployment, status: int) -> None:
    """404 is for a token with the role; 401 is the same for a known topic and an unknown one."""
    sender = Claims.from_token({"oid": "s-1", "roles": ["EventGridDataSender"]})
    checks = replace(app.publish.authorization, tokens=Tokens(sender=sender))
    app.publish = replace(app.publish, authorization=checks)
    request = publish_request(event(), topic="ordres")
    headers = {"authorization": "Bearer sender"} if status == 404 else {"aeg-sas-key": KEY}
    asked = replace(request, headers={"content-type": "application/json"} | headers)

    answer = app.answer(asked)

    assert answer.status == status
    assert "did you mean" not in json.loads(answer.body)["error"]["message"]
