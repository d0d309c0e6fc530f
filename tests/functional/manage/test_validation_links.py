"""Endpoints for which somebody consents later, by a link or a callback."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any

import pytest

from shared.arm.subscription_codec import to_subscription_in_force
from shared.engine.ports import Table
from shared.errors import Conflict
from shared.events.topic import TopicName
from shared.http import Failure, NotAnswered
from tests.fakes import answered
from tests.functional.manage.arm_api import CRM, HOST, ORDERS, URL, ArmApi, hook
from tests.functional.manage.links import delivered, link, state

NEW_URL = "https://new.example/hook"
LIST = f"{ORDERS}/eventSubscriptions"
ACROSS = "/subscriptions/s1/providers/Microsoft.EventGrid/eventSubscriptions"
CLOUD = {"eventDeliverySchema": "CloudEventSchemaV1_0"}
TEN_MINUTES = timedelta(minutes=10)


@pytest.fixture
def silent(orders: ArmApi) -> ArmApi:
    """A deployment with ``orders``, whose endpoints answer 200 and say nothing."""
    for url in (URL, NEW_URL):
        orders.pusher.script(url, answered(200))
    return orders


@pytest.mark.parametrize("properties", [{}, CLOUD], ids=["event grid", "cloud events"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_the_link_that_was_sent_validates_the_endpoint(
    silent: ArmApi, properties: dict[str, Any], method: str
) -> None:
    answer = silent.call("PUT", CRM, hook(**properties))

    assert (answer.status, answer.headers["Retry-After"]) == (201, "1")
    assert state(silent) == "AwaitingManualAction"
    assert silent.call("GET", CRM).headers["Retry-After"] == "1"
    assert not delivered(silent).has_consented

    silent.clock.advance(TEN_MINUTES - timedelta(seconds=1))
    opened = silent.open_link(link(silent), method)

    assert opened.status == 200
    assert b"crm is validated" in opened.body
    assert state(silent) == "Succeeded"
    assert "Retry-After" not in silent.call("GET", CRM).headers
    assert delivered(silent).has_consented
    assert delivered(silent).endpoint_url == URL


def test_a_link_works_once(silent: ArmApi) -> None:
    silent.json("PUT", CRM, hook(), status=201)
    silent.open_link(link(silent))

    again = silent.open_link(link(silent))

    assert (again.status, again.headers["Content-Type"]) == (404, "text/plain; charset=utf-8")
    assert b"works once" in again.body
    assert state(silent) == "Succeeded"


def test_a_link_is_over_after_ten_minutes_and_nobody_has_to_notice(silent: ArmApi) -> None:
    silent.json("PUT", CRM, hook(), status=201)
    silent.clock.advance(TEN_MINUTES)

    assert state(silent) == "Failed"
    assert "Retry-After" not in silent.call("GET", CRM).headers
    opened = silent.open_link(link(silent))
    assert opened.status == 400
    assert b"expired" in opened.body
    assert state(silent) == "Failed"
    assert not delivered(silent).has_consented


def test_every_list_shows_the_state(silent: ArmApi) -> None:
    silent.json("PUT", CRM, hook(), status=201)

    for path in (LIST, ACROSS):
        (shown,) = silent.json("GET", path)["value"]
        assert shown["properties"]["provisioningState"] == "AwaitingManualAction"
    extension = f"{ORDERS}/providers/Microsoft.EventGrid/eventSubscriptions/crm"
    assert state(silent, extension) == "AwaitingManualAction"


@pytest.mark.parametrize(
    ("pattern", "instead"),
    [
        (r".$", "A"),
        (r"orders\.crm\.", "orders.other."),
        (r"orders\.crm\.", "others.crm."),
        (r"orders\.crm\.", "crm."),
        (r"$", "."),
        (r"[^.]+$", ""),
        (r"orders.*", "orders.crm.%00"),
    ],
)
def test_another_link_is_none(silent: ArmApi, pattern: str, instead: str) -> None:
    silent.json("PUT", CRM, hook(), status=201)

    assert silent.open_link(re.sub(pattern, instead, link(silent), count=1)).status == 404
    assert state(silent) == "AwaitingManualAction"


def test_a_link_is_unguessable_and_nowhere_stored_nor_shown(silent: ArmApi) -> None:
    silent.reconfigure(new_key=lambda: "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLM+/+0=")  # 256 bits
    answer = silent.call("PUT", CRM, hook())

    secret = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLM-_-0"
    assert link(silent) == f"{HOST}/validate/orders.crm.{secret}"
    stored = silent.resources.get(Table.EVENT_SUBSCRIPTIONS, "orders", "crm")
    assert stored is not None
    assert secret not in json.dumps(stored.document)
    assert secret.encode() not in answer.body + silent.call("GET", CRM).body
    assert silent.open_link(link(silent)).status == 200


def test_the_public_url_leads_the_link(silent: ArmApi) -> None:
    silent.reconfigure(public_url="https://public.example/app")
    silent.json("PUT", CRM, hook(), status=201)

    assert link(silent).startswith("https://public.example/app/validate/orders.crm.")


def test_a_link_of_a_deleted_subscription_is_none(silent: ArmApi) -> None:
    silent.json("PUT", CRM, hook(), status=201)
    old = link(silent)
    silent.call("DELETE", CRM)

    assert silent.open_link(old).status == 404
    silent.json("PUT", CRM, hook(), status=201)
    assert silent.open_link(old).status == 404


@pytest.mark.parametrize(
    ("header", "rate"), [("120", 120), ("*", None), ("none", None)], ids=["120", "any", "no rate"]
)
def test_a_callback_may_grant_a_rate(silent: ArmApi, header: str, rate: int | None) -> None:
    silent.json("PUT", CRM, hook(**CLOUD), status=201)

    silent.open_link(link(silent), "POST", {"webhook-allowed-rate": header})

    assert delivered(silent).rate == rate


def test_the_rate_of_the_handshake_stays_with_its_endpoint(orders: ArmApi) -> None:
    headers = {"webhook-allowed-origin": "*", "webhook-allowed-rate": "120"}
    orders.pusher.script(URL, answered(200, headers=headers))
    orders.json("PUT", CRM, hook(**CLOUD), status=201)
    assert delivered(orders).rate == 120

    orders.json("PATCH", CRM, {"labels": ["x"]}, status=201)
    assert delivered(orders).rate == 120

    orders.pusher.script(NEW_URL, answered(200))
    orders.json("PUT", CRM, hook(NEW_URL, **CLOUD), status=201)
    assert delivered(orders).rate == 120
    orders.open_link(link(orders))
    assert delivered(orders).rate is None


def test_the_topics_of_namespaces_know_no_links(api: ArmApi) -> None:
    """Source: "Endpoint validation" for namespaces (2024-05-08): failure fails the creation."""
    namespace = ORDERS.replace("topics/orders", "namespaces/nsp")
    api.json("PUT", namespace, {"location": "here"}, status=201)
    api.json("PUT", f"{namespace}/topics/orders", {"properties": {}}, status=201)
    path = f"{namespace}/topics/orders/eventSubscriptions/crm"
    destination = hook()["properties"]["destination"]
    push = {"deliveryMode": "Push", "push": {"destination": destination}}
    api.pusher.script(URL, answered(200))

    error = api.error("PUT", path, {"properties": {"deliveryConfiguration": push}}, status=400)

    assert error["code"] == "Url validation"
    assert "WebHook-Request-Callback" not in api.pusher.sent[-1].request.headers
    headers = {"webhook-allowed-origin": "*", "webhook-allowed-rate": "1"}
    api.pusher.script(URL, answered(200, headers=headers))
    api.json("PUT", path, {"properties": {"deliveryConfiguration": push}}, status=201)
    stored = api.resources.get(Table.EVENT_SUBSCRIPTIONS, TopicName("nsp", "orders").joined, "crm")
    assert stored is not None
    assert to_subscription_in_force(stored.document).rate is None


def test_whoever_changes_the_subscription_meanwhile_is_not_overwritten(silent: ArmApi) -> None:
    silent.json("PUT", CRM, hook(), status=201)
    opened = link(silent)
    original = silent.resources.put

    def raced(*args: Any, **kwargs: Any) -> Any:
        silent.resources.put = original  # type: ignore[method-assign]
        silent.json("PATCH", CRM, {"labels": ["first"]}, status=201)
        return original(*args, **kwargs)

    silent.resources.put = raced  # type: ignore[method-assign]

    assert silent.open_link(opened).status == 404
    assert silent.json("GET", CRM)["properties"]["labels"] == ["first"]
    assert state(silent) == "AwaitingManualAction"


def test_storage_that_fails_costs_nobody_the_link(silent: ArmApi) -> None:
    silent.json("PUT", CRM, hook(), status=201)
    silent.resources.fail_next("put")

    refused = silent.open_link(link(silent))

    assert (refused.status, refused.headers["Retry-After"]) == (503, "5")
    assert silent.open_link(link(silent)).status == 200


def test_a_race_that_is_lost_each_time_costs_nobody_the_link(silent: ArmApi) -> None:
    silent.json("PUT", CRM, hook(), status=201)
    opened = link(silent)
    original = silent.resources.put

    def lost(*_: Any, **__: Any) -> Any:
        raise Conflict

    silent.resources.put = lost  # type: ignore[method-assign]
    refused = silent.open_link(opened)
    silent.resources.put = original  # type: ignore[method-assign]

    assert (refused.status, refused.headers["Retry-After"]) == (503, "5")
    assert silent.open_link(opened).status == 200


def test_without_a_token_an_endpoint_cant_be_asked(orders: ArmApi) -> None:
    orders.pusher.script(URL, NotAnswered(Failure.UNAUTHORIZED, "AADSTS7000215", 0))

    error = orders.error("PUT", CRM, hook(), status=400)

    assert "no token for the endpoint" in error["message"]
    assert "AADSTS" not in error["message"]
