"""Files and templates in any case."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from cli.apply import _read_parameters
from cli.configuration import Configuration, read_configuration
from cli.configuration.file_names import CONFIGURATION, TEMPLATE
from cli.configuration.resources import ResourceId
from cli.configuration.schema import SCHEMA
from shared.arm.member_names import FreeNames, Names, Shape
from tests.unit.cli.configuration.reading import faults, read
from tests.unit.cli.configuration.test_reading import JSON
from tests.unit.cli.configuration.test_template import (
    EXTENSION,
    RECEIVERS,
    SHOP,
    TEMPLATE_SCHEMA,
    TOPIC,
    template,
)

SPELLINGS = [str.upper, str.lower, str.swapcase]


def respelt(value: Any, shape: Shape, spelling: Callable[[str], str]) -> Any:
    """Return a file whose names are spelt otherwise, all but the free ones."""
    if isinstance(value, list):
        inner = shape.of if isinstance(shape, FreeNames) else shape
        return [respelt(each, inner, spelling) for each in value]
    if shape is None or not isinstance(value, Mapping):
        return value
    if isinstance(shape, FreeNames):
        return {name: respelt(each, shape.of, spelling) for name, each in value.items()}
    return {
        spelling(name) if name in shape.below else name: respelt(
            each, shape.below.get(name), spelling
        )
        for name, each in value.items()
    }


def contents(configuration: Configuration) -> list[Any]:
    return [
        (each.id, each.document, each.keys, each.is_consent_assumed, each.place.line)
        for each in configuration.resources
    ]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_file_is_read_in_any_case(tmp_path: Path, spelling: Callable[[str], str]) -> None:
    original = json.dumps(json.loads(JSON), indent=1)
    other = json.dumps(respelt(json.loads(JSON), CONFIGURATION, spelling), indent=1)
    assert other != original

    assert contents(read(tmp_path, other)) == contents(read(tmp_path, original))


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_template_is_read_in_any_case(tmp_path: Path, spelling: Callable[[str], str]) -> None:
    parameters = {"receivers": json.dumps(RECEIVERS), "deadLetters": "true"}
    shop = json.loads(SHOP.read_text())
    for name, text in (
        ("original.json", json.dumps(shop, indent=1)),
        ("other.json", json.dumps(respelt(shop, TEMPLATE, spelling), indent=1)),
    ):
        (tmp_path / name).write_text(text)

    original, other = (
        contents(read_configuration(tmp_path / name, parameters))
        for name in ("original.json", "other.json")
    )

    assert len(original) > 3
    assert other == original


def test_documents_of_a_template_get_their_documented_names(tmp_path: Path) -> None:
    """Also what expressions make, and copies."""
    topic = {
        "Type": "Microsoft.EventGrid/topics",
        "NAME": "orders",
        "Properties": {
            "disablelocalauth": True,
            "COPY": [
                {
                    "Name": "INBOUNDIPRULES",
                    "Count": 2,
                    "Input": {"IpMask": "[concat('10.0.', copyIndex('inboundIpRules'), '.0/24')]"},
                }
            ],
        },
        "tags": "[variables('Tags')]",
    }
    text = json.dumps(
        {
            "$Schema": TEMPLATE_SCHEMA,
            "Variables": {"tags": {"Team": "a"}},
            "RESOURCES": [topic],
        }
    )

    (found,) = read(tmp_path, text, "main.json").resources

    rules = [{"ipMask": "10.0.0.0/24"}, {"ipMask": "10.0.1.0/24"}]
    assert found.document == {
        "tags": {"Team": "a"},
        "properties": {"disableLocalAuth": True, "inboundIpRules": rules},
    }


@pytest.mark.parametrize("spelling", ["toUpper", "toLower"])
def test_ids_are_read_in_any_case(tmp_path: Path, spelling: str) -> None:
    of = f"{spelling}(resourceId('{TOPIC}', 'orders'))"
    properties = {"labels": [f"[reference({of}).endpoint]", f"[listKeys({of}, '2025-02-15').key1]"]}
    crm = {"type": EXTENSION, "name": "crm", "scope": f"[{of}]", "properties": properties}

    (_, found) = read(tmp_path, template({"type": TOPIC, "name": "orders"}, crm)).resources

    assert found.id.folded == ResourceId(("topics", "eventSubscriptions"), ("orders", "crm"))
    assert found.refers_to == {ResourceId(("topics",), ("orders",))}


def test_a_parameter_file_is_read_in_any_case(tmp_path: Path) -> None:
    path = tmp_path / "main.parameters.json"
    path.write_text('{"PARAMETERS": {"Endpoint": {"Value": "x"}}}')

    assert _read_parameters(path) == {"Endpoint": "x"}


def test_two_spellings_of_a_member_are_a_fault(tmp_path: Path) -> None:
    own = "topics.orders.eventSubscriptions.crm.properties.labels"
    wrong = JSON.replace('"labels": [', '"Labels": [],\n            "labels": [')
    message = "is there twice, as 'Labels' and as 'labels'."
    assert faults(tmp_path, wrong) == [f"pushgrid.json:16: {own}: {message}"]
    resource = {
        "type": "Microsoft.EventGrid/topics",
        "name": "orders",
        "properties": {"disableLocalAuth": True, "DisableLocalAuth": False},
    }

    (found,) = faults(tmp_path, template(resource), "main.json")

    message = "is there twice, as 'disableLocalAuth' and as 'DisableLocalAuth'."
    assert found.startswith(f"main.json:8: resources[0].properties.disableLocalAuth: {message}")


def test_topics_keep_their_case(tmp_path: Path) -> None:
    both = {"topics": {"Orders": {"tags": {"A": "1", "a": "2"}}, "Topics": {}}}

    found = read(tmp_path, json.dumps(both)).resources

    assert [each.id.name for each in found] == ["Orders", "Topics"]
    assert found[0].document == {"tags": {"A": "1", "a": "2"}}


def with_properties(**properties: Any) -> str:
    destination = {"endpointType": "webhook", "properties": {"endpointUrl": "https://a.example/"}}
    crm = {"properties": {"destination": destination, **properties}}
    return json.dumps({"topics": {"orders": {"eventSubscriptions": {"crm": crm}}}})


def test_values_are_read_as_a_deployment_reads_them(tmp_path: Path) -> None:
    """Texts of flags and numbers, empty ones, and lists of values in any case."""
    text = with_properties(
        expirationTimeUtc="",
        eventDeliverySchema="",
        deadLetterDestination="",
        filter={
            "isSubjectCaseSensitive ": "true",
            "AdvancedFilters": [{"OperatorType": "numberlessthan", "Key": "data.k", "Values": 5}],
        },
        retryPolicy={"maxDeliveryAttempts": "5"},
    )

    (_, crm) = read(tmp_path, text).resources

    assert crm.document["properties"]["filter"]["isSubjectCaseSensitive"] == "true"


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"filter": {"isSubjectCaseSensitive": "yes"}}, "this must be true or false"),
        ({"retryPolicy": {"maxDeliveryAttempts": "many"}}, "this must be a whole number"),
        ({"eventDeliverySchema": "Xml"}, '"Xml" is none of: EventGridSchema'),
        ({"LABELS": [1]}, ".labels[0]: this must be text"),
        ({"lebals": []}, ".lebals: there is no such member; did you mean labels?"),
    ],
)
def test_other_values_are_faults(tmp_path: Path, properties: dict[str, Any], words: str) -> None:
    (found,) = faults(tmp_path, with_properties(**properties))

    assert words in found


def test_every_name_of_the_schema_is_read_in_any_case() -> None:
    schema = json.loads(SCHEMA.read_text("utf-8"))
    known: set[tuple[str, str]] = set()

    def compare(part: Mapping[str, Any], shape: Shape, path: str) -> None:
        if reference := part.get("$ref"):
            part = schema["definitions"][reference.rpartition("/")[2]]
        if "items" in part:
            compare(part["items"], shape, path)
        if isinstance(shape, FreeNames):
            inner = part.get("additionalProperties")
            if isinstance(inner, Mapping):
                compare(inner, shape.of, path)
        elif isinstance(shape, Names):
            for name, inner in part.get("properties", {}).items():
                assert name in shape.below, f"{path}.{name}"
                known.add((path, name))
                compare(inner, shape.below[name], f"{path}.{name}")

    compare(schema, CONFIGURATION, "")

    assert len(known) > 300
