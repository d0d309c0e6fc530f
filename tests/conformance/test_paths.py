"""Every case of paths/ on the fixture for users, in each edition that has it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from pushgrid.testing import Pushgrid
from pushgrid.testing.topic import Subscriber, Topic
from shared.delivery.delivery_profile import Feature
from shared.delivery.profiles import PROFILES
from tests.conformance.editions import FOLDER

DOCUMENT = json.loads((FOLDER / "paths/cases.json").read_text())
EDITIONS = DOCUMENT["editions"]
MISSING = "(missing)"

# What an operator says of the value "a", of another one, and of none.
OPERATORS: dict[str, tuple[bool, bool, bool]] = {
    "StringIn": (True, False, False),
    "StringNotIn": (False, True, True),
    "IsNotNull": (True, True, False),
    "IsNullOrUndefined": (False, False, True),
}


def played() -> Iterator[Any]:
    for profile, uses in EDITIONS.items():
        for case in DOCUMENT["cases"]:
            for use in uses:
                if use in case.get("uses", uses):
                    yield pytest.param(profile, use, case, id=f"{profile}: {use}, {case['name']}")


def test_the_file_is_as_its_schema_says() -> None:
    schema = json.loads((FOLDER / "paths/cases.schema.json").read_text())

    jsonschema.validate(DOCUMENT, schema)


def test_every_edition_has_what_applies() -> None:
    with_headers = {name for name, uses in EDITIONS.items() if "header" in uses}

    assert set(EDITIONS) == set(PROFILES)
    assert with_headers == {
        name for name, profile in PROFILES.items() if Feature.CUSTOM_HEADERS in profile.features
    }


@pytest.mark.parametrize(("profile", "use", "case"), [*played()])
def test_a_path_conforms(pushgrid: Pushgrid, profile: str, use: str, case: dict[str, Any]) -> None:
    path, value = ".".join(case["path"]), case["value"]
    if use == "mapping":
        assert mapped(pushgrid, profile, path, case["data"]) == (value or MISSING)
        return
    topic = a_topic(pushgrid, profile)
    if use == "header":
        subscribed = with_header(topic, path)
        publish(topic, case["data"])
        (attempt,) = subscribed.attempts
        assert attempt.request.headers.get("X-Value") == value
        return
    asked = {name: subscribe(topic, name, path) for name in OPERATORS}
    publish(topic, case["data"])
    wanted = 2 if value is None else 0 if value == "a" else 1
    assert {name: bool(each.received) for name, each in asked.items()} == {
        name: expected[wanted] for name, expected in OPERATORS.items()
    }


def a_topic(pushgrid: Pushgrid, profile: str) -> Topic:
    if profile == "ns":
        return pushgrid.topic("orders", namespace="shop")
    return pushgrid.topic("orders", profile=profile)


def publish(topic: Topic, data: dict[str, Any]) -> None:
    topic.publish({"type" if topic.namespace else "eventType": "Placed", "data": data})


def subscribe(topic: Topic, operator: str, path: str) -> Subscriber:
    values = {"values": ["a"]} if operator.startswith("String") else {}
    wanted = [{"operatorType": operator, "key": f"data.{path}", **values}]
    if topic.namespace:
        return topic.subscribe(operator, filtersConfiguration={"filters": wanted})
    return topic.subscribe(operator, filter={"advancedFilters": wanted})


def with_header(topic: Topic, path: str) -> Subscriber:
    header = {"name": "X-Value", "type": "Dynamic", "properties": {"sourceField": f"data.{path}"}}
    destination = {"properties": {"deliveryAttributeMappings": [header]}}
    if topic.namespace:
        delivery = {"deliveryMode": "Push", "push": {"destination": destination}}
        return topic.subscribe("crm", deliveryConfiguration=delivery)
    return topic.subscribe("crm", destination=destination)


def mapped(pushgrid: Pushgrid, profile: str, path: str, event: dict[str, Any]) -> str:
    """Return the subject that a topic takes from *path*."""
    fields = {
        "subject": {"sourceField": path, "defaultValue": MISSING},
        "eventType": {"defaultValue": "Placed"},
        "dataVersion": {"defaultValue": "1"},
    }
    topic = pushgrid.topic(
        "orders",
        profile=profile,
        inputSchema="CustomEventSchema",
        inputSchemaMapping={"inputSchemaMappingType": "Json", "properties": fields},
    )
    subscribed = topic.subscribe("crm", eventDeliverySchema="EventGridSchema")
    topic.publish([event])
    (received,) = subscribed.received
    return str(received["subject"])
