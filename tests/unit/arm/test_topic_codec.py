"""Topics: as they are stored, shown and used by the data plane, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from shared.arm.topic_codec import render_topic, to_topic
from shared.arm.tracked_resource import ArmPath
from shared.events.topic import InputSchema, Topic
from tests.unit.arm.documents import MAPPING as INPUT_MAPPING
from tests.unit.arm.documents import PATH, TOPIC_ID, namespace, refusal, targets, topic

USER = (
    "/subscriptions/s1/resourceGroups/rg/providers/Microsoft.ManagedIdentity"
    "/userAssignedIdentities/u"
)
MAPPING = {"inputSchemaMappingType": "Json"}


def test_members_that_clients_send_are_given_back() -> None:
    identity = {
        "type": "SystemAssigned, UserAssigned",
        "principalId": "p",
        "tenantId": "t",
        "userAssignedIdentities": {USER: {"principalId": "p", "clientId": "c"}},
    }
    types = {
        "kind": "Inline",
        "inlineEventTypes": {"Shop.Placed": {"description": "d", "displayName": "n"}},
    }
    body = {
        "sku": {"name": "premium"},
        "kind": "azure",
        "identity": identity,
        "unknown": [1],
        "properties": {
            "inputSchema": "cloudeventschemav1_0",
            "publicNetworkAccess": "enabled",
            "inboundIpRules": [],
            "inputSchemaMapping": None,
            "disableLocalAuth": False,
            "minimumTlsVersionAllowed": "1.2",
            "dataResidencyBoundary": "withinregion",
            "eventTypeInfo": types,
            "unknown": {},
        },
    }

    shown = render_topic(topic(body), "https://pushgrid.example")

    assert shown["sku"] == {"name": "Premium"}
    assert (shown["kind"], shown["identity"], "unknown" in shown) == ("Azure", identity, False)
    assert shown["properties"] == {
        "provisioningState": "Succeeded",
        "endpoint": "https://pushgrid.example/topics/orders/api/events",
        "inputSchema": "CloudEventSchemaV1_0",
        "publicNetworkAccess": "Enabled",
        "disableLocalAuth": False,
        "minimumTlsVersionAllowed": "1.2",
        "dataResidencyBoundary": "WithinRegion",
        "eventTypeInfo": types,
        "metricResourceId": "metric-id",
    }


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({"type": "SystemAssigned,UserAssigned"}, {"type": "SystemAssigned, UserAssigned"}),
        ({"type": "systemassigned, userassigned"}, {"type": "SystemAssigned, UserAssigned"}),
        ({"type": "None"}, {"type": "None"}),
        ({"userAssignedIdentities": {USER: None}}, {"userAssignedIdentities": {USER: {}}}),
        ({"userAssignedIdentities": {}}, {}),
    ],
)
def test_identities_are_written_as_azure_does(given: object, shown: object) -> None:
    assert render_topic(topic({"identity": given}), "")["identity"] == shown


@pytest.mark.parametrize("kind", ["AzureArc", "azurearc"])
@pytest.mark.parametrize("read", [topic, namespace])
def test_the_kind_azure_arc_is_refused(kind: str, read: Any) -> None:
    message = "The kind AzureArc is not supported; the only kind is Azure."

    assert refusal(read, {"kind": kind}) == ("kind", message)


def test_the_data_plane_sees_name_schema_keys_and_profile() -> None:
    stored = topic({"tags": {"DELIVERYPROFILE": "2017", "team": "crm"}})

    assert to_topic(stored) == Topic(
        name="orders",
        arm_id=TOPIC_ID,
        input_schema=InputSchema.EVENT_GRID,
        keys=("key1", "key2"),
        profile="2017",
    )
    assert to_topic(topic()).profile is None


def test_a_topic_can_have_128_ip_rules() -> None:
    masks = [f"203.0.113.{number}" for number in range(64)] + [f"fd00::{n}/127" for n in range(64)]
    stored = topic(inboundIpRules=[{"ipMask": mask, "action": "allow"} for mask in masks])

    rules = to_topic(stored).inbound_rules

    assert [str(rule) for rule in rules[:64]] == [f"{mask}/32" for mask in masks[:64]]
    assert str(rules[65]) == "fd00::/127"


def test_replacing_keeps_ids_and_name() -> None:
    first = topic()

    second = topic(
        {"tags": {"a": "b"}},
        path=ArmPath("S1", "RG", "topics", "Orders"),
        existing=first,
    )

    assert (second["id"], second["name"]) == (TOPIC_ID, "orders")
    assert second["metricResourceId"] == first["metricResourceId"]
    assert second["tags"] == {"a": "b"}


def test_the_input_schema_of_a_topic_cant_change() -> None:
    assert refusal(topic, existing=topic(), inputSchema="CloudEventSchemaV1_0") == (
        "properties.inputSchema",
        (
            "The input schema of the topic is EventGridSchema; "
            "it can't be changed to CloudEventSchemaV1_0."
        ),
    )


def test_the_input_mapping_of_a_topic_cant_change() -> None:
    custom: dict[str, Any] = {"inputSchema": "CustomEventSchema"}
    existing = topic(**custom, inputSchemaMapping=INPUT_MAPPING)
    other = INPUT_MAPPING | {"properties": {"id": {"sourceField": "other"}}}

    assert refusal(topic, existing=existing, **custom, inputSchemaMapping=other) == (
        "properties.inputSchemaMapping",
        "The input mapping of a topic can't be changed.",
    )
    assert topic(existing=existing, **custom, inputSchemaMapping=INPUT_MAPPING) == existing


@pytest.mark.parametrize(
    "name", ["abc", "a" * 50, "A-1", "---", "orders-Microsoft", "topic-EventGrid", "my-System"]
)
def test_a_legal_name_is_accepted(name: str) -> None:
    assert topic(path=PATH._replace(name=name))["name"] == name


@pytest.mark.parametrize(
    ("changes", "target"),
    [
        *(
            ({"name": name}, "name")
            for name in ("", "ab", "a" * 51, "a_b", "a.b", "na\u00efve", "abc\n", "a/b")
        ),
        *(
            ({"name": name}, "name")
            for name in ("Microsoft-x", "microsoft", "EVENTGRID1", "System", "systems")
        ),
        ({"subscription": "a/b"}, "id"),
        ({"subscription": "a" * 65}, "id"),
        ({"group": "rg."}, "id"),
        ({"group": "a b"}, "id"),
        ({"group": "a" * 91}, "id"),
    ],
)
def test_an_illegal_path_is_refused(changes: dict[str, str], target: str) -> None:
    assert refusal(topic, path=PATH._replace(**changes))[0] == target


@pytest.mark.parametrize("body", [[], 0])
def test_a_body_must_be_an_object(body: object) -> None:
    assert refusal(topic, body) == (None, "The request content must be a JSON object.")


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("location", 1, "must be a string"),
        ("properties", [], "must be an object"),
        ("identity.type", "Sometimes", "it can be: None, SystemAssigned"),
        ("identity.userAssignedIdentities.u", 1, "must be an object"),
        ("sku.name", {}, "must be a string"),
        ("sku.capacity", "41", "between 1 and 40"),
        ("kind", "AWS", "it can be: Azure"),
        ("tags.a", None, "must be a string"),
        ("tags.a", "x" * 257, "256 characters"),
        ("tags", {"": "x"}, "1-512"),
        ("tags", {"x" * 513: "x"}, "1-512"),
        ("tags", {str(n): "" for n in range(51)}, "50 tags"),
        ("tags.deliveryProfile", "2018", "no delivery profile '2018'; there are: 2017, latest."),
        ("properties.inputSchema", "Xml", "has the value 'Xml'; it can be: EventGridSchema, "),
        ("properties.inputSchemaMapping", MAPPING, "CustomEventSchema only"),
        ("properties.inboundIpRules", [{"ipMask": "10.0.0.0/8"}] * 129, "at most 128"),
        ("properties.publicNetworkAccess", "disabled", "not supported"),
        ("properties.disableLocalAuth", "yes", "true or false"),
        ("properties.minimumTlsVersionAllowed", "1.4", "1.0, 1.1, 1.2"),
        ("properties.eventTypeInfo.kind", 1, "must be a string"),
        ("properties.dataResidencyBoundary", "x", "WithinGeopair, WithinRegion"),
    ],
)
def test_a_bad_member_is_refused(path: str, value: object, words: str) -> None:
    body = value
    for name in reversed(path.split(".")):
        body = {name: body}

    found, message = refusal(topic, body)

    assert found == path
    assert words in message


@pytest.mark.parametrize(
    ("rule", "target", "words"),
    [
        ({"ipMask": "10.0.0"}, "ipMask", "CIDR"),
        ({"ipMask": "fe80::%1/10"}, "ipMask", "CIDR"),
        ({"action": "Allow"}, "ipMask", "is missing"),
        ({"ipMask": "10.0.0.1", "action": "Deny"}, "action", "it can be: Allow"),
    ],
)
def test_a_bad_ip_rule_is_refused(rule: dict[str, str], target: str, words: str) -> None:
    found, message = refusal(topic, inboundIpRules=[rule])

    assert found == f"properties.inboundIpRules[0].{target}"
    assert words in message


def test_the_custom_schema_needs_a_mapping() -> None:
    found, message = refusal(topic, inputSchema="CustomEventSchema")

    assert found == "properties.inputSchemaMapping"
    assert "requires inputSchemaMapping" in message


def test_all_faults_are_reported_at_once() -> None:
    body = {
        "location": 1,
        "tags": {"a": 1},
        "sku": {"name": {}, "capacity": "x"},
        "properties": {"inputSchema": "x", "disableLocalAuth": 1},
    }

    assert targets(topic, body, path=ArmPath("s 1", "rg.", "topics", "a")) == [
        *("name", "id", "id", "location", "tags.a", "sku.name", "sku.capacity"),
        *("properties.inputSchema", "properties.disableLocalAuth"),
    ]
