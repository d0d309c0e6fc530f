"""Properties of all documents of namespaces, valid or not."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from shared.arm.namespace_codec import (
    parse_namespace_topic,
    render_namespace,
    render_namespace_topic,
    to_namespace_parent_topic,
    to_namespace_topic,
)
from shared.arm.namespace_subscription_codec import (
    OF_NAMESPACE_TOPIC,
)
from shared.arm.subscription_codec import to_subscription
from shared.events.topic import TopicName
from tests.strategies import json_values, objects
from tests.unit.arm import documents
from tests.unit.arm.documents import (
    DEPLOYMENT,
    LATEST,
    accepted,
    dead_letter,
    namespace,
    webhook,
)

IDENTITY = st.fixed_dictionaries({"type": st.sampled_from(["systemassigned", "UserAssigned"])})
_NAMESPACES = st.none() | objects(
    *("location", "identity", "sku"),
    tags=st.dictionaries(st.sampled_from(["a", ""]), json_values),
    properties=objects(
        *("topicsConfiguration", "topicSpacesConfiguration", "isZoneRedundant"),
        inboundIpRules=st.lists(objects("action", ipMask=st.just("10.0.0.0/8"))),
    ),
)
_TOPICS = st.none() | objects(
    properties=objects("inputSchema", "publisherType", eventRetentionInDays=st.integers(1, 7))
)
_DESTINATION = st.fixed_dictionaries({"destination": st.just(webhook())}) | (
    st.fixed_dictionaries(
        {
            "deliveryWithResourceIdentity": st.fixed_dictionaries(
                {"identity": IDENTITY, "destination": st.just(webhook())}
            )
        }
    )
)
_PUSH = st.fixed_dictionaries(
    {},
    optional={
        "maxDeliveryCount": st.integers(1, 10),
        "eventTimeToLive": st.sampled_from(["PT1M", "P1D", "P7D"]),
        "deadLetterDestinationWithResourceIdentity": st.fixed_dictionaries(
            {"identity": IDENTITY, "deadLetterDestination": st.just(dead_letter())}
        ),
    },
)
_SUBSCRIPTIONS = st.fixed_dictionaries(
    {
        "deliveryConfiguration": st.builds(
            lambda push, destination: {"deliveryMode": "push", "push": push | destination},
            *(_PUSH, _DESTINATION),
        )
    },
    optional={
        "filtersConfiguration": st.fixed_dictionaries(
            {},
            optional={
                "includedEventTypes": st.none() | st.lists(st.text(), max_size=3),
                "filters": st.lists(
                    st.just({"operatorType": "isNotNull", "key": "data.a"}), max_size=25
                ),
            },
        ),
        "eventDeliverySchema": st.just("CloudEventSchemaV1_0"),
        "expirationTimeUtc": st.none() | st.just("2030-01-01T01:00:00+01:00"),
    },
)


def topic(body: object, existing: Any = None) -> dict[str, Any]:
    keys = {"keys": {"key1": "key3", "key2": "key4"}}
    return keys | parse_namespace_topic(TopicName("shop", "orders"), body, namespace({}), existing)


OF_PROFILE = replace(DEPLOYMENT, profiles={"ns": LATEST})
PARENT = to_namespace_parent_topic(topic({}), OF_PROFILE)
subscription = partial(
    documents.subscription, form=OF_NAMESPACE_TOPIC, of=topic({}), deployment=OF_PROFILE
)
KNOWN = subscription(
    {
        "properties": {
            "deliveryConfiguration": {"deliveryMode": "Push", "push": {"destination": webhook()}}
        }
    }
)


@given(_NAMESPACES)
def test_an_answer_of_a_namespace_can_be_sent_back(body: object) -> None:
    if (stored := accepted(namespace, body)) is not None:
        answer = render_namespace(stored, "https://x")
        assert "key" not in json.dumps(answer["properties"])
        assert namespace(answer, existing=stored) == stored


@given(_TOPICS)
def test_an_accepted_topic_can_be_used_and_sent_back(body: object) -> None:
    if (stored := accepted(topic, body)) is not None:
        value = to_namespace_topic(stored, namespace({}))
        assert (value.name, value.profile) == ("shop.orders", "ns")
        assert value.keys == ("key1", "key2", "key3", "key4")
        assert topic(render_namespace_topic(stored), existing=stored) == stored


@given(_SUBSCRIPTIONS)
def test_an_accepted_subscription_can_be_used_and_patched(properties: object) -> None:
    stored = subscription({"properties": properties})

    value = to_subscription(stored)
    answer = OF_NAMESPACE_TOPIC.render(stored, PARENT)

    assert value.topic == "shop.orders"
    assert value.endpoint_url == stored["properties"]["destination"]["properties"]["endpointUrl"]
    assert subscription(OF_NAMESPACE_TOPIC.patched(stored, {}), existing=stored) == stored
    assert "s3cret" not in json.dumps(answer)


@given(json_values)
def test_a_subscription_is_read_or_refused(body: object) -> None:
    accepted(subscription, {"properties": {"deliveryConfiguration": body}})
    accepted(subscription, {"properties": body})
    accepted(
        lambda patch: subscription(OF_NAMESPACE_TOPIC.patched(KNOWN, patch), existing=KNOWN),
        body,
    )
