"""Custom delivery headers: contract §2.5, and §5.5 for how they are shown."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shared.arm.subscription_codec import to_subscription
from shared.arm.topic_subscription_codec import render_subscription
from shared.errors import InvalidDocument
from shared.subscriptions.subscription import DynamicHeader, StaticHeader
from tests.unit.arm.documents import (
    LATEST,
    only_fault,
    subscription,
    targets,
    topic,
    webhook,
)

MAPPINGS = "properties.destination.properties.deliveryAttributeMappings"


def static(name: Any = "x-team", value: Any = "crm", **properties: Any) -> dict[str, Any]:
    return {"name": name, "type": "Static", "properties": {"value": value, **properties}}


def dynamic(name: str = "x-kind", path: Any = "data.kind") -> dict[str, Any]:
    return {"name": name, "type": "Dynamic", "properties": {"sourceField": path}}


def with_mappings(*mappings: Any) -> dict[str, Any]:
    return subscription(destination=webhook(deliveryAttributeMappings=list(mappings)))


def fault(*mappings: Any) -> tuple[str | None, str]:
    with pytest.raises(InvalidDocument) as caught:
        with_mappings(*mappings)
    found = only_fault(caught.value)
    return found.target, found.message


def test_the_data_plane_sees_every_header() -> None:
    stored = with_mappings(
        static(), static("Authorization", "Bearer s3cret", isSecret=True), dynamic(path="data.A.b")
    )

    assert to_subscription(stored).headers == (
        StaticHeader(name="x-team", value="crm"),
        StaticHeader(name="Authorization", value="Bearer s3cret", is_secret=True),
        DynamicHeader(name="x-kind", path=("data", "A", "b")),
    )


def test_a_secret_is_never_shown() -> None:
    stored = with_mappings(static(), static("x-key", "s3cret", isSecret=True), dynamic())

    answer = render_subscription(stored, LATEST)

    assert answer["properties"]["destination"]["properties"]["deliveryAttributeMappings"] == [
        static(isSecret=False),
        static("x-key", "Hidden", isSecret=True),
        dynamic(),
    ]
    assert "s3cret" not in json.dumps(answer) + repr(to_subscription(stored))


@pytest.mark.parametrize("none", [None, []])
def test_no_header_is_no_member(none: object) -> None:
    stored = subscription(destination=webhook(deliveryAttributeMappings=none))

    assert stored == subscription()
    assert to_subscription(stored).headers == ()


def test_types_are_taken_whatever_their_case() -> None:
    stored = with_mappings(static() | {"type": "static"}, dynamic() | {"type": "DYNAMIC"})

    assert stored == with_mappings(static(), dynamic())


@pytest.mark.parametrize(
    "name",
    [
        *("aeg-event-type", "AEG-x", "WebHook-Request-Origin", "webhook-x", "Host", "host"),
        *("Content-Type", "content-length", "Content-Encoding", "Connection", "Keep-Alive"),
        *("ce-id", "CE-x", "Accept-Encoding", "Date", "Via", "Forwarded"),
        *("Proxy-Authorization", "TE", "Trailer", "Transfer-Encoding", "Upgrade", "Expect"),
        *("Metadata", "metadata-flavor", "X-IDENTITY-HEADER", "X-Aws-Ec2-Metadata-Token"),
        *("User-Agent", "Cookie", "X-MS-CLIENT-PRINCIPAL", "x-ms-client-principal-id"),
        *("X-MS-TOKEN-AAD-ACCESS-TOKEN", "X-Forwarded-For", "x-forwarded-proto"),
        *("", " x", "x y", "x:", "x\r\ny", "h\u00e4", "(x)", "x\x00", "x" * 257),
    ],
    ids=ascii,
)
def test_an_illegal_name_is_refused(name: str) -> None:
    assert fault(static(name))[0] == f"{MAPPINGS}[0].name"


@pytest.mark.parametrize(
    "name",
    [
        "Authorization",
        "x",
        "X-1_!",
        "hosts",
        "tee",
        "x" * 256,
        "aegis",
        "cell",
        "dates",
        "cookies",
        "x-ms-id",
        "metadata-id",
    ],
)
def test_a_legal_name_is_accepted(name: str) -> None:
    assert to_subscription(with_mappings(dynamic(name))).headers[0].name == name


@pytest.mark.parametrize(
    "value", ["a\rb", "a\nb", "a\x00b", "gr\u00fcn", "\u20ac", "\x7f", "x" * 4097]
)
def test_a_value_that_no_header_can_hold_is_refused(value: str) -> None:
    target, message = fault(static(value=value))

    assert target == f"{MAPPINGS}[0].properties.value"
    assert value not in message  # it may be a secret


@pytest.mark.parametrize("value", [" ", " k3y", "k3y "])
def test_a_value_that_endpoints_would_trim_is_refused(value: str) -> None:
    target, message = fault(static(value=value))

    assert target == f"{MAPPINGS}[0].properties.value"
    assert "k3y" not in message


@pytest.mark.parametrize("value", ["", "a b", 'a, b;c="d"', "x" * 4096])
def test_a_value_that_a_header_can_hold_is_accepted(value: str) -> None:
    assert to_subscription(with_mappings(static(value=value))).headers == (
        StaticHeader(name="x-team", value=value),
    )


@pytest.mark.parametrize(
    "path", ["id", "Topic", "subject", "eventtype", "dataversion", "source", "data.a", "Data.a b.c"]
)
def test_a_path_into_the_event_is_accepted(path: str) -> None:
    assert to_subscription(with_mappings(dynamic(path=path))).headers == (
        DynamicHeader(name="x-kind", path=tuple(path.split("."))),
    )


@pytest.mark.parametrize(
    "path",
    ["", ".", "data.", "data..a", "subject.a", "a b", "$.data", ".id", "sbject", "kind", "Data2.a"],
)
def test_a_path_that_leads_nowhere_is_refused(path: str) -> None:
    assert fault(dynamic(path=path))[0] == f"{MAPPINGS}[0].properties.sourceField"


@pytest.mark.parametrize(
    ("path", "is_known"), [("kind", True), ("kind.a", False), ("data.a", True)]
)
def test_cloud_events_may_have_any_attribute(path: str, *, is_known: bool) -> None:
    of = topic(inputSchema="CloudEventSchemaV1_0")
    destination = webhook(deliveryAttributeMappings=[dynamic(path=path)])

    if is_known:
        subscription(of=of, destination=destination)
    else:
        with pytest.raises(InvalidDocument, match="an attribute of the event or data"):
            subscription(of=of, destination=destination)


def test_a_refused_name_is_told_with_the_reason() -> None:
    assert "cloud metadata endpoints" in fault(static("Metadata"))[1]
    assert "misrepresent the sender" in fault(static("User-Agent"))[1]


def test_ten_headers_are_accepted_and_one_more_is_not() -> None:
    assert len(to_subscription(with_mappings(*(static(f"x-{n}") for n in range(10)))).headers) == 10

    target, message = fault(*(static(f"x-{n}") for n in range(11)))
    assert (target, message) == (MAPPINGS, "There can be at most 10 custom delivery headers.")


def test_a_name_can_be_used_once() -> None:
    assert fault(static("x-team"), dynamic("X-Team")) == (
        f"{MAPPINGS}[1].name",
        "The header X-Team is set twice.",
    )


@pytest.mark.parametrize(
    ("mappings", "target"),
    [
        ({"name": "x"}, ""),
        ("x", ""),
        ([1], ""),
        ([{"name": 1, **static()} | {"name": 1}], "[0].name"),
        ([static() | {"name": None}], "[0].name"),
        ([static() | {"type": None}], "[0].type"),
        ([static() | {"type": "Magic"}], "[0].type"),
        ([static(value=None)], "[0].properties.value"),
        ([static(value=1)], "[0].properties.value"),
        ([static(isSecret="yes")], "[0].properties.isSecret"),
        ([dynamic(path=None)], "[0].properties.sourceField"),
        ([dynamic(path=["a"])], "[0].properties.sourceField"),
        ([dynamic() | {"properties": []}], "[0].properties"),
    ],
)
def test_what_is_no_mapping_is_refused(mappings: Any, target: str) -> None:
    with pytest.raises(InvalidDocument) as caught:
        subscription(destination=webhook(deliveryAttributeMappings=mappings))

    assert f"{MAPPINGS}{target}" in targets(caught.value)
