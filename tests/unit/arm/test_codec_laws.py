"""Properties of all documents of topics and subscriptions, valid or not."""

from __future__ import annotations

from typing import Any

from azure.mgmt.eventgrid import models
from hypothesis import given
from hypothesis import strategies as st

from shared.arm.namespace_codec import render_namespace
from shared.arm.subscription_codec import to_subscription
from shared.arm.topic_codec import render_topic, to_topic
from shared.arm.topic_subscription_codec import NESTED
from shared.arm.tracked_resource import PATCHED, ArmPath, patched_resource
from shared.errors import InvalidDocument
from tests.strategies import json_values, objects
from tests.unit.arm.documents import (
    accepted,
    dead_letter,
    namespace,
    rendered,
    subscription,
    topic,
    webhook,
)

_URLS = st.text() | st.text(alphabet="htps:/[]@#?%.a1").map("https://".__add__)


_TOPICS = json_values | objects(
    *("location", "identity", "sku", "kind"),
    tags=st.dictionaries(st.sampled_from(["deliveryProfile", "a", ""]), json_values),
    properties=objects(
        *("inputSchema", "inputSchemaMapping", "publicNetworkAccess", "inboundIpRules"),
        *("disableLocalAuth", "minimumTlsVersionAllowed", "eventTypeInfo"),
    ),
)
_SUBSCRIPTIONS = json_values | objects(
    properties=objects(
        *("labels", "expirationTimeUtc", "deliveryWithResourceIdentity"),
        destination=objects(
            endpointType=st.just("WebHook"),
            properties=objects(
                *("maxEventsPerBatch", "preferredBatchSizeInKilobytes"),
                *("deliveryAttributeMappings", "minimumTlsVersionAllowed"),
                endpointUrl=_URLS,
            ),
        ),
        filter=objects("includedEventTypes", "subjectBeginsWith", "advancedFilters"),
        retryPolicy=objects("maxDeliveryAttempts", "eventTimeToLiveInMinutes"),
        eventDeliverySchema=st.sampled_from(["EventGridSchema", "CustomInputSchema"]),
        deadLetterDestination=objects(
            endpointType=st.just("StorageBlob"),
            properties=objects("resourceId", "blobContainerName"),
        ),
    )
)


@given(_TOPICS, st.tuples(st.text(), st.text(), st.text()))
def test_a_topic_is_refused_or_can_be_used(body: object, names: tuple[str, str, str]) -> None:
    subscription_id, group, name = names
    accepted(lambda given: topic(given, path=ArmPath(subscription_id, group, "topics", name)), body)
    if (stored := accepted(topic, body)) is not None:
        assert to_topic(stored).name == "orders"
        assert topic(render_topic(stored, "https://x"), existing=stored) == stored
        assert topic(patched_resource(stored, {}, "a topic", PATCHED), existing=stored) == stored


@given(_SUBSCRIPTIONS, st.text())
def test_a_subscription_is_read_or_refused(body: object, name: str) -> None:
    accepted(lambda given: subscription(given, name=name), body)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "filter": st.fixed_dictionaries(
                {},
                optional={
                    "includedEventTypes": st.none() | st.lists(st.text(), max_size=3),
                    "subjectBeginsWith": st.none() | st.text(),
                    "subjectEndsWith": st.text(),
                    "isSubjectCaseSensitive": st.none() | st.booleans(),
                },
            ),
            "labels": st.none() | st.lists(st.text(), max_size=3),
            "retryPolicy": st.fixed_dictionaries(
                {},
                optional={
                    "maxDeliveryAttempts": st.integers(1, 30),
                    "eventTimeToLiveInMinutes": st.integers(1, 1440),
                },
            ),
            "eventDeliverySchema": st.sampled_from(["EventGridSchema", "cloudeventschemav1_0"]),
            "deadLetterDestination": st.none() | st.just(dead_letter()),
            "expirationTimeUtc": st.none() | st.just("2030-01-01T01:00:00+01:00"),
        },
    )
)
def test_an_answer_sent_back_changes_nothing(properties: dict[str, Any]) -> None:
    stored = subscription(**properties)
    answer = {"properties": rendered(stored)}
    answer["properties"]["destination"]["properties"] |= webhook()["properties"]

    again = subscription(answer, existing=stored)

    # A policy that was left open is answered with the profile's defaults.
    assert rendered(again) == rendered(stored)
    again["properties"]["retryPolicy"] = stored["properties"]["retryPolicy"]
    assert again == stored
    assert to_subscription(again) == to_subscription(stored)
    assert subscription(NESTED.patched(stored, {}), existing=stored) == stored


@given(
    st.sampled_from(["identity", "sku", "kind", "location", "tags", "properties"]),
    json_values
    | st.fixed_dictionaries(
        {},
        optional=dict.fromkeys(
            [
                *("type", "principalId", "userAssignedIdentities", "name", "capacity"),
                *("eventTypeInfo", "dataResidencyBoundary", "isZoneRedundant", "inboundIpRules"),
            ],
            json_values,
        ),
    ),
)
def test_the_client_can_read_all_that_is_accepted(member: str, value: object) -> None:
    for read, render, model in (
        (topic, render_topic, models.Topic),
        (namespace, render_namespace, models.Namespace),
    ):
        try:
            stored = read({member: value})
        except InvalidDocument:
            continue
        assert model.deserialize(render(stored, "https://x")).name == stored["name"]
