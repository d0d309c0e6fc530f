"""Event subscriptions, from the handshake to their end, and how many a topic can have."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from pushgrid.testing.memory import answered
from shared.engine.ports import Table
from shared.http import Exchange, Failure, NotAnswered
from shared.subscriptions.destination import host_addresses
from shared.subscriptions.secrecy import WITHHELD
from tests.functional.deployment import Logged
from tests.functional.manage.arm_api import (
    CRM,
    HOST,
    ORDERS,
    TOPICS,
    URL,
    ArmApi,
    hook,
)

LIST = f"{ORDERS}/eventSubscriptions"
NEW_URL = "https://new.example/hook"
CLOUD: dict[str, Any] = {"eventDeliverySchema": "CloudEventSchemaV1_0"}
SILENCE = NotAnswered(Failure.TIMED_OUT, "connect", 30)


@pytest.mark.parametrize(
    "url", [f"{HOST}/topics/orders/api/events", f"{HOST}:443/", "https://known.example/hook"]
)
def test_the_app_itself_is_no_endpoint(orders: ArmApi, url: str) -> None:
    """Neither as this client reaches it nor as it is known: each delivery would be a publish."""
    known = host_addresses("https://known.example")
    orders.reconfigure(deployment=replace(orders.table.deployment, app_addresses=known))

    error = orders.error("PUT", CRM, hook(url), status=400)

    assert "is this app itself" in error["message"]
    assert "PUSHGRID_" not in error["message"]
    assert error["target"] == "properties.destination.properties.endpointUrl"
    assert orders.pusher.sent == []
    orders.json("PUT", CRM, hook(f"{HOST}:8443/"), status=201)


@pytest.mark.parametrize(
    ("exchange", "times", "words"),
    [
        (answered(404), 1, "response code NotFound"),
        (NotAnswered(Failure.NOT_ALLOWED, "10.0.0.1", 0), 1, "Unknown (address not allowed)"),
        (SILENCE, 3, "Unknown (timed out)"),
    ],
)
def test_a_failed_handshake_creates_nothing(
    orders: ArmApi, exchange: Exchange, times: int, words: str, logged: Any
) -> None:
    orders.pusher.script(URL, exchange)

    error = orders.error("PUT", CRM, hook(), status=400)

    assert error["code"] == "Url validation"
    assert words in error["message"]
    assert "10.0.0.1" not in error["message"]
    (line,) = logged("handshake.failed")
    assert f"Activity id:{line['activity_id']}" in error["message"]
    assert [sent.timeout for sent in orders.pusher.sent] == [timedelta(seconds=30)] * times
    assert len({sent.request.body for sent in orders.pusher.sent}) == 1
    assert orders.slept == [5.0] * (times - 1)
    assert orders.call("GET", CRM).status == 404
    assert orders.json("GET", LIST)["value"] == []


@pytest.mark.parametrize("keeps_answers", [True, False])
@pytest.mark.parametrize("schema", [{}, CLOUD], ids=["POST", "OPTIONS"])
@pytest.mark.parametrize(
    ("body", "headers", "words"),
    [
        (b"cannot find function: 'Order'\nat line 7", {}, "cannot find function: 'Order'"),
        (
            "\ufeff<html><title>Sorry</title>".encode(),
            {"content-type": "text/html", "location": "https://login.example/?a=1"},
            "Location: https://login.example/; Sorry",
        ),
        (b"you sent s3cret-of-the-url", {}, WITHHELD),
        (b"", {}, None),
    ],
    ids=["text", "HTML", "secret", "nothing"],
)
def test_what_an_endpoint_says_to_a_handshake_is_told(
    orders: ArmApi,
    schema: dict[str, Any],
    body: bytes,
    headers: dict[str, str],
    words: str | None,
    logged: Logged,
    *,
    keeps_answers: bool,
) -> None:
    """In the log, if it keeps answers, and in details of the error; its message stays as it is."""
    orders.reconfigure(keeps_answers=keeps_answers)
    url = f"{URL}?code=s3cret-of-the-url&functionName=Order"
    orders.pusher.script(url, answered(404, body, headers))

    error = orders.error("PUT", CRM, hook(url, **schema), status=400)

    [line] = logged("handshake.failed")
    assert (line["status"], line.get("answer")) == (404, words if keeps_answers else None)
    details = [(each["code"], each["message"]) for each in error["details"]]
    said = ("EndpointAnswer", f"The endpoint answered: {words}")
    assert details == ([(error["code"], error["message"]), said] if words else [])
    assert error["code"] == "Url validation"
    assert str(words) not in error["message"]


def test_an_answer_after_silence_counts(orders: ArmApi) -> None:
    allowed = answered(405, headers={"webhook-allowed-origin": "*"})
    orders.pusher.script(URL, SILENCE, SILENCE, allowed)

    orders.json("PUT", CRM, hook(**CLOUD), status=201)

    assert orders.slept == [5.0, 5.0]


@pytest.mark.parametrize(
    "target",
    [
        f"{TOPICS}/none/eventSubscriptions",
        f"{ORDERS.replace('/rg/', '/other/')}/eventSubscriptions",
        f"{TOPICS}/none/providers/Microsoft.EventGrid/eventSubscriptions",
    ],
)
def test_without_its_topic_there_is_no_subscription(orders: ArmApi, target: str) -> None:
    name = f"{target}/crm"

    assert orders.error("PUT", name, hook(), status=404)["code"] == "ResourceNotFound"
    assert orders.call("GET", name).status == 404
    assert orders.call("GET", target).status == 404
    assert orders.call("DELETE", name).status == 204
    assert orders.pusher.sent == []


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
@pytest.mark.parametrize("refusal", [answered(500), answered(202)], ids=["500", "202"])
def test_a_new_endpoint_has_to_consent_too(orders: ArmApi, method: str, refusal: Exchange) -> None:
    orders.json("PUT", CRM, hook(), status=201)
    before, generation = orders.json("GET", CRM), orders.in_force().generation
    body = hook(NEW_URL) if method == "PUT" else hook(NEW_URL)["properties"]
    orders.pusher.script(NEW_URL, refusal)

    error = orders.error(method, CRM, body, status=400)

    assert error["code"] == "Url validation"
    assert orders.json("GET", CRM) == before
    assert orders.in_force().endpoint_url == URL

    orders.pusher.script(NEW_URL)
    orders.json(method, CRM, body, status=201)

    in_force = orders.in_force()
    assert (in_force.endpoint_url, in_force.generation) == (NEW_URL, generation)


def test_the_log_tells_a_put_from_a_patch(orders: ArmApi, logged: Logged) -> None:
    for path, body, patch in (
        (ORDERS, {"location": "x"}, {"tags": {}}),
        (CRM, hook(), {"labels": []}),
    ):
        orders.json("PUT", path, body, status=201)
        assert orders.call("PATCH", path, patch).status in {200, 201}

    lines = logged("topic.changed")[-2:] + logged("subscription.changed")
    assert [line["action"] for line in lines] == ["put", "patch"] * 2


def test_created_again_it_is_a_new_generation(orders: ArmApi) -> None:
    orders.json("PUT", CRM, hook(), status=201)
    first = orders.in_force().generation

    assert orders.call("DELETE", CRM.upper()).status == 204
    assert orders.call("GET", CRM).status == 404
    assert orders.call("DELETE", CRM).status == 204
    orders.json("PUT", CRM, hook(), status=201)

    assert orders.in_force().generation != first
    said = [sent.request.headers["aeg-event-type"] for sent in orders.pusher.sent]
    asked = "SubscriptionValidation"
    assert said == [asked, "SubscriptionDeletion", asked]


def test_a_topic_deleted_during_the_handshake_leaves_no_subscription(orders: ArmApi) -> None:
    orders.pusher.during_handshakes.append(lambda: orders.call("DELETE", ORDERS))

    error = orders.error("PUT", CRM, hook(), status=404)

    assert error["code"] == "ResourceNotFound"
    assert orders.resources.list(Table.EVENT_SUBSCRIPTIONS, "orders") == []


def test_a_topic_created_again_with_another_schema_has_not_the_old_ones_subscriptions(
    orders: ArmApi,
) -> None:
    def create_again() -> None:
        orders.call("DELETE", ORDERS)
        properties = {"inputSchema": "CloudEventSchemaV1_0"}
        orders.json("PUT", ORDERS, {"properties": properties}, status=201)

    orders.pusher.during_handshakes.append(create_again)

    error = orders.error("PUT", CRM, hook(), status=409)

    assert "another input schema" in error["message"]
    assert orders.resources.list(Table.EVENT_SUBSCRIPTIONS, "orders") == []


def test_created_by_two_at_once_it_has_one_generation(orders: ArmApi) -> None:
    orders.pusher.during_handshakes.append(lambda: orders.json("PUT", CRM, hook(), status=201))

    orders.json("PUT", CRM, hook(labels=["second"]), status=201)

    (stored,) = orders.resources.list(Table.EVENT_SUBSCRIPTIONS, "orders")
    assert stored.document["properties"]["labels"] == ["second"]
    assert len(orders.pusher.sent) == 2  # one each: a consent counts for the whole call


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
