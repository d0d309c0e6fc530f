"""Damaged requests of all kinds to both surfaces: the checks of `surfaces` hold for each."""

from __future__ import annotations

import base64
from typing import Any, NamedTuple
from urllib.parse import unquote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz import damage
from tests.fuzz.documents import (
    CLOUD_EVENT,
    CLOUD_TOPIC,
    CUSTOM_EVENT,
    CUSTOM_TOPIC,
    EVENT,
    OTHERS,
    WRITES,
)
from tests.fuzz.surfaces import OPERATOR, Surfaces

#: Requests to one deployment, one after the other; examples for management, and for each of six
#: ways to publish: ten thousand requests in all.
AT_A_TIME, MANAGED, PUBLISHED = 10, 500, 85

NOT_OPERATORS: tuple[dict[str, str], ...] = (
    {},
    {"authorization": ""},
    {"authorization": "Bearer"},
    {"authorization": "Bearer ☃"},
    {"authorization": "Bearer " + "x" * 20_000},
    {"authorization": "Basic YTpi"},
    {"authorization": "Bearer e30.e30.e30"},
)


class Sent(NamedTuple):
    """A request, as `Surfaces` takes it."""

    method: str
    target: str
    body: bytes
    headers: dict[str, str]


@st.composite
def managed(draw: st.DrawFn) -> Sent:
    """Draw a management request."""
    given = draw(st.sampled_from(WRITES) | st.sampled_from(OTHERS))
    method = given.method if draw(st.integers(0, 9)) else draw(st.sampled_from(damage.METHODS))
    documents = [given.document] if given.document else [None, {}, {"properties": {}}]
    return Sent(
        method=method,
        target=f"{draw(damage.paths(given.path))}?{draw(damage.queries('2025-02-15'))}",
        body=draw(damage.bodies(documents)) if method not in {"GET", "DELETE"} else b"",
        headers=draw(damage.headers([OPERATOR, *NOT_OPERATORS], "application/json")),
    )


@settings(max_examples=MANAGED, suppress_health_check=list(HealthCheck))
@given(st.lists(managed(), min_size=AT_A_TIME, max_size=AT_A_TIME))
def test_no_management_request_does_harm(requests: list[Sent]) -> None:
    surfaces = Surfaces()

    for each in requests:
        surfaces.manage(*each)


EVENT_GRID = [[EVENT], [EVENT] * 3]
CUSTOM = [[CUSTOM_EVENT], CUSTOM_EVENT]
SINGLE, BATCH = "application/cloudevents+json", "application/cloudevents-batch+json"


def signatures(surfaces: Surfaces) -> list[dict[str, str]]:
    """Return the ways to show a key, the right one first."""
    wrong = base64.b64encode(b"x" * 32).decode()
    shown = [
        "r=a&e=b&s=c",
        "r=%ff&e=9999-99-99&s=%%%",
        f"r=https%3A%2F%2Fx&e=1%2F1%2F2999%2012%3A00%3A00%20AM&s={wrong}",
        "☃",
        "&" * 5000,
        "s" * 20_000,
    ]
    return [
        {"aeg-sas-key": surfaces.key},
        {"aeg-sas-key": surfaces.namespace_key},
        {"aeg-sas-key": wrong},
        {},
        *({"aeg-sas-token": text} for text in shown),
        *({"authorization": f"SharedAccessSignature {text}"} for text in shown),
        {"authorization": f"SharedAccessKey {wrong}"},
        {"authorization": "Bearer e30.e30.e30"},
    ]


@pytest.mark.parametrize(
    ("topic", "documents", "content"),
    [
        pytest.param({}, EVENT_GRID, "application/json", id="Event Grid"),
        pytest.param(CLOUD_TOPIC, [CLOUD_EVENT], SINGLE, id="CloudEvent"),
        pytest.param(CLOUD_TOPIC, [[CLOUD_EVENT] * 2], BATCH, id="CloudEvents"),
        pytest.param(CLOUD_TOPIC, ["x", {}], "text/plain", id="binary CloudEvent"),
        pytest.param(CUSTOM_TOPIC, CUSTOM, "application/json", id="custom"),
    ],
)
@settings(max_examples=PUBLISHED, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_publish_request_does_harm(
    topic: dict[str, Any], documents: list[Any], content: str, data: st.DataObject
) -> None:
    surfaces = Surfaces(**topic)
    ways = signatures(surfaces)

    for _ in range(AT_A_TIME):
        headers = data.draw(damage.headers(ways, content))
        if content == "text/plain":
            headers |= data.draw(_binary)
        surfaces.publish(
            method=data.draw(st.sampled_from(("POST",) * 9 + damage.METHODS)),
            target=f"/topics/orders/api/events?{data.draw(damage.queries('2018-01-01'))}",
            body=data.draw(damage.bodies(documents)),
            headers=headers,
            params={"topic": data.draw(_topic_names)},
        )


@settings(max_examples=PUBLISHED, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_publish_request_to_a_namespace_does_harm(data: st.DataObject) -> None:
    surfaces = Surfaces()
    ways = [
        {"authorization": f"SharedAccessKey {surfaces.namespace_key}"},
        {"authorization": f"SharedAccessKey {surfaces.key}"},
        *signatures(surfaces),
    ]

    for _ in range(AT_A_TIME):
        action = data.draw(_actions)
        content, document = data.draw(
            st.sampled_from(((SINGLE, CLOUD_EVENT), (BATCH, [CLOUD_EVENT] * 2)))
        )
        surfaces.publish(
            method=data.draw(st.sampled_from(("POST",) * 9 + damage.METHODS)),
            target=f"/namespaces/shop/topics/x?{data.draw(damage.queries('2024-06-01'))}",
            body=data.draw(damage.bodies([document])),
            headers=data.draw(damage.headers(ways, content)),
            params={"namespace": data.draw(_namespaces), "action": action},
        )


_odd = tuple(unquote(segment) for segment in damage.SEGMENTS)
_topic_names = st.sampled_from(("orders",) * 30 + ("ORDERS", "none", "shop.orders", *_odd))
_namespaces = st.sampled_from(("shop",) * 30 + ("SHOP", "none", *_odd))
_actions = st.sampled_from(
    ("orders:publish",) * 40
    + ("orders:receive", "orders:", "orders", ":publish", "a:b:publish", "orders:PUBLISH")
    + tuple(f"{each}:publish" for each in _odd)
)
_binary_names = [
    *(f"ce-{name}" for name in ("id", "source", "type", "specversion", "time", "subject", "data")),
    *("ce-dataschema", "ce-datacontenttype", "ce-team", "ce-", "ce-☃"),
]
_binary_values = ("1.0", "", "a", "%", "%C3%BC", "%FF", "ü", "x" * 5000, "2026-13-01", '"a"')
_binary = st.builds(
    lambda odd: {"ce-id": "1", "ce-source": "/a", "ce-type": "a", "ce-specversion": "1.0"} | odd,
    st.dictionaries(st.sampled_from(_binary_names), st.sampled_from(_binary_values), max_size=3),
)
