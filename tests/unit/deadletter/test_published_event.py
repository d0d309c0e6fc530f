"""Dead letters of every form, as the contract shows them (§4.2), back to events of a topic."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shared.deadletter.published_event import NotReplayable, event_text
from shared.deadletter.reader import DeadLetter
from shared.delivery.requests.push_request import convert
from shared.events.topic import InputSchema, Topic
from shared.subscriptions.subscription import DeliverySchema
from tests.azure_dead_letters import ADDED, CLOUD_ADDED, CLOUD_EVENT, EVENT, NAMESPACE
from tests.builders import a_topic, read_blob

# What the conversion for delivery makes of EVENT.
CONVERTED = json.loads(
    convert(json.dumps(EVENT), InputSchema.EVENT_GRID, DeliverySchema.CLOUD_EVENTS)
)


def replayed(letter: dict[str, Any], schema: InputSchema) -> Any:
    (read,) = read_blob(json.dumps([letter]).encode())
    assert isinstance(read, DeadLetter)
    return json.loads(event_text(read, topic(schema)))


def topic(schema: InputSchema) -> Topic:
    return a_topic(input_schema=schema)


@pytest.mark.parametrize(
    ("letter", "schema", "event"),
    [
        (EVENT | ADDED, InputSchema.EVENT_GRID, EVENT),
        (EVENT | ADDED, InputSchema.CUSTOM, EVENT),
        (EVENT | ADDED, InputSchema.CLOUD_EVENTS, CONVERTED),
        (CLOUD_EVENT | CLOUD_ADDED, InputSchema.CLOUD_EVENTS, CLOUD_EVENT),
        (NAMESPACE, InputSchema.CLOUD_EVENTS, CLOUD_EVENT),
        (CONVERTED | CLOUD_ADDED, InputSchema.EVENT_GRID, EVENT),
        (CONVERTED | CLOUD_ADDED, InputSchema.CUSTOM, EVENT),
    ],
)
def test_a_dead_letter_becomes_the_event_that_was_published(
    letter: dict[str, Any], schema: InputSchema, event: dict[str, Any]
):
    assert replayed(letter, schema) == event


@pytest.mark.parametrize(
    ("letter", "schema", "why"),
    [
        (EVENT | ADDED | {"id": 5}, InputSchema.EVENT_GRID, "'id'"),
        (EVENT | ADDED | {"more": 5}, InputSchema.EVENT_GRID, "'more'"),
        (CLOUD_EVENT | CLOUD_ADDED | {"type": ""}, InputSchema.CLOUD_EVENTS, "'eventType'"),
        (CLOUD_EVENT | CLOUD_ADDED | {"tenant": "x"}, InputSchema.EVENT_GRID, "'tenant'"),
        (
            CLOUD_EVENT | CLOUD_ADDED | {"datacontenttype": "text/plain"},
            InputSchema.EVENT_GRID,
            "'datacontenttype'",
        ),
        (
            CLOUD_EVENT | CLOUD_ADDED | {"dataschema": "https://x"},
            InputSchema.EVENT_GRID,
            "'dataschema'",
        ),
        (EVENT | ADDED | {"data": "x" * 1_100_000}, InputSchema.EVENT_GRID, "maximum size"),
    ],
)
def test_what_has_no_form_in_the_schema_is_refused(
    letter: dict[str, Any], schema: InputSchema, why: str
):
    with pytest.raises(NotReplayable, match=why):
        replayed(letter, schema)
