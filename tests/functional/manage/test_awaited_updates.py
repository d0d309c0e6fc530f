"""Updates whose new endpoint has not consented yet: what was in force stays at work."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from shared.http import Audience
from tests.fakes import answered
from tests.functional.manage.arm_api import CRM, URL, ArmApi, hook
from tests.functional.manage.links import delivered, link, state

NEW_URL = "https://new.example/hook"
TEN_MINUTES = timedelta(minutes=10)


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_an_update_leaves_the_old_endpoint_at_work_until_the_new_one_is_proved(
    orders: ArmApi, method: str
) -> None:
    orders.json("PUT", CRM, hook(labels=["old"]), status=201)
    orders.pusher.script(NEW_URL, answered(200))
    before = delivered(orders)
    body = hook(NEW_URL, labels=["new"])

    answer = orders.json(method, CRM, body if method == "PUT" else body["properties"], status=201)

    assert answer["properties"]["provisioningState"] == "AwaitingManualAction"
    assert answer["properties"]["destination"]["properties"]["endpointBaseUrl"] == NEW_URL
    assert delivered(orders) == before
    orders.open_link(link(orders))
    assert delivered(orders).endpoint_url == NEW_URL
    assert delivered(orders).generation == before.generation
    assert orders.json("GET", CRM)["properties"]["labels"] == ["new"]
    assert state(orders) == "Succeeded"


def test_an_update_that_nobody_proves_fails_and_the_old_endpoint_stays(orders: ArmApi) -> None:
    orders.json("PUT", CRM, hook(), status=201)
    orders.pusher.script(NEW_URL, answered(200))
    orders.json("PUT", CRM, hook(NEW_URL), status=201)
    before = delivered(orders)
    orders.clock.advance(TEN_MINUTES)

    assert state(orders) == "Failed"
    assert delivered(orders) == before
    assert before.endpoint_url == URL

    orders.pusher.sent.clear()
    orders.json("PUT", CRM, hook(), status=201)
    assert state(orders) == "Succeeded"
    assert orders.pusher.sent == []  # it has consented before


def test_a_second_update_ends_the_link_of_the_first(orders: ArmApi) -> None:
    orders.json("PUT", CRM, hook(), status=201)
    before = delivered(orders)
    orders.pusher.script(NEW_URL, answered(200))
    orders.json("PUT", CRM, hook(NEW_URL), status=201)
    first = link(orders)

    orders.json("PATCH", CRM, {"labels": ["x"]}, status=201)

    assert orders.open_link(first).status == 404
    assert delivered(orders) == before
    assert orders.open_link(link(orders)).status == 200
    assert delivered(orders).endpoint_url == NEW_URL


def test_the_same_endpoint_again_takes_the_update_back(orders: ArmApi) -> None:
    orders.json("PUT", CRM, hook(), status=201)
    orders.pusher.script(NEW_URL, answered(200))
    orders.json("PUT", CRM, hook(NEW_URL), status=201)
    late = link(orders)

    orders.json("PUT", CRM, hook(), status=201)

    assert state(orders) == "Succeeded"
    assert orders.open_link(late).status == 404
    assert delivered(orders).endpoint_url == URL


def test_a_refused_update_leaves_everything_as_it_was(orders: ArmApi) -> None:
    orders.json("PUT", CRM, hook(), status=201)
    before = orders.json("GET", CRM)
    orders.pusher.script(NEW_URL, answered(202))

    orders.error("PUT", CRM, hook(NEW_URL), status=400)

    assert orders.json("GET", CRM) == before
    assert delivered(orders).endpoint_url == URL


def test_another_audience_of_its_tokens_makes_it_another_endpoint(orders: ArmApi) -> None:
    orders.reconfigure(deployment=replace(orders.manage.deployment, has_webhook_identity=True))
    orders.json("PUT", CRM, hook(), status=201)
    body = hook()
    body["properties"]["destination"]["properties"] |= {
        "azureActiveDirectoryTenantId": "contoso.example",
        "azureActiveDirectoryApplicationIdOrUri": "api://hook",
    }

    for _ in range(2):
        orders.json("PUT", CRM, body, status=201)

    audience = Audience("contoso.example", "api://hook")
    assert [sent.request.audience for sent in orders.pusher.sent] == [None, audience]
    orders.call("DELETE", CRM)
    assert orders.pusher.sent[-1].request.audience == audience
