"""CloudEvents in JSON: which content types mean what, and what an event must have."""

from __future__ import annotations

import json

import pytest

from shared.events.topic import InputSchema
from tests.unit.events.publishing import (
    BATCH,
    CONFIGURED,
    RECEIVES,
    STRUCTURED,
    bad_json,
    body_of,
    cloud_members,
    read_cloud,
    refusal,
)

_CONFIGURED = CONFIGURED.format("CloudEventV10")
_MEDIA = (
    "The Content-Type header is either missing or it doesn't have a valid value. The content type"
    " header must either be application/cloudevents+json; charset=utf-8 or"
    " application/cloudevents-batch+json; charset=UTF-8."
)
_EVERYTHING = cloud_members(
    time="2025-01-02T03:04:05.678901-08:00",
    subject="/orders/17",
    datacontenttype="application/json",
    dataschema="https://shop.example/order",
    data={"total": 12.5, "count": 2**60, "name": "Zoë 😀"},
    tenant="a",
    partition=3,
    urgent=True,
    a2345678901234567890=0.5,
)


def _requires(name: str, what: str) -> str:
    return f"{_CONFIGURED} and requires '{name}' property {what}."


def _unexpected(name: str) -> str:
    return (
        f"{_CONFIGURED}. Received unexpected property '{name}' in JSON which does not conform to"
        " the expected schema."
    )


def _expected(expected: str, actual: str) -> str:
    received = RECEIVES.format("CloudEventV10")
    return f"{received} Token Expected: {expected}, Actual Token Received: {actual}."


@pytest.mark.parametrize(
    ("content_type", "is_batch"),
    [
        pytest.param(BATCH, True, id="batch"),
        pytest.param("Application/CloudEvents-Batch+JSON", True, id="batch, any case"),
        pytest.param(STRUCTURED, False, id="structured"),
        pytest.param('application/cloudevents+json ; Charset="UTF-8"', False, id="quoted charset"),
        pytest.param("application/json", False, id="plain"),
        pytest.param("application/json; x=1; charset=us-ascii", False, id="ASCII"),
    ],
)
def test_events_are_read_unchanged(content_type, is_batch):
    body = body_of([_EVERYTHING] if is_batch else _EVERYTHING)

    (event,) = read_cloud(body, content_type)

    assert event.schema is InputSchema.CLOUD_EVENTS
    assert event.members == json.loads(event.text) == _EVERYTHING
    assert event.text.isascii()
    assert (event.subject, event.event_type) == ("/orders/17", "Shop.OrderPlaced")


@pytest.mark.parametrize(
    ("changes", "left"),
    [
        pytest.param({"subject": None, "tenant": None, "data_base64": None}, {}, id="attributes"),
        pytest.param({"data": None}, {"data": None}, id="data is a value"),
        pytest.param({"subject": "", "datacontenttype": "", "dataschema": ""}, {}, id="empty"),
        pytest.param({"tenant": ""}, {"tenant": ""}, id="an extension may be empty"),
    ],
)
def test_what_means_absent_is_left_out(changes, left):
    """Source: CloudEvents v1.0.2, JSON format, 2.3, for null; 3.1, what can't be empty."""
    (event,) = read_cloud(body_of([cloud_members(**changes)]))

    assert json.loads(event.text) == cloud_members() | left
    assert event.subject == ""


@pytest.mark.parametrize(
    "content_type",
    ["", "text/plain", "application/cloudevents", "application/json; charset=utf-16", ";", "x"],
)
def test_other_content_types_are_refused(content_type):
    assert refusal(read_cloud, body_of([cloud_members()]), content_type) == (
        415,
        "UnsupportedMediaType",
        "InvalidContentType",
        _MEDIA,
    )


@pytest.mark.parametrize(
    ("content_type", "value", "message"),
    [
        pytest.param(BATCH, [], _expected("StartObject", "EndArray"), id="no event"),
        pytest.param(BATCH, {}, _expected("StartArray", "StartObject"), id="one in batch mode"),
        pytest.param(BATCH, [1], _expected("StartObject", "Integer"), id="a number"),
        pytest.param(STRUCTURED, [], _expected("StartObject", "StartArray"), id="many, structured"),
        pytest.param(
            "application/json", [{}], _expected("StartObject", "StartArray"), id="many, plain"
        ),
    ],
)
def test_the_shape_must_be_that_of_the_mode(content_type, value, message):
    assert refusal(read_cloud, body_of(value), content_type) == bad_json(message)


@pytest.mark.parametrize(
    ("event", "message"),
    [
        pytest.param({}, _requires("id", "to be set"), id="nothing at all"),
        pytest.param(cloud_members(source=...), _requires("source", "to be set"), id="no source"),
        pytest.param(cloud_members(type=...), _requires("eventType", "to be set"), id="no type"),
        pytest.param(
            cloud_members(specversion=...), _requires("specversion", "to be set"), id="no version"
        ),
        pytest.param(cloud_members(id=""), _requires("id", "to be set"), id="empty id"),
        pytest.param(cloud_members(type=None), _requires("eventType", "to be set"), id="null type"),
        pytest.param(cloud_members(id=0), _requires("id", "to be a string"), id="id is a number"),
        pytest.param(cloud_members(id=[]), _requires("id", "to be a string"), id="id is an array"),
        pytest.param(
            cloud_members(type=False), _requires("eventType", "to be a string"), id="type is false"
        ),
        pytest.param(
            cloud_members(subject={}), _requires("subject", "to be a string"), id="subject"
        ),
        pytest.param(
            cloud_members(specversion="0.3"),
            _requires("specversion", "to be '1.0'"),
            id="another version",
        ),
        pytest.param(
            cloud_members(time="2025-01-02T03:04:05"),
            _requires("time", "to be a date and time in RFC 3339 form"),
            id="time without offset",
        ),
        pytest.param(
            cloud_members(data=None, data_base64="AP8="),
            _requires("data_base64", "to be absent where 'data' is present"),
            id="data twice",
        ),
        pytest.param(
            cloud_members(data_base64="AP8"), _requires("data_base64", "to be base64"), id="padding"
        ),
        pytest.param(
            cloud_members(data_base64="AP\n8="),
            _requires("data_base64", "to be base64"),
            id="line feed in base64",
        ),
        pytest.param(
            cloud_members(data_base64="AP8=é"), _requires("data_base64", "to be base64"), id="ASCII"
        ),
        pytest.param(
            cloud_members(data_base64=1), _requires("data_base64", "to be a string"), id="base64"
        ),
        pytest.param(cloud_members(tenantId="a"), _unexpected("tenantId"), id="capital in a name"),
        pytest.param(cloud_members(**{"a-b": 1, "c-d": 1}), _unexpected("a-b"), id="hyphen"),
        pytest.param(cloud_members(**{"": 1}), _unexpected(""), id="no name"),
        pytest.param(cloud_members(**{"a" * 21: 1}), _unexpected("a" * 21), id="21 characters"),
        pytest.param(
            cloud_members(tenant={}),
            _requires("tenant", "to be a string, a number or a boolean"),
            id="an object as extension",
        ),
        pytest.param(
            {"eventType": "a", "id": "1"}, _unexpected("eventType"), id="an event of Event Grid"
        ),
    ],
)
def test_what_does_not_conform_is_refused(event, message):
    assert refusal(read_cloud, body_of([cloud_members(), event])) == bad_json(message)
