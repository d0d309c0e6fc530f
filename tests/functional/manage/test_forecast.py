"""The forecast of an event, as the management API answers it for one subscription."""

from __future__ import annotations

import pytest

from tests.functional.manage.arm_api import CRM, ArmApi, hook
from tests.unit.arm.documents import dead_letter

FORECAST = f"{CRM}/forecast"


@pytest.fixture
def crm(orders: ArmApi) -> ArmApi:
    policy = {"maxDeliveryAttempts": 3, "eventTimeToLiveInMinutes": 60}
    body = hook(retryPolicy=policy, deadLetterDestination=dead_letter())
    orders.json("PUT", CRM, body, status=201)
    return orders


def test_it_follows_the_terms_of_the_subscription(crm: ArmApi) -> None:
    found = crm.json("GET", f"{FORECAST}?answers=503,timeout,500")

    assert [(each["number"], each["answer"]) for each in found["attempts"]] == [
        (1, "503"),
        (2, "timeout"),
        (3, "500"),
    ]
    assert found["attempts"][0]["nextAt"] == 30
    assert found["attempts"][0]["why"] == "minimum for 503: 30 s"
    assert found["attempts"][2]["nextAt"] is None
    assert (found["end"]["state"], found["end"]["reason"]) == (
        "deadLettered",
        "MaxDeliveryAttemptsExceeded",
    )
    assert found["end"]["blobAt"] > found["end"]["at"]
    assert (found["profile"], found["timeScale"]) == ("latest", 1)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("answers=99", "'99' is neither a status"),
        ("answers=", "'' is neither a status"),
        ("answers=" + ",".join(["200"] * 101), "more than 100 answers"),
        ("responseSeconds=x", "must be 0 to 86400"),
        ("responseSeconds=nan", "must be 0 to 86400"),
        ("responseSeconds=86401", "must be 0 to 86400"),
    ],
)
def test_what_can_not_be_meant_is_refused(crm: ArmApi, query: str, words: str) -> None:
    assert words in crm.error("GET", f"{FORECAST}?{query}", status=400)["message"]


def test_a_subscription_that_is_not_there_has_none(crm: ArmApi) -> None:
    assert crm.call("GET", FORECAST.replace("crm", "crn")).status == 404
