"""Who starts and cancels replays, and of which resource group."""

from __future__ import annotations

import pytest

from shared.engine.operations.operator_authorization import Operators
from shared.events.token_claims import Claims
from tests.functional.deployment import Logged
from tests.functional.manage.arm_api import CRM, GROUP, KEY, ORDERS, ArmApi, hook
from tests.token_verifier import Tokens
from tests.unit.arm.documents import dead_letter

PERSON = {"authorization": "Bearer person"}


@pytest.fixture
def crm(api: ArmApi) -> ArmApi:
    """A deployment whose subscription ``crm`` has a dead-letter destination."""
    claims = Claims.from_token({"oid": "o-1", "roles": ["EventGrid Contributor"]})
    api.reconfigure(operators=Operators(admin_key=KEY, tokens=Tokens(person=claims)))
    api.json("PUT", ORDERS, {"location": "x"}, status=201)
    api.json("PUT", CRM, hook(deadLetterDestination=dead_letter()), status=201)
    return api


def test_it_is_known_who_starts_and_who_cancels(crm: ArmApi, logged: Logged) -> None:
    assert crm.call("POST", f"{GROUP}/replays", headers=PERSON).status == 202
    (job,) = crm.json("GET", f"{GROUP}/replays")["value"]
    crm.json("POST", f"{GROUP}/replays/{job['id']}/cancel")

    assert job["by"] == "Entra ID principal o-1"
    assert [line["by"] for line in logged("replay.started")] == ["Entra ID principal o-1"]
    assert [line["by"] for line in logged("replay.ended")] == ["the admin key"]


def test_only_subscriptions_of_the_resource_group_are_replayed(crm: ArmApi) -> None:
    elsewhere = GROUP.replace("/rg/", "/other/")

    refused = crm.error("POST", f"{elsewhere}/replays", status=404)
    job = crm.json("POST", f"{GROUP}/replays", status=202)

    assert refused["message"] == "There is no event subscription."
    assert [each["subscription"] for each in job["sources"]] == ["crm"]
