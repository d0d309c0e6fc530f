"""What Event Grid's own schema requires, in which order, and what is stamped."""

from __future__ import annotations

import json

import pytest

from shared.events.topic import InputSchema
from tests.builders import TOPIC_ID
from tests.unit.events.publishing import (
    CONFIGURED,
    RECEIVES,
    bad_json,
    body_of,
    members,
    read_grid,
    refusal,
)

_CONFIGURED = CONFIGURED.format("EventGridEvent")
_RECEIVES = RECEIVES.format("EventGridEvent")
_STAMPS = {"topic": TOPIC_ID, "dataVersion": "", "metadataVersion": "1"}
_ISO = "'eventTime' property to be a date and time in ISO 8601 form."


def _required(name: str) -> str:
    return f"{_CONFIGURED} and requires '{name}' property to be set."


def _unexpected(name: str) -> str:
    return (
        f"{_CONFIGURED}. Received unexpected property '{name}' in JSON which does not conform to"
        " the expected schema."
    )


def _expected(expected: str, actual: str) -> str:
    return f"{_RECEIVES} Token Expected: {expected}, Actual Token Received: {actual}."


@pytest.mark.parametrize(
    ("changes", "stamped"),
    [
        pytest.param({}, _STAMPS, id="everything"),
        pytest.param(
            {"topic": TOPIC_ID, "dataVersion": "2", "metadataVersion": "1"},
            {"dataVersion": "2"},
            id="nothing",
        ),
        pytest.param(
            {"topic": None, "dataVersion": None, "metadataVersion": None}, _STAMPS, id="nulls"
        ),
    ],
)
def test_what_publishers_leave_out_is_stamped(changes, stamped):
    """Source: Event Grid "Event schema"."""
    (event,) = read_grid(body_of([members(**changes)]))

    assert event.schema is InputSchema.EVENT_GRID
    assert event.members == members(**changes) | stamped
    assert json.loads(event.text) == event.members


@pytest.mark.parametrize(
    "data", [..., None, "plain", "", 0, False, [], {"a": {"b": [1.5, 10**30]}}], ids=repr
)
def test_data_is_whatever_it_is(data):
    (event,) = read_grid(body_of([members(data=data)]))

    assert json.loads(event.text) == members(data=data) | _STAMPS


def test_text_is_one_line_of_ascii():
    (event,) = read_grid(json.dumps([members(data="Zoë\n😀")], indent=2).encode())

    assert event.text.isascii()
    assert event.text.isprintable()
    assert event.text.startswith('{"id":"e-0","subject":"/orders/17","eventType":')


def test_events_keep_their_order():
    events = read_grid(body_of([members(id=str(i)) for i in range(5000)]))

    assert [event.members["id"] for event in events] == [str(i) for i in range(5000)]


@pytest.mark.parametrize("content_type", ["", "text/plain", "application/json; charset=utf-8"])
def test_a_single_event_is_taken_whatever_the_content_type(content_type):
    (event,) = read_grid(body_of(members(subject="")), **{"content-type": content_type})

    assert (event.subject, event.event_type) == ("", "Shop.OrderPlaced")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        pytest.param([], _expected("StartObject", "EndArray"), id="no event"),
        pytest.param("a", _expected("StartArray", "String"), id="a string"),
        pytest.param(None, _expected("StartArray", "Null"), id="null"),
        pytest.param([[]], _expected("StartObject", "StartArray"), id="array in the array"),
        pytest.param([members(), 1], _expected("StartObject", "Integer"), id="an integer"),
        pytest.param([1.5], _expected("StartObject", "Float"), id="a float"),
        pytest.param([True], _expected("StartObject", "Boolean"), id="a boolean"),
        pytest.param(
            [members()] * 5001,
            "The request has 5001 events. The maximum number (5000) has been exceeded.",
            id="5001 events",
        ),
        pytest.param([{}], _required("subject"), id="nothing at all"),
        pytest.param([{"subject": ""}], _required("id"), id="then id"),
        pytest.param([{"subject": "", "id": "1"}], _required("eventType"), id="then eventType"),
        pytest.param([members(eventTime=...)], _required("eventTime"), id="then eventTime"),
        pytest.param([members(id="")], _required("id"), id="empty id"),
        pytest.param([members(eventType="")], _required("eventType"), id="empty eventType"),
        pytest.param([members(eventTime="")], _required("eventTime"), id="empty eventTime"),
        pytest.param([members(subject=None)], _required("subject"), id="null subject"),
        pytest.param([members(), members(id=...)], _required("id"), id="in the second event"),
        pytest.param([members(a=1, b=2)], _unexpected("a"), id="first unexpected property"),
        pytest.param([{"specversion": "1.0"}], _unexpected("specversion"), id="a CloudEvent"),
        pytest.param([members(ID="1")], _unexpected("ID"), id="another case"),
        pytest.param(
            [members(**{"x" * 1000: 1})], _unexpected("x" * 256 + "…"), id="a long name is clipped"
        ),
        pytest.param(
            [members(id=1)], f"{_CONFIGURED} and requires 'id' property to be a string.", id="id"
        ),
        pytest.param(
            [members(subject=[])],
            f"{_CONFIGURED} and requires 'subject' property to be a string.",
            id="subject is an array",
        ),
        pytest.param(
            [members(dataVersion=1)],
            f"{_CONFIGURED} and requires 'dataVersion' property to be a string.",
            id="dataVersion is a number",
        ),
        pytest.param(
            [members(topic={})],
            f"{_CONFIGURED} and requires 'topic' property to be a string.",
            id="topic is an object",
        ),
        pytest.param(
            [members(metadataVersion="2")],
            f"{_CONFIGURED} and requires 'metadataVersion' property to be absent or '1'.",
            id="metadataVersion",
        ),
        pytest.param(
            [members(eventTime="yesterday")], f"{_CONFIGURED} and requires {_ISO}", id="no time"
        ),
        pytest.param(
            [members(topic="/x"), members(id=...)], _required("id"), id="fields before the topic"
        ),
    ],
)
def test_what_does_not_conform_is_refused(value, message):
    assert refusal(read_grid, body_of(value)) == bad_json(message)


@pytest.mark.parametrize("topic", ["/x", "", TOPIC_ID.upper(), f"{TOPIC_ID}/"])
def test_the_name_of_another_topic_is_not_authorized(topic):
    """401, not 400, as observed (contract §1.2)."""
    message = (
        f"The request is not authorized for the topic '{topic}'."
        f" The property 'topic' must be absent or '{TOPIC_ID}'."
    )

    assert refusal(read_grid, body_of([members(), members(topic=topic)])) == (
        401,
        "Unauthorized",
        "Unauthorized",
        message,
    )
