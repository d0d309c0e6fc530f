"""Event Grid's schema: what it requires, in which order, and what is added."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial

import pytest

from shared.events.topic import InputSchema
from tests.builders import TOPIC_ID
from tests.unit.events.publishing import (
    bad_json,
    body_of,
    expected,
    members,
    read_grid,
    refusal,
    requires,
    unexpected,
)

_expected = partial(expected, "EventGridEvent")
_needs = partial(requires, "EventGridEvent")
_unexpected = partial(unexpected, "EventGridEvent")
_NO_TEXTS: tuple[object, ...] = (True, {}, [], ["1"])
_NO_CLOUD_EVENTS = "The topic takes Event Grid's schema, not CloudEvents."
_ONCE = "to be set once, in one spelling"
_STAMPS = {"topic": TOPIC_ID, "dataVersion": "", "metadataVersion": "1"}


@pytest.mark.parametrize(
    ("changes", "stamped"),
    [
        ({}, _STAMPS),  # everything
        ({"topic": TOPIC_ID, "dataVersion": "2", "metadataVersion": "1"}, {"dataVersion": "2"}),
        ({"topic": None, "dataVersion": None, "metadataVersion": None}, _STAMPS),  # nulls
        ({"topic": "", "dataVersion": "", "metadataVersion": ""}, _STAMPS),  # empty
    ],
)
def test_missing_and_empty_members_are_added(changes, stamped):
    """Source: Event Grid "Event schema"."""
    (event,) = read_grid(body_of([members(**changes)]))

    assert event.schema is InputSchema.EVENT_GRID
    assert event.members == members(**changes) | stamped
    assert json.loads(event.text) == event.members


@pytest.mark.parametrize(
    "data", [..., None, "plain", "", 0, False, [], {"a": {"b": [1.5, 10**30]}}], ids=repr
)
def test_data_can_be_any_value(data):
    (event,) = read_grid(body_of([members(data=data)]))

    assert json.loads(event.text) == members(data=data) | _STAMPS


def test_text_is_one_line_of_ascii():
    (event,) = read_grid(json.dumps([members(data="Zoë\n😀")], indent=2).encode())

    assert event.text.isascii()
    assert event.text.isprintable()
    assert event.text.startswith('{"id":"e-0","subject":"/orders/17","eventType":')


_FULL = members(topic=TOPIC_ID, dataVersion="2", metadataVersion="1", data={"ID": 1, "id": 1.5})


@pytest.mark.parametrize("name", _FULL)
@pytest.mark.parametrize("spell", [str.lower, str.upper, str.capitalize, str.swapcase])
def test_a_name_is_taken_in_any_case(name: str, spell: Callable[[str], str]) -> None:
    """Under the documented name it is filtered and delivered; names in the data stay."""
    published = {spell(each) if each == name else each: value for each, value in _FULL.items()}

    assert read_grid(body_of([published])) == read_grid(body_of([_FULL]))


_UNSET = {"topic": "", "dataVersion": "", "metadataVersion": "1"}  # as that SDK sends what is unset


@pytest.mark.parametrize(
    "published",
    [
        {name.lower(): value for name, value in members(**_UNSET).items()},
        {"ID" if name == "id" else name[0].upper() + name[1:]: v for name, v in members().items()},
    ],
    ids=["Microsoft's ABAP SDK", "properties of .NET"],
)
def test_all_names_are_taken_in_another_case(published):
    (event,) = read_grid(body_of([published]))

    assert event.members == json.loads(event.text) == members() | _STAMPS


@pytest.mark.parametrize("name", ["id", "subject", "eventType", "dataVersion"])
@pytest.mark.parametrize(
    "literal", ["48213", "0", "-0", "1.10", "1E2", "1e-7", "12345678901234567890"]
)
def test_a_number_becomes_text_as_it_is_spelt(name: str, literal: str) -> None:
    body = body_of([members(**{name: "?"})]).replace(b'"?"', literal.encode())

    (event,) = read_grid(body)

    assert event.members == members(**{name: literal}) | (_STAMPS | {name: literal})
    assert json.loads(event.text) == event.members


def test_the_version_of_the_metadata_may_be_a_number() -> None:
    (event,) = read_grid(body_of([members(MetadataVersion=1)]))

    assert event.members == members() | _STAMPS


def test_5000_events_keep_their_order_and_one_more_is_refused():
    published = [members(id=str(i)) for i in range(5001)]
    events = read_grid(body_of(published[:5000]))

    assert [event.members["id"] for event in events] == [str(i) for i in range(5000)]
    assert refusal(read_grid, body_of(published)) == bad_json(
        "The request has 5001 events. The maximum number (5000) has been exceeded."
    )


@pytest.mark.parametrize("content_type", ["", "text/plain", "application/json; charset=utf-8"])
def test_a_single_event_is_accepted_with_any_content_type(content_type):
    (event,) = read_grid(body_of(members(subject="")), **{"content-type": content_type})

    assert (event.subject, event.event_type) == ("", "Shop.OrderPlaced")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], _expected("StartObject", "EndArray")),
        ("a", _expected("StartArray", "String")),
        (None, _expected("StartArray", "Null")),
        ([[]], _expected("StartObject", "StartArray")),
        ([members(), 1], _expected("StartObject", "Integer")),
        ([1.5], _expected("StartObject", "Float")),
        ([True], _expected("StartObject", "Boolean")),
        ([{}], _needs("subject", "to be set")),  # members are missed in this order
        ([{"subject": ""}], _needs("id", "to be set")),
        ([{"subject": "", "id": "1"}], _needs("eventType", "to be set")),
        ([members(eventTime=...)], _needs("eventTime", "to be set")),
        ([members(id="")], _needs("id", "to be set")),
        ([members(subject=None)], _needs("subject", "to be set")),
        ([members(), members(id=...)], _needs("id", "to be set")),
        ([members(topic="/x"), members(id=...)], _needs("id", "to be set")),  # before the topic
        *(
            ([members(**{name: value})], _needs(name, "to be a string"))
            for name in ("id", "subject", "eventType", "eventTime", "dataVersion", "topic")
            for value in _NO_TEXTS
        ),
        ([members(metadataVersion=False)], _needs("metadataVersion", "to be a string")),
        ([members(metadataVersion="2")], _needs("metadataVersion", "to be absent or '1'")),
        ([members(metadataVersion=1.0)], _needs("metadataVersion", "to be absent or '1'")),
        ([members(eventTime=5)], _needs("eventTime", "to be a date and time in ISO 8601 form")),
        ([members(eventTime="now")], _needs("eventTime", "to be a date and time in ISO 8601 form")),
        ([members(a=1, b=2)], _unexpected("a")),
        ([{"specversion": "1.0"}], f"{_unexpected('specversion')} {_NO_CLOUD_EVENTS}"),
        (
            [{"source": "/a", "id": "1", "specversion": "1.0"}],
            f"{_unexpected('source')} {_NO_CLOUD_EVENTS}",
        ),
        (
            [{"Eventtyp": "a"}],
            f"{_unexpected('Eventtyp')} Event Grid's schema calls it 'eventType'.",
        ),
        ([{"subjct": "a"}], f"{_unexpected('subjct')} Event Grid's schema calls it 'subject'."),
        ([{"ID": "1", "Tenant": 1}], _unexpected("Tenant")),
        ([members() | {"": 1}], _unexpected("")),
        ([{"deadLetterReason": "x"} | members()], _unexpected("deadLetterReason")),  # a dead letter
        ([members(ID="1")], _needs("id", _ONCE)),
        ([members(ID=None)], _needs("id", _ONCE)),
        ([members(EVENTTYPE="Shop.OrderPlaced")], _needs("eventType", _ONCE)),
        ([members(data=..., Data={}, DATA={})], _needs("data", _ONCE)),
        ([members(**{"x" * 1000: 1})], _unexpected("x" * 511 + "…")),
    ],
)
def test_an_event_that_does_not_conform_is_refused(value, message):
    assert refusal(read_grid, body_of(value)) == bad_json(message)


@pytest.mark.parametrize("name", ["topic", "Topic"])
@pytest.mark.parametrize("topic", ["/x", " ", TOPIC_ID.upper(), f"{TOPIC_ID}/", 5])
def test_an_event_for_another_topic_is_not_authorized(topic, name):
    """401, not 400, as observed (contract §1.2)."""
    message = (
        f"The request is not authorized for the topic '{topic}'."
        f" The property 'topic' must be absent or '{TOPIC_ID}'."
    )

    assert refusal(read_grid, body_of([members(), members(**{name: topic})])) == (
        401,
        "Unauthorized",
        "Unauthorized",
        message,
    )
