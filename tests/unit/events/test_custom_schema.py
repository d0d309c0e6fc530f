"""Custom events are mapped to Event Grid's schema; contract §1.4."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shared.events.event import Event
from shared.events.publish_http import read_events
from shared.events.schema_rules import Arrival
from shared.events.topic import FieldMapping, InputSchema, Topic
from tests import builders
from tests.unit.events.publishing import ARRIVAL, NOW, a_request, body_of, refusal

MAPPING = {
    "id": FieldMapping("key", None),
    "eventTime": FieldMapping("at", None),
    "eventType": FieldMapping("kind", "Shop.Generic"),
    "subject": FieldMapping("order.path", None),
    "dataVersion": FieldMapping(None, "1.0"),
}
ORDER = {"key": "o-1", "at": "2025-01-02T03:04:05Z", "kind": "Shop.X", "order": {"path": "/a"}}


def a_topic(**mapping: FieldMapping | None) -> Topic:
    chosen = {name: field for name, field in {**MAPPING, **mapping}.items() if field}
    return builders.a_topic(input_schema=InputSchema.CUSTOM, mapping=chosen)


def read(*events: Any, topic: Topic | None = None, arrival: Arrival = ARRIVAL) -> tuple[Event, ...]:
    return read_events(a_request(body_of(list(events))), topic or a_topic(), arrival)


def test_a_mapped_time_is_written_in_one_form() -> None:
    (event,) = read(ORDER | {"at": "2026-01-01 10:00"})

    assert event.members["eventTime"] == "2026-01-01T10:00:00Z"
    assert event.members["data"]["at"] == "2026-01-01 10:00"


def test_an_event_is_mapped_and_kept_whole() -> None:
    (event,) = read(ORDER)

    assert event.members == {
        "id": "o-1",
        "topic": builders.TOPIC_ID,
        "subject": "/a",
        "eventType": "Shop.X",
        "eventTime": "2025-01-02T03:04:05Z",
        "data": ORDER,
        "dataVersion": "1.0",
        "metadataVersion": "1",
    }
    assert (json.loads(event.text), event.subject, event.event_type) == (
        event.members,
        "/a",
        "Shop.X",
    )


def test_missing_fields_are_defaults_or_generated() -> None:
    first, second = read({"order": {"path": "/a"}}, {"order": {"path": "/b"}, "kind": None})

    assert (first.event_type, second.event_type) == ("Shop.Generic", "Shop.Generic")
    assert first.members["eventTime"] == "2025-01-02T03:04:05.0000000Z"
    assert len({first.members["id"], second.members["id"]}) == 2


def test_a_generated_id_is_the_same_when_the_request_is_repeated() -> None:
    (first,), (again,) = read({"order": {"path": "/a"}}), read({"order": {"path": "/a"}})
    (other,) = read({"order": {"path": "/a"}}, arrival=Arrival(NOW, "another"))

    assert first.members["id"] == again.members["id"] != other.members["id"]


def test_a_field_of_that_very_name_wins_over_a_path() -> None:
    (event,) = read(ORDER | {"order.path": "/dotted"})

    assert event.subject == "/dotted"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"Order": {"PATH": "/a"}}, "/a"),
        ({"Order": {"PATH": "/a"}, "order": {"path": "/b"}}, "/b"),  # exact
        ({"Order.Path": "/dotted"}, "/dotted"),
        ({"Order.Path": "/dotted", "order": {"path": "/b"}}, "/b"),  # exact
    ],
)
def test_case_does_not_count_in_the_names_of_fields(fields: dict[str, Any], expected: str) -> None:
    (event,) = read({"KEY": "o-1", "Kind": "Shop.X", **fields})

    assert (event.members["id"], event.event_type, event.subject) == ("o-1", "Shop.X", expected)


def test_numbers_are_written_as_text() -> None:
    (event,) = read(ORDER | {"key": 12345678901234567890})

    assert event.members["id"] == "12345678901234567890"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"key": "1"}, "requires 'subject' property to be set"),  # no subject
        (ORDER | {"kind": ""}, "requires 'eventType' property to be set"),  # empty
        (ORDER | {"kind": {}}, "'eventType' property to be a string"),  # an object
        (ORDER | {"at": "now"}, "'eventTime' property to be a date"),  # no time
        ("x", "Expected: StartArray, Actual Token Received: String"),  # a text
        ([], "Actual Token Received: EndArray"),  # nothing
        ([1], "Expected: StartObject"),  # no object
    ],
)
def test_an_unmappable_event_is_refused(body: Any, words: str) -> None:
    request = a_request(body_of(body))

    status, _, _, message = refusal(read_events, request, a_topic(), ARRIVAL)

    assert (status, "'CustomInputEvent' schema" in message, words in message) == (400, True, True)


def test_a_field_without_mapping_and_default_is_required() -> None:
    topic = a_topic(dataVersion=None)

    assert "'dataVersion'" in refusal(read_events, a_request(body_of([ORDER])), topic, ARRIVAL)[3]
