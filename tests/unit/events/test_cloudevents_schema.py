"""CloudEvents: structured, in batches, and in binary mode with attributes in headers."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from shared.events.topic import InputSchema
from tests.unit.events.publishing import (
    BATCH,
    STRUCTURED,
    bad_json,
    body_of,
    cloud_members,
    expected,
    read_cloud,
    refusal,
    requires,
    unexpected,
)

_expected = partial(expected, "CloudEventV10")
_requires = partial(requires, "CloudEventV10")
_unexpected = partial(unexpected, "CloudEventV10")
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
    lastdeliveryattempttime="2025-01-02T03:04:06Z",  # longer than the 20 characters advised
    **{"a1" * 100: 0.5},
)


@pytest.mark.parametrize(
    ("content_type", "is_batch"),
    [
        (BATCH, True),  # batch
        ("Application/CloudEvents-Batch+JSON", True),  # batch, any case
        (STRUCTURED, False),  # structured
        ('application/cloudevents+json ; Charset="UTF-8"', False),  # quoted charset
        ("application/json", False),  # plain
        ("application/json; x=1; charset=us-ascii", False),  # ASCII
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
        ({"subject": None, "tenant": None, "data_base64": None}, {}),  # attributes
        ({"data": None}, {"data": None}),  # data is a value
        ({"subject": "", "datacontenttype": "", "dataschema": ""}, {}),  # empty
        ({"tenant": ""}, {"tenant": ""}),  # an extension may be empty
    ],
)
def test_null_and_empty_attributes_are_removed(changes, left):
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
        (BATCH, [], _expected("StartObject", "EndArray")),  # no event
        (BATCH, {}, _expected("StartArray", "StartObject")),  # one in batch mode
        (BATCH, [1], _expected("StartObject", "Integer")),  # a number
        (STRUCTURED, [], _expected("StartObject", "StartArray")),  # many, structured
        ("application/json", [{}], _expected("StartObject", "StartArray")),  # many, plain
    ],
)
def test_the_shape_must_be_that_of_the_mode(content_type, value, message):
    assert refusal(read_cloud, body_of(value), content_type) == bad_json(message)


_EXTENSIONS = "Names of extensions have only small letters and digits."


def _misnamed(name: str, right: str) -> str:
    return f"{_unexpected(name)} CloudEvents calls it '{right}'."


def _refused() -> list[tuple[dict[str, Any], str]]:
    changes: dict[str, list[dict[str, Any]]] = {
        _requires("id", "to be set"): [{"id": ...}, {"id": ""}],
        _requires("source", "to be set"): [{"source": ...}],
        _requires("eventType", "to be set"): [{"type": ...}, {"type": None}],
        _requires("specversion", "to be set"): [{"specversion": ...}],
        _requires("id", "to be a string"): [{"id": 0}, {"id": []}],
        _requires("eventType", "to be a string"): [{"type": False}],
        _requires("subject", "to be a string"): [{"subject": {}}],
        _requires("specversion", "to be '1.0'"): [{"specversion": "0.3"}],
        _requires("time", "to be a date and time in RFC 3339 form"): [
            {"time": "2025-01-02T03:04:05"}
        ],
        _requires("data_base64", "to be absent where 'data' is present"): [
            {"data": None, "data_base64": "AP8="}
        ],
        _requires("data_base64", "to be base64"): [
            {"data_base64": text} for text in ("AP8", "AP\n8=", "AP8=é")
        ],
        _requires("data_base64", "to be a string"): [{"data_base64": 1}],
        _requires("tenant", "to be a string, a number or a boolean"): [{"tenant": {}}],
        f"{_unexpected('tenantId')} {_EXTENSIONS}": [{"tenantId": "a"}],
        f"{_unexpected('a-b')} {_EXTENSIONS}": [{"a-b": 1, "c-d": 1}],
        f"{_unexpected('')} {_EXTENSIONS}": [{"": 1}],
    }
    return [
        ({}, _requires("id", "to be set")),
        ({"eventType": "a", "id": "1"}, _misnamed("eventType", "type")),
        ({"eventTime": "a", "id": "1"}, _misnamed("eventTime", "time")),
        *((cloud_members(**each), text) for text, rows in changes.items() for each in rows),
    ]


@pytest.mark.parametrize(("event", "message"), _refused())
def test_an_event_that_does_not_conform_is_refused(event, message):
    assert refusal(read_cloud, body_of([cloud_members(), event])) == bad_json(message)


_ATTRIBUTE_NAMES = [
    *("specversion", "id", "source", "type", "time", "subject", "datacontenttype", "dataschema"),
    *("data", "data_base64"),
]


@pytest.mark.parametrize("content_type", [BATCH, STRUCTURED, "application/json"])
@pytest.mark.parametrize("name", _ATTRIBUTE_NAMES)
@pytest.mark.parametrize(
    "spelling",
    [str.upper, str.capitalize, lambda name: f"{name[:2]}-{name[2:]}"],
    ids=["upper", "capitalized", "hyphen"],
)
def test_the_refusal_of_a_name_tells_the_right_one(content_type, name, spelling):
    """CloudEvents v1.0.2, 3.1: names have small letters; beside the right one as well."""
    for event in (cloud_members(**{name: ...}), cloud_members()):
        event[spelling(name)] = "1.0"
        body = body_of([event] if content_type == BATCH else event)

        assert refusal(read_cloud, body, content_type) == bad_json(_misnamed(spelling(name), name))


# --- binary mode: attributes in headers, the body as it is


_ATTRIBUTES = {f"ce_{name}": value for name, value in cloud_members().items()}


@pytest.mark.parametrize(
    ("content_type", "body", "members"),
    [
        ("application/json", b'{"a":1}', {"data": {"a": 1}}),
        ("Application/Vnd.Shop+JSON; v=2", b"1", {"data": 1}),
        ("text/json; charset=utf-8", b'"a"', {"data": "a"}),
        ("text/plain", "Zoë\n".encode(), {"data": "Zoë\n"}),
        ("text/plain", "Zoë".encode("latin-1"), {"data_base64": "Wm/r"}),  # not UTF-8 after all
        ("text/plain; charset=latin-1", b"Zoe", {"data_base64": "Wm9l"}),
        ("image/png", b"\x00\xff", {"data_base64": "AP8="}),
        ("", b"\x00\xff", {"data_base64": "AP8="}),
        ("application/json", b"", {}),
    ],
)
def test_the_body_becomes_data(content_type, body, members):
    (event,) = read_cloud(body, content_type, **_ATTRIBUTES)

    kind = {"datacontenttype": content_type} if content_type else {}
    assert event.members == cloud_members() | kind | members
    assert event.text.isascii()


@pytest.mark.parametrize(
    ("header", "subject"),
    [
        ("/orders/17", "/orders/17"),
        ("Zo%C3%AB%20%F0%9F%98%80", "Zoë 😀"),
        ("100% a+b", "100% a+b"),
        ('"a \\"b\\" \\\\"', 'a "b" \\'),
        ('"', '"'),
    ],
)
def test_attributes_are_decoded(header, subject):
    """Source: CloudEvents v1.0.2, HTTP protocol binding, 3.1.3.2."""
    (event,) = read_cloud(b"", "", **_ATTRIBUTES, ce_subject=header, ce_tenant="a")

    assert event.members == cloud_members(subject=subject, tenant="a")


_COMBINED = "The request has 'ce-' headers, which can't be combined with the Content-Type '{}'."
_NOT_SENT = "The header '{}' can't be sent in binary mode."
_ENCODING = "The header '{}' is not percent-encoded UTF-8."


@pytest.mark.parametrize(
    ("content_type", "headers", "message"),
    [
        (STRUCTURED, {}, _COMBINED.format("application/cloudevents+json")),
        (BATCH, {}, _COMBINED.format("application/cloudevents-batch+json")),
        ("text/plain", {"ce_datacontenttype": "a/b"}, _NOT_SENT.format("ce-datacontenttype")),
        ("text/plain", {"ce_data": "1"}, _NOT_SENT.format("ce-data")),
        ("text/plain", {"ce_subject": "%FF"}, _ENCODING.format("ce-subject")),
        ("text/plain", {"ce_subject": "\udc80"}, _ENCODING.format("ce-subject")),  # undecodable
        ("text/plain; \udc80", {}, _ENCODING.format("content-type")),
    ],
)
def test_bad_headers_are_refused(content_type, headers, message):
    found = refusal(read_cloud, b"a", content_type, **_ATTRIBUTES, **headers)

    assert found == (400, "BadRequest", "InvalidCloudEventHeader", message)


def test_attributes_in_headers_are_validated():
    assert refusal(read_cloud, b"", "text/plain", ce_id="1", ce_source="/shop") == bad_json(
        _requires("eventType", "to be set")
    )


@pytest.mark.parametrize("name", ["spec-version", "spec.version", "data-schema"])
def test_the_refusal_of_a_header_tells_the_right_name(name):
    """In another case it is the same header: HttpRequest has small letters."""
    right = name.replace("-", "").replace(".", "")

    assert refusal(read_cloud, b"", "", **_ATTRIBUTES, **{f"ce_{name}": "1.0"}) == bad_json(
        _misnamed(name, right)
    )


def test_data_with_a_json_content_type_must_be_json():
    assert refusal(read_cloud, b"[", "application/json", **_ATTRIBUTES) == bad_json(
        "Unexpected end when reading JSON."
    )
