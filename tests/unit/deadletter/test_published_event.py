"""Dead letters of every form (contract §4.2): of which topic they are, and events of it again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shared.deadletter.blob_summary import BlobSummary
from shared.deadletter.published_event import NotReplayable, event_text
from shared.deadletter.reader import DeadLetter, is_of, topic_named
from shared.delivery.requests.push_request import convert
from shared.events.topic import InputSchema
from shared.subscriptions.subscription import DeliverySchema
from tests.azure_dead_letters import ADDED, CLOUD_ADDED, CLOUD_EVENT, EVENT, NAMESPACE
from tests.builders import a_topic, read_blob

EVENT_GRID, CUSTOM, CLOUD = InputSchema.EVENT_GRID, InputSchema.CUSTOM, InputSchema.CLOUD_EVENTS
OWN, OTHER = a_topic().arm_id, "/subscriptions/s/resourceGroups/rg/topics/other"
GRID, NATIVE = EVENT | ADDED, CLOUD_EVENT | CLOUD_ADDED


@pytest.mark.parametrize(
    ("letter", "schema", "written_for", "expected"),
    [
        (GRID | {"topic": OWN.upper()}, EVENT_GRID, None, True),
        (GRID | {"topic": OTHER}, EVENT_GRID, None, False),
        (GRID | {"topic": None}, EVENT_GRID, None, None),
        ({"id": "1", "Topic": OWN} | ADDED, EVENT_GRID, None, True),
        (GRID | {"topic": OTHER}, CLOUD, None, False),
        (NATIVE | {"source": OWN}, EVENT_GRID, None, True),
        (NATIVE | {"source": OWN}, CUSTOM, None, True),
        (NATIVE | {"source": OTHER}, EVENT_GRID, None, False),
        (NATIVE, EVENT_GRID, None, False),  # the other topic's own CloudEvent
        (NATIVE, CLOUD, None, None),
        (NATIVE | {"source": OWN}, CLOUD, None, None),  # its publisher may say so
        (NATIVE, CLOUD, "", None),
        (NATIVE, CLOUD, OWN.upper(), True),
        (NATIVE, CLOUD, OTHER, False),
        (GRID | {"topic": OWN}, EVENT_GRID, OTHER, False),
        (NATIVE | {"source": OWN}, EVENT_GRID, OTHER, False),
        (NAMESPACE, CLOUD, None, False),
    ],
)
def test_the_blob_or_what_the_app_wrote_proves_the_topic(
    letter: dict[str, Any], schema: InputSchema, written_for: str | None, *, expected: bool | None
):
    (read,) = read_blob(json.dumps([letter]).encode())
    assert isinstance(read, DeadLetter)
    summary = None if written_for is None else BlobSummary(written_for, {"x": 1})

    assert is_of(a_topic(input_schema=schema), read, summary) is expected


def test_a_namespace_s_folder_has_the_name_of_its_topic():
    topic = a_topic(name="shop.orders", input_schema=CLOUD)
    (read,) = read_blob(json.dumps([NAMESPACE]).encode())
    assert isinstance(read, DeadLetter)

    assert is_of(topic, read, None) is True
    assert is_of(topic, read, BlobSummary(OTHER, {})) is False


@pytest.mark.parametrize(
    ("arm_id", "name"),
    [
        (OTHER, "other"),
        (f"{OTHER.partition('/topics')[0]}/providers/Microsoft.Storage/storageAccounts/acct", None),
    ],
)
def test_an_id_names_a_topic_of_the_data_plane(arm_id: str, name: str | None) -> None:
    assert topic_named(arm_id) == (name or "system-acct")


# What the conversion for delivery makes of EVENT.
CONVERTED = json.loads(
    convert(json.dumps(EVENT), InputSchema.EVENT_GRID, DeliverySchema.CLOUD_EVENTS)
)


def replayed(letter: dict[str, Any], schema: InputSchema) -> Any:
    (read,) = read_blob(json.dumps([letter]).encode())
    assert isinstance(read, DeadLetter)
    return json.loads(event_text(read, a_topic(input_schema=schema)))


@pytest.mark.parametrize(
    ("letter", "schema", "event"),
    [
        (GRID, EVENT_GRID, EVENT),
        (GRID, CUSTOM, EVENT),
        (GRID, CLOUD, CONVERTED),
        ({name.lower(): value for name, value in EVENT.items()} | ADDED, EVENT_GRID, EVENT),
        ({name.upper(): value for name, value in EVENT.items()} | ADDED, CLOUD, CONVERTED),
        (GRID | {"id": 5}, EVENT_GRID, EVENT | {"id": "5"}),
        (NATIVE, CLOUD, CLOUD_EVENT),
        (NAMESPACE, CLOUD, CLOUD_EVENT),
        (CONVERTED | CLOUD_ADDED, EVENT_GRID, EVENT),
        (CONVERTED | CLOUD_ADDED, CUSTOM, EVENT),
    ],
)
def test_a_dead_letter_becomes_the_event_that_was_published(
    letter: dict[str, Any], schema: InputSchema, event: dict[str, Any]
):
    assert replayed(letter, schema) == event


@pytest.mark.parametrize(
    ("letter", "schema", "why"),
    [
        (GRID | {"id": False}, EVENT_GRID, "'id'"),
        (GRID | {"more": 5}, EVENT_GRID, "'more'"),
        (GRID | {"data": "x" * 1_100_000}, EVENT_GRID, "maximum size"),
        (NATIVE | {"type": ""}, CLOUD, "'eventType'"),
        (NATIVE | {"tenant": "x"}, EVENT_GRID, "'tenant'"),
        (NATIVE | {"datacontenttype": "text/plain"}, EVENT_GRID, "'datacontenttype'"),
        (NATIVE | {"dataschema": "https://x"}, EVENT_GRID, "'dataschema'"),
    ],
)
def test_what_has_no_form_in_the_schema_is_refused(
    letter: dict[str, Any], schema: InputSchema, why: str
):
    with pytest.raises(NotReplayable, match=why):
        replayed(letter, schema)
