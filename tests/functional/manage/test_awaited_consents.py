"""Updates whose new endpoint has not consented yet."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from pushgrid.testing.memory import answered
from shared.http import Audience
from tests.functional.manage.arm_api import CRM, URL, ArmApi, hook

NEW_URL = "https://new.example/hook"
TEN_MINUTES = timedelta(minutes=10)


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


def test_an_update_that_nobody_proves_fails_and_the_old_endpoint_stays(pending: ArmApi) -> None:
    before = pending.in_force()
    pending.clock.advance(TEN_MINUTES)

    assert pending.state() == "Failed"
    assert pending.in_force() == before
    assert before.endpoint_url == URL

    pending.pusher.sent.clear()
    pending.json("PUT", CRM, hook(), status=201)
    assert pending.state() == "Succeeded"
    assert pending.pusher.sent == []  # it has consented before


def test_a_second_update_ends_the_link_of_the_first(pending: ArmApi) -> None:
    before = pending.in_force()
    first = pending.validation_link()

    pending.json("PATCH", CRM, {"labels": ["x"]}, status=201)

    assert pending.open_link(first).status == 404
    assert pending.in_force() == before
    assert pending.open_link(pending.validation_link()).status == 200
    assert pending.in_force().endpoint_url == NEW_URL


def test_the_same_endpoint_again_takes_the_update_back(pending: ArmApi) -> None:
    late = pending.validation_link()

    pending.json("PUT", CRM, hook(), status=201)

    assert pending.state() == "Succeeded"
    assert pending.open_link(late).status == 404
    assert pending.in_force().endpoint_url == URL


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
