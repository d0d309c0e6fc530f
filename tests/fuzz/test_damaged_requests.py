"""Damaged requests of all kinds to both surfaces: the checks of `surfaces` hold for each."""

from __future__ import annotations

import base64
from typing import Any
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

#: Requests to one deployment, one after the other; examples for management, and for each of seven
#: ways to publish: ten thousand requests in all.
AT_A_TIME, MANAGED, PUBLISHED = 10, 500, 72

NOT_OPERATORS: tuple[dict[str, str], ...] = (
    {},
    {"authorization": ""},
    {"authorization": "Bearer"},
    {"authorization": "Bearer ☃"},
    {"authorization": "Bearer " + "x" * 20_000},
    {"authorization": "Basic YTpi"},
    {"authorization": "Bearer e30.e30.e30"},
)


@settings(max_examples=MANAGED, suppress_health_check=list(HealthCheck))
@given(
    st.lists(
        damage.managing((*WRITES, *OTHERS), [OPERATOR, *NOT_OPERATORS]),
        min_size=AT_A_TIME,
        max_size=AT_A_TIME,
    )
)
def test_no_management_request_does_harm(requests: list[damage.Sent]) -> None:
    surfaces = Surfaces()

    for each in requests:
        surfaces.manage(*each)


_odd = tuple(unquote(segment) for segment in damage.SEGMENTS)
_actions = (
    *("orders:publish",) * 40,
    *("orders:receive", "orders:", "orders", ":publish", "a:b:publish", "orders:PUBLISH"),
    *(f"{each}:publish" for each in _odd),
)
#: Of a data plane: path and version, and the parameters of its route.
TOPIC = (
    ("/topics/orders/api/events", "2018-01-01"),
    {"topic": st.sampled_from(("orders",) * 30 + ("ORDERS", "none", "shop.orders", *_odd))},
)
NAMESPACE = (
    ("/namespaces/shop/topics/orders:publish", "2024-06-01"),
    {
        "namespace": st.sampled_from(("shop",) * 30 + ("SHOP", "none", *_odd)),
        "action": st.sampled_from(_actions),
    },
)
SINGLE, BATCH = "application/cloudevents+json", "application/cloudevents-batch+json"


def access(surfaces: Surfaces, *, to_namespace: bool) -> list[dict[str, str]]:
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
    right, other = {"aeg-sas-key": surfaces.key}, {"aeg-sas-key": surfaces.namespace_key}
    if to_namespace:
        right, other = {"authorization": f"SharedAccessKey {surfaces.namespace_key}"}, right
    return [
        right,
        other,
        {"aeg-sas-key": wrong},
        {},
        *({"aeg-sas-token": text} for text in shown),
        *({"authorization": f"SharedAccessSignature {text}"} for text in shown),
        {"authorization": f"SharedAccessKey {wrong}"},
        {"authorization": "Bearer e30.e30.e30"},
    ]


JSON = "application/json"


@pytest.mark.parametrize(
    ("plane", "topic", "documents", "content"),
    [
        pytest.param(TOPIC, {}, [[EVENT], [EVENT] * 3], JSON, id="Event Grid"),
        pytest.param(TOPIC, CLOUD_TOPIC, [CLOUD_EVENT], SINGLE, id="CloudEvent"),
        pytest.param(TOPIC, CLOUD_TOPIC, [[CLOUD_EVENT] * 2], BATCH, id="CloudEvents"),
        pytest.param(TOPIC, CLOUD_TOPIC, ["x", {}], "text/plain", id="binary CloudEvent"),
        pytest.param(TOPIC, CUSTOM_TOPIC, [[CUSTOM_EVENT], CUSTOM_EVENT], JSON, id="custom"),
        pytest.param(NAMESPACE, {}, [CLOUD_EVENT], SINGLE, id="namespace, CloudEvent"),
        pytest.param(NAMESPACE, {}, [[CLOUD_EVENT] * 2], BATCH, id="namespace, CloudEvents"),
    ],
)
@settings(max_examples=PUBLISHED, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_publish_request_does_harm(
    plane: tuple[Any, Any],
    topic: dict[str, Any],
    documents: list[Any],
    content: str,
    data: st.DataObject,
) -> None:
    path_and_version, params = plane
    surfaces = Surfaces(**topic)
    ways = access(surfaces, to_namespace=plane is NAMESPACE)

    for _ in range(AT_A_TIME):
        sent = data.draw(damage.publishing(path_and_version, documents, ways, content))
        if content == "text/plain":
            sent.headers.update(data.draw(_binary))
        surfaces.publish(*sent, data.draw(st.fixed_dictionaries(params)))


_binary_names = [
    *(f"ce-{name}" for name in ("id", "source", "type", "specversion", "time", "subject", "data")),
    *("ce-dataschema", "ce-datacontenttype", "ce-team", "ce-", "ce-☃"),
]
_binary_values = ("1.0", "", "a", "%", "%C3%BC", "%FF", "ü", "x" * 5000, "2026-13-01", '"a"')
_binary = st.builds(
    lambda odd: {"ce-id": "1", "ce-source": "/a", "ce-type": "a", "ce-specversion": "1.0"} | odd,
    st.dictionaries(st.sampled_from(_binary_names), st.sampled_from(_binary_values), max_size=3),
)
