"""CloudEvents in binary mode: attributes in headers, the body as it is."""

from __future__ import annotations

import pytest

from tests.unit.events.publishing import (
    BATCH,
    CONFIGURED,
    STRUCTURED,
    bad_json,
    cloud_members,
    read_cloud,
    refusal,
)

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
        f"{CONFIGURED.format('CloudEventV10')} and requires 'eventType' property to be set."
    )


def test_data_with_a_json_content_type_must_be_json():
    assert refusal(read_cloud, b"[", "application/json", **_ATTRIBUTES) == bad_json(
        "Unexpected end when reading JSON."
    )
