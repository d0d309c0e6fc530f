"""Endpoints for which somebody consents later, by a link or a callback."""

from __future__ import annotations

import json
import logging
import re
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from pushgrid.testing.driven_app import DrivenApp
from pushgrid.testing.memory import ScriptedPusher, answered
from shared.clock import timestamp
from shared.engine.operations.topic_states import topic_states
from shared.engine.ports import Table
from shared.errors import Conflict, StorageUnavailable
from shared.http import MAX_ANSWER, Audience, Exchange, Failure, NotAnswered
from shared.telemetry import LOGGER
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


# --- why an endpoint has not consented


def bodies() -> dict[str, tuple[dict[str, Any], Exchange, str]]:
    """Answers without consent that can still come, their schema, and words of the diagnosis."""
    cors = {"access-control-allow-origin": "*", "vary": "s3cret"}
    coded = {"content-encoding": "gzip"}
    return {
        "noCode": ({}, answered(200, body=b"it is s3cret"), "200 without the validation code"),
        "compressed": ({}, answered(200, body=b"\x1f\x8b", headers=coded), "Content-Encoding"),
        "tooLarge": ({}, answered(200, body=b"x" * MAX_ANSWER), "64 KiB or more"),
        "inArray": ({}, answered(200, body=b'["ID-1"]'), "in an array"),
        "bare": ({}, answered(200, body=b"id-1"), "as bare text"),
        "otherMember": ({}, answered(200, body=b'{"code":"ID-1"}'), "member validationResponse"),
        "noOrigin": (CLOUD, answered(204), "OPTIONS without the header WebHook-Allowed-Origin"),
        "cors": (CLOUD, answered(204, headers=cors), "CORS"),
    }


@pytest.mark.parametrize("reason", bodies())
def test_every_surface_says_why_the_endpoint_has_not_consented(
    orders: ArmApi, caplog: pytest.LogCaptureFixture, reason: str
) -> None:
    """With one text, of which only the reason is stored: nothing that the endpoint has said."""
    caplog.set_level(logging.INFO, LOGGER)
    properties, exchange, words = bodies()[reason]
    orders.table = replace(orders.table, new_id=lambda: "id-1")  # so the code is ID-1
    orders.reconfigure()
    orders.pusher.script(URL, exchange)

    created = orders.json("PUT", CRM, hook(**properties), status=201)

    told = created["properties"]["pushgridValidation"]
    assert (told["reason"], words in told["why"]) == (reason, True)
    assert created["properties"]["provisioningState"] == "AwaitingManualAction"
    (log,) = [json.loads(each) for each in caplog.messages if "handshake.awaited" in each]
    (listed,) = orders.json("GET", LIST)["value"]
    (trouble,) = topic_states(orders.resources, orders.clock.now())["troubles"]
    surfaces = [
        log,
        orders.json("GET", CRM)["properties"]["pushgridValidation"],
        listed["properties"]["pushgridValidation"],
        orders.json("GET", f"{CRM}/attempts")["state"]["validation"],
        trouble,
    ]
    assert [(each["why"], each["remedy"]) for each in surfaces] == [
        (told["why"], told["remedy"])
    ] * len(surfaces)
    assert (
        f"{told['why']} {told['remedy']}"
        == orders.error("POST", f"{CRM}/test", status=409)["message"]
    )
    stored = orders.stored()["validation"]
    assert {name: stored[name] for name in stored if name != "proof"} == {
        "until": timestamp(orders.clock.now() + TEN_MINUTES),
        "reason": reason,
        "inForce": None,
    }
    assert "s3cret" not in json.dumps([told, log, stored])


def test_when_the_link_is_over_the_way_on_is_to_create_it_anew(silent: ArmApi) -> None:
    silent.json("PUT", CRM, hook(), status=201)
    awaited = silent.json("GET", CRM)["properties"]["pushgridValidation"]
    silent.clock.advance(TEN_MINUTES)
    over = silent.json("GET", CRM)["properties"]["pushgridValidation"]

    (trouble,) = topic_states(silent.resources, silent.clock.now())["troubles"]
    assert "the validation link in the request" in awaited["remedy"]
    assert "the validation link in the request" not in over["remedy"]
    assert "create the event subscription anew" in over["remedy"]
    assert (trouble["why"], trouble["remedy"]) == (over["why"], over["remedy"])

    silent.pusher.script(URL)
    silent.json("PATCH", CRM, {"destination": hook()["properties"]["destination"]}, status=201)
    assert silent.state() == "Succeeded"  # the handshake was repeated
    assert "pushgridValidation" not in silent.json("GET", CRM)["properties"]


def test_a_row_of_a_version_that_kept_no_reason_is_served(silent: ArmApi) -> None:
    silent.json("PUT", CRM, hook(), status=201)
    stored = silent.stored()
    del stored["validation"]["reason"]
    silent.resources.damage(Table.EVENT_SUBSCRIPTIONS, "orders", "crm", stored)

    told = silent.json("GET", CRM)["properties"]["pushgridValidation"]

    assert told["reason"] == "notKnown"
    assert told["why"] == "The endpoint has not completed the validation handshake."
    assert silent.open_link(silent.validation_link()).status == 200


def test_while_an_update_awaits_consent_status_names_it_and_who_gets_the_events(
    pending: ArmApi,
) -> None:
    found = topic_states(pending.resources, pending.clock.now())

    (trouble,) = found["troubles"]
    assert trouble["kind"] == "awaitingValidation"
    assert trouble["why"].endswith("Until it consents, the former endpoint gets the events.")
    assert found["value"][0]["subscriptions"][0]["hasConsented"]


def test_what_is_read_can_be_written_back(silent: ArmApi) -> None:
    """The property is the answer's alone: clients write back what they have read."""
    body = silent.json("PUT", CRM, hook(), status=201)
    body["properties"]["destination"] = hook()["properties"]["destination"]

    silent.json("PUT", CRM, body, status=201)

    assert "pushgridValidation" not in silent.stored()["properties"]


def test_an_endpoint_that_hangs_is_asked_three_times_and_each_try_is_logged_as_it_begins(
    orders: ArmApi, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    seen: list[int] = []

    def count() -> None:
        seen.append(sum("handshake.asked" in each for each in caplog.messages))

    orders.pusher.during_handshakes += [count] * 3
    silent, cut_off = (NotAnswered(Failure.TIMED_OUT, "no", 30.0, status=each) for each in (0, 502))
    orders.pusher.script(URL, silent, cut_off, cut_off)

    error = orders.error("PUT", CRM, hook(), status=400)

    logged = [json.loads(each) for each in caplog.messages if "handshake" in each]
    tries = [(each["attempt"], each.get("failure"), each.get("status")) for each in logged[:3]]
    assert seen == [1, 2, 3]
    assert tries == [(1, None, None), (2, "timed out", None), (3, "timed out", 502)]
    assert (logged[0]["attempts"], logged[0]["longest_seconds"]) == (3, 100.0)
    assert (logged[3]["event"], logged[3]["reason"]) == ("handshake.failed", "unreached")
    assert f"{logged[3]['why']} {logged[3]['remedy']}" in error["message"]
    assert "s3cret" not in json.dumps(logged)


def test_nobody_can_guess_a_validation_code() -> None:
    with ExitStack() as until_end:
        app = DrivenApp(until_end)
        app.outbound.pusher = pusher = ScriptedPusher(app.clock)
        app.arm("PUT", "topics/orders", {"location": "x"})
        app.arm("PUT", "topics/orders/eventSubscriptions/crm", hook())

    code = json.loads(pusher.sent[0].request.body)[0]["data"]["validationCode"]
    assert UUID(code).version == 5  # as `SeededChance` makes secrets
