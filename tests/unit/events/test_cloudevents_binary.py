"""CloudEvents in binary mode: attributes in headers, the body as it is."""

from __future__ import annotations

from base64 import b64encode

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
_LATIN = "Zoë".encode("latin-1")


@pytest.mark.parametrize(
    ("content_type", "body", "members"),
    [
        pytest.param("application/json", b'{"a":1}', {"data": {"a": 1}}, id="JSON"),
        pytest.param("Application/Vnd.Shop+JSON; v=2", b"1", {"data": 1}, id="a kind of JSON"),
        pytest.param("text/json; charset=utf-8", b'"a"', {"data": "a"}, id="JSON as text"),
        pytest.param("text/plain", "Zoë\n".encode(), {"data": "Zoë\n"}, id="text"),
        pytest.param(
            "text/plain", _LATIN, {"data_base64": b64encode(_LATIN).decode()}, id="not UTF-8"
        ),
        pytest.param(
            "text/plain; charset=latin-1",
            b"Zoe",
            {"data_base64": b64encode(b"Zoe").decode()},
            id="another charset",
        ),
        pytest.param("image/png", b"\x00\xff", {"data_base64": "AP8="}, id="bytes"),
        pytest.param("", b"\x00\xff", {"data_base64": "AP8="}, id="no content type"),
        pytest.param("application/json", b"", {}, id="no data"),
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
        pytest.param("/orders/17", "/orders/17", id="plain"),
        pytest.param("Zo%C3%AB%20%F0%9F%98%80", "Zoë 😀", id="percent-encoded"),
        pytest.param("100% a+b", "100% a+b", id="a percent sign, a plus"),
        pytest.param('"a \\"b\\" \\\\"', 'a "b" \\', id="quoted"),
        pytest.param('"', '"', id="one quote"),
    ],
)
def test_attributes_are_decoded(header, subject):
    """Source: CloudEvents v1.0.2, HTTP protocol binding, 3.1.3.2."""
    (event,) = read_cloud(b"", "", **_ATTRIBUTES, ce_subject=header, ce_tenant="a")

    assert event.members == cloud_members(subject=subject, tenant="a")


@pytest.mark.parametrize(
    ("content_type", "headers", "message"),
    [
        pytest.param(
            STRUCTURED,
            {},
            "The request has 'ce-' headers, which can't be combined with the Content-Type"
            " 'application/cloudevents+json'.",
            id="structured",
        ),
        pytest.param(
            BATCH,
            {},
            "The request has 'ce-' headers, which can't be combined with the Content-Type"
            " 'application/cloudevents-batch+json'.",
            id="batch",
        ),
        pytest.param(
            "text/plain",
            {"ce_datacontenttype": "text/plain"},
            "The header 'ce-datacontenttype' can't be sent in binary mode.",
            id="content type twice",
        ),
        pytest.param(
            "text/plain",
            {"ce_data": "1"},
            "The header 'ce-data' can't be sent in binary mode.",
            id="data in a header",
        ),
        pytest.param(
            "text/plain",
            {"ce_subject": "%FF"},
            "The header 'ce-subject' is not percent-encoded UTF-8.",
            id="no UTF-8",
        ),
        pytest.param(
            "text/plain",
            {"ce_subject": "\udc80"},
            "The header 'ce-subject' is not percent-encoded UTF-8.",
            id="a byte that the server couldn't decode",
        ),
        pytest.param(
            "text/plain; \udc80",
            {},
            "The header 'content-type' is not percent-encoded UTF-8.",
            id="such a content type",
        ),
    ],
)
def test_headers_that_make_no_sense_are_refused(content_type, headers, message):
    assert refusal(read_cloud, b"a", content_type, **_ATTRIBUTES, **headers) == (
        400,
        "BadRequest",
        "InvalidCloudEventHeader",
        message,
    )


def test_binary_events_must_conform_too():
    assert refusal(read_cloud, b"", "text/plain", ce_id="1", ce_source="/shop") == bad_json(
        f"{CONFIGURED.format('CloudEventV10')} and requires 'eventType' property to be set."
    )


def test_data_that_claims_to_be_json_must_be():
    assert refusal(read_cloud, b"[", "application/json", **_ATTRIBUTES) == bad_json(
        "Unexpected end when reading JSON."
    )
