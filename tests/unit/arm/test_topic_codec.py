"""Topics between ARM, storage and the data plane."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shared.arm.topic_codec import render_topic, to_topic
from shared.arm.tracked_resource import ArmPath
from shared.errors import InvalidDocument
from shared.events.topic import InputSchema, Topic
from tests.unit.arm.documents import PATH, only_fault, targets, topic

ID = "/subscriptions/s1/resourceGroups/rg/providers/Microsoft.EventGrid/topics/orders"


def test_a_topic_is_answered_with_its_defaults() -> None:
    assert render_topic(topic({}), "https://pushgrid.example") == {
        "id": ID,
        "name": "orders",
        "type": "Microsoft.EventGrid/topics",
        "location": "global",
        "tags": None,
        "systemData": None,
        "properties": {
            "provisioningState": "Succeeded",
            "endpoint": "https://pushgrid.example/topics/orders/api/events",
            "inputSchema": "EventGridSchema",
            "publicNetworkAccess": "Enabled",
            "disableLocalAuth": False,
            "metricResourceId": "metric-id",
        },
    }


def test_what_clients_send_beside_is_given_back() -> None:
    body = {
        "location": "westeurope",
        "tags": {"team": "crm"},
        "sku": {"name": "Basic"},
        "kind": "Azure",
        "identity": {"type": "None"},
        "unknown": [1],
        "properties": {
            "inputSchema": "cloudeventschemav1_0",
            "publicNetworkAccess": "enabled",
            "inboundIpRules": [],
            "inputSchemaMapping": None,
            "disableLocalAuth": False,
            "minimumTlsVersionAllowed": "1.2",
            "dataResidencyBoundary": "WithinGeopair",
            "eventTypeInfo": {"kind": "inline"},
            "unknown": {},
        },
    }

    answer = render_topic(topic(body), "")

    assert answer["location"] == "westeurope"
    assert answer["tags"] == {"team": "crm"}
    assert (answer["sku"], answer["kind"]) == ({"name": "Basic"}, "Azure")
    assert answer["identity"] == {"type": "None"}
    assert answer["properties"]["inputSchema"] == "CloudEventSchemaV1_0"
    assert answer["properties"]["minimumTlsVersionAllowed"] == "1.2"
    assert answer["properties"]["dataResidencyBoundary"] == "WithinGeopair"
    assert answer["properties"]["eventTypeInfo"] == {"kind": "Inline"}
    assert "unknown" not in answer
    assert "unknown" not in answer["properties"]


def test_keys_are_never_part_of_an_answer() -> None:
    stored = topic()

    assert stored["keys"] == {"key1": "key1", "key2": "key2"}
    assert "key1" not in json.dumps(render_topic(stored, ""))


def test_the_data_plane_sees_name_schema_keys_and_profile() -> None:
    stored = topic({"tags": {"DELIVERYPROFILE": "2017", "team": "crm"}})

    assert to_topic(stored) == Topic(
        name="orders",
        arm_id=ID,
        input_schema=InputSchema.EVENT_GRID,
        keys=("key1", "key2"),
        profile="2017",
    )
    assert to_topic(topic()).profile is None


def test_replacing_keeps_id_name_and_keys() -> None:
    first = topic()

    second = topic(
        {"tags": {"a": "b"}},
        path=ArmPath("S1", "RG", "topics", "Orders"),
        existing=first | {"keys": {}},
    )

    assert (second["id"], second["name"], second["keys"]) == (ID, "orders", {})
    assert second["metricResourceId"] == first["metricResourceId"]
    assert second["tags"] == {"a": "b"}


def test_the_input_schema_of_a_topic_cant_change() -> None:
    with pytest.raises(InvalidDocument, match="is EventGridSchema; it can't be changed to Cloud"):
        topic(existing=topic(), inputSchema="CloudEventSchemaV1_0")


@pytest.mark.parametrize(
    "name", ["abc", "a" * 50, "A-1", "---", "orders-Microsoft", "topic-EventGrid", "my-System"]
)
def test_a_legal_name_is_accepted(name: str) -> None:
    assert topic(path=PATH._replace(name=name))["name"] == name


@pytest.mark.parametrize(
    "name",
    [
        *("", "ab", "a" * 51, "a_b", "a.b", "na\u00efve", "abc\n", "a/b"),
        *("Microsoft-x", "microsoft", "EVENTGRID1", "System", "systems"),
    ],
)
def test_an_illegal_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidDocument) as caught:
        topic(path=PATH._replace(name=name))

    assert only_fault(caught.value).target == "name"


@pytest.mark.parametrize(
    "path",
    [
        PATH._replace(subscription="a/b"),
        PATH._replace(subscription="a" * 65),
        PATH._replace(group="rg."),
        PATH._replace(group="a b"),
        PATH._replace(group="a" * 91),
    ],
)
def test_an_illegal_scope_is_refused(path: ArmPath) -> None:
    with pytest.raises(InvalidDocument) as caught:
        topic(path=path)

    assert only_fault(caught.value).target == "id"


@pytest.mark.parametrize(
    ("body", "target", "words"),
    [
        pytest.param([], None, "must be a JSON object", id="a list"),
        pytest.param(None, None, "must be a JSON object", id="null"),
        pytest.param({"location": 1}, "location", "must be a string", id="location"),
        pytest.param({"properties": []}, "properties", "must be an object", id="properties"),
        pytest.param({"tags": []}, "tags", "must be an object", id="tags"),
        pytest.param({"tags": {"a": 1}}, "tags.a", "must be a string", id="tag"),
        pytest.param({"tags": {"a": None}}, "tags.a", "must be a string", id="null tag"),
        pytest.param({"tags": {"a": "x" * 257}}, "tags.a", "256 characters", id="long tag"),
        pytest.param({"tags": {"": "x"}}, "tags", "1-512", id="nameless tag"),
        pytest.param({"tags": {"x" * 513: "x"}}, "tags", "1-512", id="long tag name"),
        pytest.param(
            {"tags": {str(n): "" for n in range(51)}}, "tags", "50 tags", id="too many tags"
        ),
        pytest.param(
            {"tags": {"deliveryProfile": "2018"}},
            "tags.deliveryProfile",
            "no delivery profile '2018'; there are: 2017, latest.",
            id="profile",
        ),
        pytest.param(
            {"properties": {"inputSchema": "CustomEventSchema"}},
            "properties.inputSchemaMapping",
            "requires inputSchemaMapping",
            id="custom schema without a mapping",
        ),
        pytest.param(
            {"properties": {"inputSchema": "Xml"}},
            "properties.inputSchema",
            "has the value 'Xml'; it can be: EventGridSchema, ",
            id="unknown schema",
        ),
        pytest.param(
            {"properties": {"inputSchemaMapping": {"inputSchemaMappingType": "Json"}}},
            "properties.inputSchemaMapping",
            "CustomEventSchema only",
            id="mapping of another schema",
        ),
        pytest.param(
            {"properties": {"inboundIpRules": [{"ipMask": "10.0.0.0/8"}] * 129}},
            "properties.inboundIpRules",
            "at most 128",
            id="ip rules",
        ),
        pytest.param(
            {"properties": {"inboundIpRules": [{"ipMask": "10.0.0"}]}},
            "properties.inboundIpRules[0].ipMask",
            "CIDR",
            id="no range",
        ),
        pytest.param(
            {"properties": {"inboundIpRules": [{"ipMask": "fe80::%1/10"}]}},
            "properties.inboundIpRules[0].ipMask",
            "CIDR",
            id="zone",
        ),
        pytest.param(
            {"properties": {"inboundIpRules": [{"action": "Allow"}]}},
            "properties.inboundIpRules[0].ipMask",
            "is missing",
            id="no address",
        ),
        pytest.param(
            {"properties": {"inboundIpRules": [{"ipMask": "10.0.0.1", "action": "Deny"}]}},
            "properties.inboundIpRules[0].action",
            "it can be: Allow",
            id="deny",
        ),
        pytest.param(
            {"properties": {"publicNetworkAccess": "disabled"}},
            "properties.publicNetworkAccess",
            "not supported",
            id="no public network",
        ),
        pytest.param(
            {"properties": {"disableLocalAuth": "yes"}},
            "properties.disableLocalAuth",
            "true or false",
            id="not a flag",
        ),
        pytest.param(
            {"properties": {"minimumTlsVersionAllowed": "1.4"}},
            "properties.minimumTlsVersionAllowed",
            "1.0, 1.1, 1.2",
            id="tls",
        ),
    ],
)
def test_a_bad_topic_is_refused(body: Any, target: str | None, words: str) -> None:
    with pytest.raises(InvalidDocument) as caught:
        topic(body if body is not None else 0)

    assert only_fault(caught.value).target == target
    assert words in caught.value.message


def test_a_topic_can_have_128_rules_about_addresses() -> None:
    masks = [f"203.0.113.{number}" for number in range(64)] + [f"fd00::{n}/127" for n in range(64)]
    stored = topic(inboundIpRules=[{"ipMask": mask, "action": "allow"} for mask in masks])

    rules = to_topic(stored).inbound_rules

    assert [str(rule) for rule in rules[:64]] == [f"{mask}/32" for mask in masks[:64]]
    assert str(rules[65]) == "fd00::/127"


def test_all_faults_are_reported_at_once() -> None:
    body = {
        "location": 1,
        "tags": {"a": 1},
        "properties": {"inputSchema": "x", "disableLocalAuth": 1},
    }

    with pytest.raises(InvalidDocument) as caught:
        topic(body, path=ArmPath("s 1", "rg.", "topics", "a"))

    assert targets(caught.value) == [
        *("name", "id", "id", "location", "tags.a"),
        *("properties.inputSchema", "properties.disableLocalAuth"),
    ]
