"""An operator sends an endpoint one event, and sees what came of it. Design §5."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from pushgrid.testing.memory import START, answered
from shared.engine.ports import Table
from shared.http import Audience, Certificate, Failure, NotAnswered, Peer
from shared.metrics import Metric
from shared.subscriptions.secrecy import WITHHELD
from tests.functional.deployment import Logged
from tests.functional.manage.arm_api import (
    CRM,
    ORDERS,
    URL,
    ArmApi,
    header,
    hook,
)

TEST = f"{CRM}/test"
MAPPING = {
    "inputSchemaMappingType": "Json",
    "properties": {
        "eventType": {"sourceField": "kind"},
        "subject": {"defaultValue": "s"},
        "dataVersion": {"defaultValue": "1"},
    },
}


def subscribe(api: ArmApi, topic: dict[str, Any] | None = None, **properties: Any) -> None:
    """Make the subscription ``crm`` of the topic ``orders``, whose endpoint accepts events."""
    api.json("PUT", ORDERS, {"location": "x", "properties": topic or {}}, status=201)
    api.json("PUT", CRM, hook(**properties), status=201)
    api.pusher.script(URL, answered(200))
    api.pusher.sent.clear()


def sent(api: ArmApi) -> Any:
    """Return the event of the only request."""
    [request] = api.pusher.sent
    return json.loads(request.request.body)


def test_a_redirect_is_shown_without_its_query(api: ArmApi) -> None:
    subscribe(api)
    api.pusher.script(URL, answered(302, b"", {"location": "https://login.example/in?sig=1"}))

    assert api.json("POST", TEST)["answer"]["headers"] == {"location": "https://login.example/in"}


def test_a_page_is_shown_as_its_text(api: ArmApi) -> None:
    """And withheld for what it says without tags: ``s3cr`` and ``et-1`` are one word of it."""
    url = f"{URL}?code=s3cret-1"
    api.json("PUT", ORDERS, {"location": "x"}, status=201)
    api.json("PUT", CRM, hook(url), status=201)
    for page, text in (
        ("\ufeff<!DOCTYPE html><title>Gone</title>" + "<p>" * 999, "Gone"),
        ("<html>code <b>s3cr</b>et-1", WITHHELD),
    ):
        api.pusher.script(url, answered(502, page.encode()))

        found = api.json("POST", TEST)["answer"]

        assert (found["body"], found["isTruncated"]) == (text, False)


def test_the_answer_has_the_request_the_answer_the_time_and_the_peer(
    api: ArmApi, logged: Logged
) -> None:
    subscribe(api)
    until = START + timedelta(days=90)
    certificate = Certificate("CN=crm.example", "CN=Test", until, ("crm.example",), matches=True)
    peer = Peer("203.0.113.7", certificate)
    api.pusher.script(URL, answered(202, b"thanks", {"x-a": "b"})._replace(peer=peer))

    found = api.json("POST", TEST)

    [request] = api.pusher.sent
    assert request.request.examines_peer
    assert request.timeout == timedelta(seconds=30)
    body = found["request"].pop("body")
    assert body == request.request.body.decode()
    assert found == {
        "topic": "orders",
        "subscription": "crm",
        "at": "2026-02-09T12:00:00.0000000Z",
        "succeeded": True,
        "outcome": "Delivered",
        "request": {
            "method": "POST",
            "url": "https://crm.example/hook",
            "headers": dict(request.request.headers),
        },
        "answer": {"status": 202, "headers": {"x-a": "b"}, "body": "thanks", "isTruncated": False},
        "failure": None,
        "seconds": 0.1,
        "peer": {
            "address": "203.0.113.7",
            "certificate": {
                "subject": "CN=crm.example",
                "issuer": "CN=Test",
                "validUntil": "2026-05-10T12:00:00.0000000Z",
                "names": ["crm.example"],
                "matchesHost": True,
            },
        },
    }
    [line] = logged("subscription.tested")
    assert (line["by"], line["outcome"], line["status"]) == ("the admin key", "Delivered", 202)


def test_why_there_is_no_answer_is_told(api: ArmApi) -> None:
    subscribe(api)
    other = Certificate("CN=erp.example", "CN=Test", START, ("erp.example",), matches=False)
    peer = Peer("203.0.113.7", other)
    api.pusher.script(URL, NotAnswered(Failure.TLS, "hostname mismatch; code=s3cret", 0.25, peer))

    found = api.json("POST", TEST)

    assert (found["succeeded"], found["answer"]) == (False, None)
    assert found["peer"]["certificate"]["matchesHost"] is False
    assert found["failure"] == {"reason": "TLS failed", "detail": WITHHELD}
    assert found["seconds"] == 0.25


@pytest.mark.parametrize(
    ("topic", "properties", "kind"),
    [
        ({}, {"eventDeliverySchema": "CloudEventSchemaV1_0"}, "type"),
        ({"inputSchema": "CloudEventSchemaV1_0"}, {}, "type"),
        (
            {"inputSchema": "CustomEventSchema", "inputSchemaMapping": MAPPING},
            {"eventDeliverySchema": "CustomInputSchema"},
            "eventType",
        ),
    ],
)
def test_the_event_has_the_schema_of_the_subscription_and_says_what_it_is(
    api: ArmApi, topic: dict[str, Any], properties: dict[str, Any], kind: str
) -> None:
    subscribe(api, topic, **properties)

    assert api.json("POST", TEST)["succeeded"]

    event = sent(api)
    event = event[0] if isinstance(event, list) else event
    assert (event[kind], event["subject"]) == ("Pushgrid.TestEvent", "/pushgrid/test")
    assert api.pusher.sent[0].request.headers["aeg-event-type"] == "Notification"


def test_headers_identity_and_batches_are_the_subscriptions_own(api: ArmApi) -> None:
    kind = {"name": "x-kind", "type": "Dynamic", "properties": {"sourceField": "eventType"}}
    headers = [header("t0psecret"), header("plain", "x-plain", isSecret=False), kind]
    webhook = {
        "maxEventsPerBatch": 10,
        "azureActiveDirectoryTenantId": "11111111-1111-1111-1111-111111111111",
        "azureActiveDirectoryApplicationIdOrUri": "api://crm",
    }
    deployment = replace(api.table.deployment, has_webhook_identity=True)
    api.reconfigure(deployment=deployment)
    api.json("PUT", ORDERS, {"location": "x"}, status=201)
    api.json("PUT", CRM, hook(URL, *headers, webhook=webhook), status=201)
    echo = b"you sent t0psecret to ?code=s3cret with Bearer abc.def-1 "
    api.pusher.script(
        URL,
        answered(500, echo + b"x" * 2000, {"x-echo": "t0psecret", "x-t0psecret": "b", "x-c": "d"}),
    )
    api.pusher.sent.clear()

    found = api.json("POST", TEST)

    [request] = api.pusher.sent
    audience = Audience("11111111-1111-1111-1111-111111111111", "api://crm")
    assert request.request.audience == audience
    assert request.request.headers["x-key"] == "t0psecret"
    assert isinstance(sent(api), list)
    shown = found["request"]["headers"]
    assert (shown["x-key"], shown["Authorization"]) == ("Hidden", "Hidden")
    assert (shown["x-plain"], shown["x-kind"]) == ("plain", "Pushgrid.TestEvent")
    said = found["answer"]
    assert (said["body"], said["isTruncated"]) == (WITHHELD, True)
    assert said["headers"] == {"x-echo": WITHHELD, WITHHELD: "b", "x-c": "d"}
    assert "t0psecret" not in json.dumps(found)
    assert "s3cret" not in json.dumps(found)


def test_a_test_counts_nowhere_and_passes_every_hold(api: ArmApi) -> None:
    subscribe(api)
    api.hold()
    api.json("POST", f"{CRM}/pause")
    row = api.resources.get(Table.ENDPOINT_HEALTH, "orders", "crm")
    api.pusher.script(URL, answered(503))

    found = api.json("POST", TEST)

    assert (found["succeeded"], found["outcome"]) == (False, "Busy")
    assert api.resources.get(Table.ENDPOINT_HEALTH, "orders", "crm") == row
    assert {key[0] for key in api.metrics.totals} == {Metric.HOLDS_BEGAN}
    assert api.attempts.records == []


def test_an_endpoint_that_has_not_consented_is_sent_nothing(api: ArmApi) -> None:
    api.json("PUT", ORDERS, {"location": "x"}, status=201)
    api.pusher.script(URL, answered(200))
    api.json("PUT", CRM, hook(), status=201)
    api.pusher.sent.clear()

    assert api.call("POST", TEST.replace("crm/", "other/")).status == 404
    assert (
        "answered 200 without the validation code" in api.error("POST", TEST, status=409)["message"]
    )
    assert api.pusher.sent == []


@pytest.mark.parametrize(
    ("allowed", "at_once", "seconds", "words"),
    [
        (None, 3, 4, "At most 3 tests at once, and 20 a minute: try again in 4 s."),
        (1, 1, 62, "The endpoint allows 1 request a minute: try again in 62 s."),
    ],
)
def test_tests_are_limited(
    api: ArmApi, allowed: int | None, at_once: int, seconds: int, words: str
) -> None:
    """20 a minute: three at once, and another after some seconds; or what the endpoint allows."""
    subscribe(api)
    allowing = {**api.stored(), "allowedRate": allowed}
    api.resources.damage(Table.EVENT_SUBSCRIPTIONS, "orders", "crm", allowing)
    for _ in range(at_once):
        api.json("POST", TEST)

    for _ in range(9):  # Those that are refused make nobody wait longer.
        refused = api.call("POST", TEST)
    assert (refused.status, refused.headers["Retry-After"]) == (429, str(seconds))
    assert words in refused.body.decode()
    assert len(api.pusher.sent) == at_once
    api.clock.advance(timedelta(seconds=seconds))

    api.json("POST", TEST)
