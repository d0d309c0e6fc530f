"""Endpoints for which somebody consents later, by a link or a callback."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from pushgrid.testing.memory import answered
from shared.engine.ports import Table
from shared.errors import Conflict, StorageUnavailable
from shared.http import Audience
from tests.functional.manage.arm_api import CRM, HOST, ORDERS, SHOP_CRM, URL, ArmApi, hook, push

NEW_URL = "https://new.example/hook"
LIST = f"{ORDERS}/eventSubscriptions"
ACROSS = "/subscriptions/s1/providers/Microsoft.EventGrid/eventSubscriptions"
CLOUD: dict[str, Any] = {"eventDeliverySchema": "CloudEventSchemaV1_0"}
TEN_MINUTES = timedelta(minutes=10)


@pytest.fixture
def silent(orders: ArmApi) -> ArmApi:
    """A deployment with ``orders``, whose endpoints answer 200 and say nothing."""
    for url in (URL, NEW_URL):
        orders.pusher.script(url, answered(200))
    return orders


@pytest.mark.parametrize("properties", [{}, CLOUD], ids=["event grid", "cloud events"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_the_link_that_was_sent_validates_the_endpoint_once(
    silent: ArmApi, properties: dict[str, Any], method: str
) -> None:
    answer = silent.call("PUT", CRM, hook(**properties))

    assert (answer.status, answer.headers["Retry-After"]) == (201, "1")
    assert silent.state() == "AwaitingManualAction"
    assert silent.call("GET", CRM).headers["Retry-After"] == "1"
    assert not silent.in_force().has_consented

    silent.clock.advance(TEN_MINUTES - timedelta(seconds=1))
    opened = silent.open_link(silent.validation_link(), method)

    assert opened.status == 200
    assert b"crm is validated" in opened.body
    assert silent.state() == "Succeeded"
    assert "Retry-After" not in silent.call("GET", CRM).headers
    assert silent.in_force().has_consented
    assert silent.in_force().endpoint_url == URL
    again = silent.open_link(silent.validation_link())
    assert (again.status, again.headers["Content-Type"]) == (404, "text/plain; charset=utf-8")
    assert b"works once" in again.body
    assert silent.state() == "Succeeded"


def test_every_list_shows_the_state(silent: ArmApi) -> None:
    silent.json("PUT", CRM, hook(), status=201)

    for path in (LIST, ACROSS):
        (shown,) = silent.json("GET", path)["value"]
        assert shown["properties"]["provisioningState"] == "AwaitingManualAction"


def test_a_link_is_over_after_ten_minutes_and_nobody_has_to_notice(silent: ArmApi) -> None:
    silent.json("PUT", CRM, hook(), status=201)
    silent.clock.advance(TEN_MINUTES)

    assert silent.state() == "Failed"
    assert "Retry-After" not in silent.call("GET", CRM).headers
    opened = silent.open_link(silent.validation_link())
    assert opened.status == 400
    assert b"expired" in opened.body
    assert silent.state() == "Failed"
    assert not silent.in_force().has_consented


@pytest.mark.parametrize(
    ("pattern", "instead"),
    [
        (r".$", "A"),
        (r"orders\.crm\.", "orders.other."),
        (r"orders\.crm\.", "others.crm."),
        (r"[^.]+$", ""),
        (r"orders.*", "orders.crm.%00"),
    ],
)
def test_another_link_is_none(silent: ArmApi, pattern: str, instead: str) -> None:
    silent.json("PUT", CRM, hook(), status=201)

    other = re.sub(pattern, instead, silent.validation_link(), count=1)
    assert silent.open_link(other).status == 404
    assert silent.state() == "AwaitingManualAction"


@pytest.mark.parametrize("damage", [None, [1], {"name": "crm", "properties": {}}])
def test_a_link_of_a_damaged_row_is_neither_unknown_nor_used_up(
    silent: ArmApi, damage: object
) -> None:
    silent.json("PUT", CRM, hook(), status=201)
    link, stored = silent.validation_link(), silent.stored()
    silent.resources.damage(Table.EVENT_SUBSCRIPTIONS, "orders", "crm", damage)

    answer = silent.open_link(link)
    silent.resources.damage(Table.EVENT_SUBSCRIPTIONS, "orders", "crm", stored)

    assert answer.status == 503
    assert silent.open_link(link).status == 200


def test_a_link_is_unguessable_and_nowhere_stored_nor_shown(silent: ArmApi) -> None:
    silent.reconfigure(new_key=lambda: "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLM+/+0=")  # 256 bits
    answer = silent.call("PUT", CRM, hook())

    secret = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLM-_-0"
    assert silent.validation_link() == f"{HOST}/validate/orders.crm.{secret}"
    assert secret not in json.dumps(silent.stored())
    assert secret.encode() not in answer.body + silent.call("GET", CRM).body
    assert silent.open_link(silent.validation_link()).status == 200

    silent.reconfigure(public_url="https://public.example/app")
    silent.json("PUT", f"{CRM}2", hook(), status=201)
    assert silent.validation_link().startswith("https://public.example/app/validate/orders.crm2.")


def test_a_link_of_a_deleted_subscription_is_none(silent: ArmApi) -> None:
    silent.json("PUT", CRM, hook(), status=201)
    old = silent.validation_link()
    silent.call("DELETE", CRM)

    assert silent.open_link(old).status == 404
    silent.json("PUT", CRM, hook(), status=201)
    assert silent.open_link(old).status == 404


@pytest.mark.parametrize(
    ("header", "rate"), [("120", 120), ("*", None), ("none", None)], ids=["120", "any", "no rate"]
)
def test_a_callback_may_grant_a_rate(silent: ArmApi, header: str, rate: int | None) -> None:
    silent.json("PUT", CRM, hook(**CLOUD), status=201)

    silent.open_link(silent.validation_link(), "POST", {"webhook-allowed-rate": header})

    assert silent.in_force().rate == rate


def test_the_rate_of_the_handshake_stays_with_its_endpoint(orders: ArmApi) -> None:
    headers = {"webhook-allowed-origin": "*", "webhook-allowed-rate": "120"}
    orders.pusher.script(URL, answered(200, headers=headers))
    orders.json("PUT", CRM, hook(**CLOUD), status=201)
    assert orders.in_force().rate == 120

    orders.json("PATCH", CRM, {"labels": ["x"]}, status=201)
    assert orders.in_force().rate == 120

    orders.pusher.script(NEW_URL, answered(200))
    orders.json("PUT", CRM, hook(NEW_URL, **CLOUD), status=201)
    assert orders.in_force().rate == 120
    orders.open_link(orders.validation_link())
    assert orders.in_force().rate is None


def test_the_topics_of_namespaces_know_no_links(shop_orders: ArmApi) -> None:
    """Source: "Endpoint validation" for namespaces (2024-05-08): failure fails the creation."""
    shop_orders.pusher.script(URL, answered(200))

    error = shop_orders.error("PUT", SHOP_CRM, push(), status=400)

    assert error["code"] == "Url validation"
    assert shop_orders.call("GET", SHOP_CRM).status == 404
    assert "WebHook-Request-Callback" not in shop_orders.pusher.sent[-1].request.headers
    headers = {"webhook-allowed-origin": "*", "webhook-allowed-rate": "1"}
    shop_orders.pusher.script(URL, answered(200, headers=headers))
    shop_orders.json("PUT", SHOP_CRM, push(), status=201)
    assert shop_orders.in_force("shop.orders").rate is None


def test_whoever_changes_the_subscription_meanwhile_is_not_overwritten(silent: ArmApi) -> None:
    silent.json("PUT", CRM, hook(), status=201)
    opened = silent.validation_link()
    silent.before_put(lambda: silent.json("PATCH", CRM, {"labels": ["first"]}, status=201))

    assert silent.open_link(opened).status == 404
    assert silent.json("GET", CRM)["properties"]["labels"] == ["first"]
    assert silent.state() == "AwaitingManualAction"


@pytest.mark.parametrize("error", [StorageUnavailable(), Conflict()], ids=["down", "lost races"])
def test_a_consent_that_can_not_be_stored_costs_nobody_the_link(
    silent: ArmApi, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    silent.json("PUT", CRM, hook(), status=201)
    opened = silent.validation_link()

    def failing(*_: Any, **__: Any) -> Any:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(silent.resources, "put", failing)
        refused = silent.open_link(opened)

    assert (refused.status, refused.headers["Retry-After"]) == (503, "5")
    assert silent.open_link(opened).status == 200


# --- updates whose new endpoint has not consented yet


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_an_update_leaves_the_old_endpoint_at_work_until_the_new_one_is_proved(
    orders: ArmApi, method: str
) -> None:
    orders.json("PUT", CRM, hook(labels=["old"]), status=201)
    orders.pusher.script(NEW_URL, answered(200))
    before = orders.in_force()
    body = hook(NEW_URL, labels=["new"])

    answer = orders.json(method, CRM, body if method == "PUT" else body["properties"], status=201)

    assert answer["properties"]["provisioningState"] == "AwaitingManualAction"
    assert answer["properties"]["destination"]["properties"]["endpointBaseUrl"] == NEW_URL
    assert orders.in_force() == before
    orders.open_link(orders.validation_link())
    assert orders.in_force().endpoint_url == NEW_URL
    assert orders.in_force().generation == before.generation
    assert orders.json("GET", CRM)["properties"]["labels"] == ["new"]
    assert orders.state() == "Succeeded"


@pytest.fixture
def pending(orders: ArmApi) -> ArmApi:
    """A deployment whose subscription ``crm`` awaits the consent of a new endpoint."""
    orders.json("PUT", CRM, hook(), status=201)
    orders.pusher.script(NEW_URL, answered(200))
    orders.json("PUT", CRM, hook(NEW_URL), status=201)
    return orders


def test_a_second_update_ends_the_link_of_the_first(pending: ArmApi) -> None:
    before = pending.in_force()
    first = pending.validation_link()

    pending.json("PATCH", CRM, {"labels": ["x"]}, status=201)

    assert pending.open_link(first).status == 404
    assert pending.in_force() == before
    assert pending.open_link(pending.validation_link()).status == 200
    assert pending.in_force().endpoint_url == NEW_URL


def test_the_endpoint_in_force_again_takes_an_update_back_that_nobody_proves(
    pending: ArmApi,
) -> None:
    before, late = pending.in_force(), pending.validation_link()
    pending.clock.advance(TEN_MINUTES)
    assert (pending.state(), pending.in_force(), before.endpoint_url) == ("Failed", before, URL)

    pending.pusher.sent.clear()
    pending.json("PUT", CRM, hook(), status=201)

    assert pending.state() == "Succeeded"
    assert pending.pusher.sent == []  # it has consented before
    assert pending.open_link(late).status == 404
    assert pending.in_force().endpoint_url == URL


def test_another_audience_of_its_tokens_makes_it_another_endpoint(orders: ArmApi) -> None:
    orders.reconfigure(deployment=replace(orders.table.deployment, has_webhook_identity=True))
    orders.json("PUT", CRM, hook(), status=201)
    protected = {
        "azureActiveDirectoryTenantId": "contoso.example",
        "azureActiveDirectoryApplicationIdOrUri": "api://hook",
    }

    for _ in range(2):
        orders.json("PUT", CRM, hook(webhook=protected), status=201)

    audience = Audience("contoso.example", "api://hook")
    assert [sent.request.audience for sent in orders.pusher.sent] == [None, audience]
    orders.call("DELETE", CRM)
    assert orders.pusher.sent[-1].request.audience == audience
