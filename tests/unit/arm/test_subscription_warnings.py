"""What stays accepted in an event subscription, but hardly matches: contract §5.7."""

from __future__ import annotations

from typing import Any

import pytest

from shared.arm.subscription_warnings import MAX_WARNINGS, subscription_warnings
from tests.unit.arm.documents import subscription

CLOUD = "CloudEventSchemaV1_0"


def warnings(filter: dict[str, Any], schema: str = "EventGridSchema") -> list[str]:  # noqa: A002
    return subscription_warnings({**subscription(filter=filter), "inputSchema": schema})


def of_key(key: str, schema: str = "EventGridSchema") -> list[str]:
    advanced = [{"operatorType": "IsNotNull", "key": key}]
    document = subscription()
    properties = {**document["properties"], "filter": {**document["properties"]["filter"]}}
    properties["filter"]["advancedFilters"] = advanced
    return subscription_warnings({**document, "properties": properties, "inputSchema": schema})


@pytest.mark.parametrize(
    ("filter_", "wrong", "right"),
    [
        ({"includedEventTypes": ["a", " Shop.X"]}, "' Shop.X', with a blank", "write 'Shop.X'."),
        ({"includedEventTypes": ["Shop.X\u00a0"]}, "with a blank", "write 'Shop.X'."),
        ({"includedEventTypes": ["a", ""]}, "an empty text, which no event has", "leave it out."),
        ({"includedEventTypes": ["Shop.*"]}, "'Shop.*', but there are no wild", "type in full."),
        ({"subjectBeginsWith": " /a"}, "subjectBeginsWith has ' /a'", "write '/a'."),
        ({"subjectBeginsWith": "/a/*"}, "'/a/*', but there are no wildcards", "write '/a/'."),
        ({"subjectEndsWith": ".jpg "}, "subjectEndsWith has '.jpg '", "write '.jpg'."),
        ({"subjectEndsWith": "*.jpg"}, "'*.jpg', but there are no wildcards", "write '.jpg'."),
    ],
)
def test_a_filter_that_hardly_matches_is_warned_of(
    filter_: dict[str, Any], wrong: str, right: str
) -> None:
    (warning,) = warnings(filter_)

    assert wrong in warning
    assert warning.endswith(right)


@pytest.mark.parametrize(
    ("key", "wrong", "right"),
    [
        ("eventtype", "The key 'eventtype' is an extension", "write 'type'."),
        ("eventTime", "The key 'eventTime' is an extension", "write 'time'."),
        ("eventId", "is an extension", "write 'id'."),
        ("topic", "is an extension", "write 'source'."),
        ("dataVersion", "is an extension", "write 'dataschema'."),
        ("my_kind", "'my_kind' can't be in a CloudEvent", "in data, 'data.NAME'."),
        (" type", "' type' can't be in a CloudEvent", "in data, 'data.NAME'."),
        (
            "data['total'] > 10",
            "names of attributes have only letters and digits. Write the attribute's name alone",
            "or, for a value in data, 'data.NAME'.",
        ),
    ],
)
def test_a_key_that_hardly_any_cloud_event_has_is_warned_of(
    key: str, wrong: str, right: str
) -> None:
    (warning,) = of_key(key, CLOUD)

    assert wrong in warning
    assert warning.endswith(right)


@pytest.mark.parametrize("schema", ["EventGridSchema", CLOUD, "CustomEventSchema"])
@pytest.mark.parametrize(
    "key",
    [
        "data.claims.http://schemas.xmlsoap.org/ws/2005/05/identity/claims/name",
        "data.@odata.type",
        "data['a.b']",
        "data.['a.b']",
        'data."a.b"',
        r"data.a\.b",
        "data.items[0].sku",
    ],
)
def test_a_key_with_a_name_that_has_dots_is_warned_of(key: str, schema: str) -> None:
    *_, warning = of_key(key, schema)

    assert key in warning
    assert "full stop" in warning


@pytest.mark.parametrize("key", ["data.kind ", "data. kind", "Data.kind\t.x"])
def test_a_key_with_a_blank_around_a_name_is_warned_of(key: str) -> None:
    (warning,) = of_key(key)

    assert f"write '{'.'.join(each.strip() for each in key.split('.'))}'." in warning


@pytest.mark.parametrize(
    ("key", "schema"),
    [
        *((key, CLOUD) for key in ("type", "time", "Source", "comExample2", "data_base64", "data")),
        *((key, CLOUD) for key in ("data.eventtype", "data.my_kind", "DATA.my-kind")),
        *((key, "EventGridSchema") for key in ("eventtype", "topic", "dataVersion", "data.a.b")),
        *((key, "EventGridSchema") for key in ("data.two words", "data.$type", "data.a/b")),
    ],
)
def test_a_key_that_events_have_is_not_warned_of(key: str, schema: str) -> None:
    assert of_key(key, schema) == []


def test_a_filter_that_events_match_is_not_warned_of() -> None:
    filter_ = {
        "subjectBeginsWith": "/a b/* ",
        "subjectEndsWith": " *c",
        "includedEventTypes": ["a"],
    }

    assert warnings(filter_) == warnings({}) == []


def test_a_header_s_source_is_warned_of_as_a_key_is() -> None:
    header = {"name": "x", "type": "Dynamic", "properties": {"sourceField": "data.@odata.type"}}
    document = subscription(
        destination={
            "endpointType": "WebHook",
            "properties": {"endpointUrl": "https://a.test/", "deliveryAttributeMappings": [header]},
        }
    )

    (warning,) = subscription_warnings(document)

    assert "data.@odata.type" in warning


def test_warnings_are_bounded() -> None:
    found = warnings({"includedEventTypes": [" a" * 1000] * 1000, "subjectBeginsWith": " /a"})

    assert len(found) == MAX_WARNINGS
    assert max(map(len, found)) < 512
