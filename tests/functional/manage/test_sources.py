"""Storage accounts as sources: event subscriptions of their scope, and system topics."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from shared.engine.ports import SYSTEM_TOPICS, Table
from tests.functional.manage.arm_api import GROUP, ArmApi, hook

RG = "/subscriptions/s1/resourceGroups/rg"
SOURCE = f"{RG}/providers/Microsoft.Storage/storageAccounts/acct"
DEPLOYMENT = f"{RG}/providers/Pushgrid/deployments/this-deployment"
SCOPE = f"{SOURCE}/providers/Microsoft.EventGrid/eventSubscriptions"
BLOBS = f"{GROUP}/systemTopics/blobs"
NESTED = f"{BLOBS}/eventSubscriptions"
TYPE = "Microsoft.Storage.StorageAccounts"
SYSTEM_TOPIC = {
    "location": "West Europe",
    "properties": {"source": SOURCE, "topicType": TYPE.lower()},
}
PROVIDER = "providers/Microsoft.EventGrid"


@pytest.fixture
def blobs(api: ArmApi) -> ArmApi:
    """A deployment with the system topic ``blobs`` over its own account ``acct``."""
    api.json("PUT", BLOBS, SYSTEM_TOPIC, status=201)
    return api


def test_a_subscription_belongs_to_the_form_in_which_it_was_made(blobs: ArmApi) -> None:
    of_topic = blobs.json("PUT", f"{NESTED}/nested", hook(), status=201)
    of_account = blobs.json("PUT", f"{SCOPE}/scoped", hook(), status=201)

    assert of_topic["id"] == f"{NESTED}/nested"
    assert of_topic["type"] == "Microsoft.EventGrid/systemTopics/eventSubscriptions"
    assert (
        of_topic["properties"]["topic"] == f"{RG}/providers/microsoft.eventgrid/systemtopics/blobs"
    )
    assert blobs.json("GET", NESTED)["value"] == [of_topic]
    assert blobs.json("GET", SCOPE)["value"] == [of_account]
    for other in (f"{NESTED}/scoped", f"{SCOPE}/nested"):
        assert blobs.call("GET", other).status == 404
        assert blobs.call("PATCH", other, {"labels": []}).status == 409
        assert blobs.call("DELETE", other).status == 204
        message = blobs.error("PUT", other, hook(), status=409)["message"]
        assert message.startswith("There is already an event subscription of that name: /")
    assert blobs.json("GET", f"{SCOPE}/scoped") == of_account

    blobs.call("DELETE", BLOBS)

    rows = blobs.resources.list(Table.EVENT_SUBSCRIPTIONS, "system-acct")
    assert [each.name for each in rows] == ["scoped"]


def test_the_tag_of_a_system_topic_chooses_the_profile(blobs: ArmApi) -> None:
    tagged = {**SYSTEM_TOPIC, "tags": {"deliveryProfile": "2017"}}
    blobs.json("PUT", BLOBS, tagged, status=201)
    blobs.json("PUT", f"{SCOPE}/crm", hook(), status=201)

    topic = blobs.table.terms.topics.topic("system-acct")

    assert topic is not None
    assert (topic.arm_id, topic.profile) == (SOURCE, "2017")
    batching = hook(webhook={"maxEventsPerBatch": 5})
    assert "profile 2017" in blobs.error("PUT", f"{SCOPE}/crm", batching, status=400)["message"]


_ELSEWHERE = SOURCE.replace("/rg/", "/other/")
_UNKNOWN = SOURCE.replace("acct", "stranger")


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({}, "source is missing"),
        ({"source": SOURCE}, "topicType is missing"),
        ({"source": 7, "topicType": TYPE}, "must be a string"),
        ({"source": "acct", "topicType": TYPE}, "'acct' is not supported as a source"),
        (
            {"source": f"{RG}/providers/Microsoft.KeyVault/vaults/v", "topicType": TYPE},
            "it must be a custom topic, a storage account",
        ),
        (
            {"source": SOURCE, "topicType": "Pushgrid.Deployments"},
            f"The topic type of this source is {TYPE}",
        ),
        (
            {"source": DEPLOYMENT, "topicType": TYPE},
            "The topic type of this source is Pushgrid.Deployments",
        ),
        (
            {"source": f"{DEPLOYMENT}s", "topicType": "Pushgrid.Deployments"},
            "or the deployment itself, /subscriptions/ID/resourceGroups/GROUP/providers/Pushgrid/",
        ),
        (
            {"source": DEPLOYMENT.upper(), "topicType": "Pushgrid.Deployments"},
            "is not supported as a source",
        ),
    ],
)
def test_a_wrong_system_topic_is_refused(api: ArmApi, properties: Any, message: str) -> None:
    error = api.error("PUT", BLOBS, {"location": "x", "properties": properties}, status=400)

    assert error["message"].count(message) == 1
    assert api.resources.list(Table.TOPICS, SYSTEM_TOPICS) == []


OPS = f"{PROVIDER}/eventSubscriptions/ops"


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        (f"{SCOPE}/ops", hook(eventDeliverySchema="CustomInputSchema"), "CustomInputSchema"),
        (f"{NESTED}/ops", hook(retryPolicy={"maxDeliveryAttempts": 31}), "between 1 and 30"),
        (f"{DEPLOYMENT}/{OPS}", {"properties": {}}, "The destination is missing"),
        (f"{DEPLOYMENT.replace('this', 'other')}/{OPS}", hook(), "deployments/this-deployment"),
        (f"{SCOPE}/ops".replace("acct", "stranger"), hook(), "PUSHGRID_DEADLETTER_ACCOUNTS"),
    ],
)
def test_a_wrong_subscription_is_refused(blobs: ArmApi, path: str, body: Any, message: str) -> None:
    error = blobs.error("PUT", path, body, status=400)

    assert message in error["message"]
    assert list(blobs.resources.list_all(Table.EVENT_SUBSCRIPTIONS)) == []
    assert blobs.pusher.sent == []


def test_an_account_has_one_system_topic_and_one_id(blobs: ArmApi) -> None:
    moved = {**SYSTEM_TOPIC, "properties": {"source": _ELSEWHERE, "topicType": TYPE}}
    assert "cannot be modified" in blobs.error("PUT", BLOBS, moved, status=400)["message"]
    scope = SCOPE.replace("/rg/", "/other/")
    error = blobs.error("PUT", f"{scope}/crm", hook(), status=404)
    assert f"is a source as '{SOURCE}' already" in error["message"]
    blobs.call("DELETE", BLOBS)
    assert blobs.call("PUT", f"{scope}/crm", hook()).status == 201
    error = blobs.error("PUT", BLOBS, SYSTEM_TOPIC, status=400)
    assert "already" in error["message"]


def test_other_accounts_that_can_have_dead_letters_are_sources(api: ArmApi) -> None:
    deployment = replace(api.table.deployment, dead_letter_accounts=frozenset({"stranger"}))
    api.reconfigure(deployment=deployment)
    path = f"{SCOPE}/crm".replace("acct", "stranger")

    assert api.call("PUT", path, hook()).status == 201
    assert api.stored("system-stranger")["topicId"] == _UNKNOWN


def test_topic_types_tell_of_accounts(api: ArmApi) -> None:
    names = [each["name"] for each in api.json("GET", f"/{PROVIDER}/topicTypes")["value"]]
    assert names == ["Microsoft.EventGrid.Topics", TYPE, "Pushgrid.Deployments"]
    of_type = api.json("GET", f"/{PROVIDER}/topicTypes/{TYPE}/eventTypes")
    assert of_type == api.json("GET", f"{SOURCE}/{PROVIDER}/eventTypes")
    assert api.json("GET", f"/{PROVIDER}/topicTypes/{names[0]}/eventTypes") == {"value": []}
    assert api.json("GET", f"/{PROVIDER}/topicTypes/{TYPE.lower()}")["name"] == TYPE
    refused = api.error("GET", f"/{PROVIDER}/topicTypes/Microsoft.KeyVault.vaults", status=404)
    assert names[0] in refused["message"]


def test_the_deployment_is_a_source_in_both_forms(api: ArmApi) -> None:
    document = {
        "location": "x",
        "properties": {"source": DEPLOYMENT, "topicType": "pushgrid.deployments"},
    }
    made = api.json("PUT", f"{GROUP}/systemTopics/troubles", document, status=201)
    nested = f"{GROUP}/systemTopics/troubles/eventSubscriptions/nested"
    scope = f"{DEPLOYMENT}/{PROVIDER}/eventSubscriptions"
    for path in (nested, f"{scope}/scoped"):
        api.json("PUT", path, hook(), status=201)

    assert made["properties"]["topicType"] == "Pushgrid.Deployments"
    assert [each["name"] for each in api.json("GET", scope)["value"]] == ["scoped"]
    assert api.json("GET", f"{scope}/scoped/forecast")["profile"] == "latest"
    assert api.json("POST", f"{scope}/scoped/pause")["topic"] == "system-this-deployment"
    assert api.json("GET", f"{DEPLOYMENT}/providers/Microsoft.Insights/metrics")["value"] != []
    listed = "/topicTypes/Pushgrid.Deployments/eventSubscriptions"
    found = api.json("GET", f"{RG}/{PROVIDER}{listed}")["value"]
    assert [each["id"] for each in found] == [f"{scope}/scoped"]
    of_type = api.json("GET", f"/{PROVIDER}/topicTypes/Pushgrid.Deployments/eventTypes")["value"]
    assert api.json("GET", f"{DEPLOYMENT}/{PROVIDER}/eventTypes")["value"] == of_type
    assert "Pushgrid.HoldBegan" in [each["name"] for each in of_type]
    error = api.error("PUT", f"{scope}/nested", hook(), status=409)
    assert "nested" in error["message"]


@pytest.mark.parametrize("path", [f"{SCOPE}/scoped", f"{NESTED}/nested"])
def test_actions_and_metrics_work_in_both_forms(blobs: ArmApi, path: str) -> None:
    blobs.json("PUT", path, hook(), status=201)

    assert blobs.json("POST", f"{path}/pause")["topic"] == "system-acct"
    assert blobs.json("GET", f"{path}/attempts")["topic"] == "system-acct"
    insights = "providers/Microsoft.Insights"
    defined = blobs.json("GET", f"{path}/{insights}/metricDefinitions")["value"]
    names = {each["name"]["value"] for each in defined}
    assert names & {"MatchedEventCount", "PublishSuccessCount"} == {"MatchedEventCount"}
    for resource in (path, BLOBS, SOURCE):
        assert blobs.json("GET", f"{resource}/{insights}/metrics")["value"] != []
    (held,) = blobs.json("GET", f"{GROUP}/holds")["value"]
    assert held["subscription"] == path.rpartition("/")[2]


def test_one_damaged_row_costs_no_other(blobs: ArmApi) -> None:
    blobs.json("PUT", f"{SCOPE}/crm", hook(), status=201)
    blobs.resources.put(Table.TOPICS, SYSTEM_TOPICS, "a-broken", {"id": 5}, None)

    assert [each["name"] for each in blobs.json("GET", f"{GROUP}/systemTopics")["value"]] == [
        "blobs"
    ]
    assert blobs.json("GET", f"{SCOPE}/crm")["name"] == "crm"
    assert blobs.table.terms.topics.topic("system-acct")
    assert blobs.call("DELETE", f"{GROUP}/systemTopics/a-broken").status == 204


def test_nobody_else_publishes_to_an_account(blobs: ArmApi) -> None:
    for action in ("listKeys", "regenerateKey"):
        assert blobs.call("POST", f"{BLOBS}/{action}", {"keyName": "key1"}).status == 404
