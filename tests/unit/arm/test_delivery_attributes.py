"""Custom delivery headers: contract §2.5, and §5.5 for how they are shown."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shared.arm.subscription_codec import to_subscription
from shared.subscriptions.subscription import DeliveryHeader, DynamicHeader, StaticHeader
from tests.unit.arm.documents import refusal, rendered, subscription, targets, webhook

MAPPINGS = "properties.destination.properties.deliveryAttributeMappings"


def static(name: Any = "x-team", value: Any = "crm", **properties: Any) -> dict[str, Any]:
    return {"name": name, "type": "Static", "properties": {"value": value, **properties}}


def dynamic(name: str = "x-kind", path: Any = "data.kind") -> dict[str, Any]:
    return {"name": name, "type": "Dynamic", "properties": {"sourceField": path}}


def with_mappings(*mappings: Any) -> dict[str, Any]:
    return subscription(destination=webhook(deliveryAttributeMappings=list(mappings)))


def headers(*mappings: Any) -> tuple[DeliveryHeader, ...]:
    return to_subscription(with_mappings(*mappings)).headers


def test_deliveries_see_every_header() -> None:
    secret = static("Authorization", "Bearer s3cret", isSecret=True) | {"type": "static"}
    last = dynamic(path="data.A.b") | {"type": "DYNAMIC"}

    assert headers(static(), secret, last) == (
        StaticHeader(name="x-team", value="crm"),
        StaticHeader(name="Authorization", value="Bearer s3cret", is_secret=True),
        DynamicHeader(name="x-kind", path=("data", "A", "b")),
    )
    assert headers() == ()


def test_a_secret_is_never_shown() -> None:
    stored = with_mappings(static(), static("x-key", "s3cret", isSecret=True), dynamic())

    answer = rendered(stored)

    assert answer["destination"]["properties"]["deliveryAttributeMappings"] == [
        static(isSecret=False),
        static("x-key", "Hidden", isSecret=True),
        dynamic(),
    ]
    assert "s3cret" not in json.dumps(answer) + repr(to_subscription(stored))


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        ("aeg-event-type AEG-x WebHook-Request-Origin webhook-x ce-id CE-x", "is reserved for"),
        ("Host host Content-Type content-length Content-Encoding Connection", "belongs to HTTP"),
        ("Keep-Alive Accept-Encoding Date Via Forwarded Proxy-Authorization TE", "belongs to HTTP"),
        ("Trailer Transfer-Encoding Upgrade Expect X-Forwarded-For", "belongs to HTTP"),
        ("x-forwarded-proto", "belongs to HTTP"),
        ("Metadata metadata-flavor X-IDENTITY-HEADER X-Aws-Ec2-Metadata-Token", "cloud metadata"),
        ("Cookie X-MS-CLIENT-PRINCIPAL x-ms-client-principal-id", "misrepresent the"),
        ("X-MS-TOKEN-AAD-ACCESS-TOKEN", "misrepresent the sender"),
        # What CGI, WSGI and PHP read as one of them.
        ("AEG_event_type webhook_signature webhook-max_rate ce_id", "is reserved for"),
        ("content_length Transfer_Encoding X_Forwarded_Host x.forwarded-for", "belongs to HTTP"),
        ("METADATA_FLAVOR x_identity_header", "cloud metadata"),
        ("X_MS_CLIENT_PRINCIPAL x-ms_token_aad", "misrepresent the sender"),
    ],
)
def test_some_names_are_refused_with_the_reason(names: str, reason: str) -> None:
    for name in names.split():
        for mapping in (static(name), dynamic(name)):
            target, message = refusal(with_mappings, mapping)
            assert target == f"{MAPPINGS}[0].name"
            assert reason in message


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "it is empty"),
        (" x", "it has ' '"),
        ("x y", "it has ' '"),
        ("x:", "it has ':'"),
        ("x\r\ny", r"it has '\r'"),
        ("h\u00e4", r"it has '\xe4'"),
        ("(x)", "it has '('"),
        ("x\x00", r"it has '\x00'"),
        ("x" * 257, "it is longer than 256 characters"),
    ],
    ids=ascii,
)
def test_an_illegal_name_is_refused(name: str, why: str) -> None:
    message = f"'{name[:64]}' is not a valid header name: {why}."

    assert refusal(with_mappings, static(name)) == (f"{MAPPINGS}[0].name", message)


@pytest.mark.parametrize(
    "name",
    [
        *("Authorization", "User-Agent", "x", "X-1_!", "hosts", "tee", "x" * 256),
        *("aegis", "cell", "dates", "cookies", "x-ms-id", "metadata-id", "x_team", "user_agent"),
    ],
)
def test_a_legal_name_is_accepted(name: str) -> None:
    assert headers(dynamic(name))[0].name == name


@pytest.mark.parametrize(
    ("value", "why"),
    [
        *((value, "must not have a line break.") for value in ("a\rb", "a\nb")),
        *(
            (value, "must not end with a line break: leave it out.")
            for value in ("k3y\n", "k3y\r\n")
        ),
        *((value, "must have printable") for value in ("a\x00b", "gr\u00fcn", "\u20ac", "\x7f")),
        ("x" * 4097, "must have at most 4096 characters."),
        # Endpoints would trim them.
        *((value, "must not begin or end with a space.") for value in (" ", " k3y", "k3y ")),
    ],
)
def test_an_illegal_value_is_refused_without_quoting_it(value: str, why: str) -> None:
    target, message = refusal(with_mappings, static(value=value))

    assert target == f"{MAPPINGS}[0].properties.value"
    assert f"{target} {why}".removeprefix("properties.") in message
    assert len(value) < 3 or value.strip() not in message


@pytest.mark.parametrize("value", ["", "a b", 'a, b;c="d"', "x" * 4096])
def test_a_value_that_a_header_can_hold_is_accepted(value: str) -> None:
    assert headers(static(value=value)) == (StaticHeader(name="x-team", value=value),)


@pytest.mark.parametrize(
    "path", ["id", "Topic", "subject", "eventtype", "dataversion", "source", "data.a", "Data.a b.c"]
)
def test_a_path_into_the_event_is_accepted(path: str) -> None:
    seen = DynamicHeader(name="x-kind", path=tuple(path.split(".")))

    assert headers(dynamic(path=path)) == (seen,)


@pytest.mark.parametrize(
    "path",
    ["", ".", "data.", "data..a", "subject.a", "a b", "$.data", ".id", "sbject", "kind", "Data2.a"],
)
def test_a_path_that_leads_nowhere_is_refused(path: str) -> None:
    target, _ = refusal(with_mappings, dynamic(path=path))

    assert target == f"{MAPPINGS}[0].properties.sourceField"


def test_there_are_at_most_ten_headers_of_different_names() -> None:
    eleven = [static(f"x-{number}") for number in range(11)]

    assert len(headers(*eleven[:10])) == 10
    assert refusal(with_mappings, *eleven) == (
        MAPPINGS,
        "There can be at most 10 custom delivery headers.",
    )
    assert refusal(with_mappings, static("x-team"), dynamic("X-Team")) == (
        f"{MAPPINGS}[1].name",
        "The header X-Team is set twice.",
    )


@pytest.mark.parametrize(
    ("mappings", "target"),
    [
        ([1], ""),
        ([static() | {"name": None}], "[0].name"),
        ([static() | {"type": None}], "[0].type"),
        ([static() | {"type": "Magic"}], "[0].type"),
        ([static(value=None)], "[0].properties.value"),
        ([static(isSecret="yes")], "[0].properties.isSecret"),
        ([dynamic(path=None)], "[0].properties.sourceField"),
    ],
)
def test_a_malformed_mapping_is_refused(mappings: Any, target: str) -> None:
    destination = webhook(deliveryAttributeMappings=mappings)

    assert f"{MAPPINGS}{target}" in targets(subscription, destination=destination)
