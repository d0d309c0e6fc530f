"""The official management client works unchanged: only its address and its credential are ours."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError, ResourceNotFoundError
from azure.mgmt.eventgrid import EventGridManagementClient
from azure.mgmt.eventgrid import models as m

from cli.local.subscriber import Subscriber
from devhost.process import RunningHost
from tests.e2e.operator import Credential, Key

SUBSCRIPTION = "00000000-0000-0000-0000-000000000001"
GROUP = "shop"
HIDDEN = "Hidden"


@pytest.fixture
def client(host: RunningHost) -> Iterator[EventGridManagementClient]:
    with EventGridManagementClient(
        Credential(),
        SUBSCRIPTION,
        base_url=host.url,
        authentication_policy=Key(),
        polling_interval=0,
    ) as client:
        yield client


@pytest.fixture
def name() -> str:
    return f"t-{uuid.uuid4().hex[:8]}"


def webhook(subscriber: Subscriber, **members: Any) -> m.WebHookEventSubscriptionDestination:
    return m.WebHookEventSubscriptionDestination(
        endpoint_url=f"{subscriber.url}?code=s3cret", **members
    )


HEADERS = [
    m.StaticDeliveryAttributeMapping(name="x-team", value="crm"),
    m.StaticDeliveryAttributeMapping(name="x-key", value="s3", is_secret=True),
    m.DynamicDeliveryAttributeMapping(name="x-kind", source_field="data.kind"),
]


def test_topics(client: Any, name: str):
    topics = client.topics
    created = topics.begin_create_or_update(
        GROUP,
        name,
        m.Topic(location="westeurope", tags={"a": "b"}, input_schema="CloudEventSchemaV1_0"),
    ).result()
    assert created.provisioning_state == "Succeeded"
    assert topics.get(GROUP, name) == created
    assert created.endpoint.endswith(f"/topics/{name}/api/events")

    topics.begin_update(
        GROUP,
        name,
        m.TopicUpdateParameters(
            tags={"c": "d"},
            minimum_tls_version_allowed="1.2",
            inbound_ip_rules=[m.InboundIpRule(ip_mask="127.0.0.0/8", action="Allow")],
        ),
    ).result()
    changed = topics.get(GROUP, name)
    assert (changed.tags, changed.location) == ({"c": "d"}, "westeurope")
    assert changed.inbound_ip_rules[0].ip_mask == "127.0.0.0/8"
    assert name in [each.name for each in topics.list_by_resource_group(GROUP, top=1)]
    assert name in [each.name for each in topics.list_by_subscription(filter=f"name eq '{name}'")]

    keys = topics.list_shared_access_keys(GROUP, name)
    renewed = topics.begin_regenerate_key(
        GROUP, name, m.TopicRegenerateKeyRequest(key_name="key1")
    ).result()
    assert (renewed.key2, renewed.key1 == keys.key1) == (keys.key2, False)
    assert topics.list_shared_access_keys(GROUP, name) == renewed

    with pytest.raises(HttpResponseError) as taken:
        topics.begin_create_or_update("other", name, m.Topic(location="x")).result()
    assert taken.value.status_code == 409
    topics.begin_delete(GROUP, name).result()
    with pytest.raises(ResourceNotFoundError):
        topics.get(GROUP, name)


@pytest.mark.parametrize("form", ["nested", "extension"])
def test_event_subscriptions(
    client: Any,
    subscriber: Callable[..., Subscriber],
    name: str,
    form: str,
):
    topic = client.topics.begin_create_or_update(GROUP, name, m.Topic(location="x")).result()
    if form == "nested":
        operations: Any = client.topic_event_subscriptions
        where: tuple[str, ...] = (GROUP, name, "crm")
    else:
        operations, where = client.event_subscriptions, (topic.id, "crm")
    endpoint = subscriber()
    wanted = m.EventSubscription(
        destination=webhook(endpoint, delivery_attribute_mappings=HEADERS),
        filter=m.EventSubscriptionFilter(
            subject_begins_with="/a",
            advanced_filters=[m.NumberGreaterThanAdvancedFilter(key="data.total", value=10)],
        ),
        labels=["old"],
        expiration_time_utc=datetime.now(UTC) + timedelta(hours=1),
        retry_policy=m.RetryPolicy(max_delivery_attempts=5, event_time_to_live_in_minutes=60),
    )

    created = operations.begin_create_or_update(*where, wanted).result()

    assert operations.get(*where) == created
    assert created.provisioning_state == "Succeeded"
    assert created.destination.endpoint_url is None
    assert created.destination.endpoint_base_url == endpoint.url
    assert created.destination.delivery_attribute_mappings[1].value == HIDDEN
    assert created.filter.advanced_filters[0].value == 10.0
    assert created.retry_policy.max_delivery_attempts == 5
    assert abs(created.expiration_time_utc - wanted.expiration_time_utc) < timedelta(seconds=1)

    update = m.EventSubscriptionUpdateParameters(labels=["new"])
    operations.begin_update(*where, update).result()
    changed = operations.get(*where)
    assert (changed.labels, changed.filter) == (["new"], created.filter)

    full = operations.get_full_url(*where)
    assert full.endpoint_url == f"{endpoint.url}?code=s3cret"
    attributes = operations.get_delivery_attributes(*where).value
    assert [getattr(each, "value", None) for each in attributes] == ["crm", "s3", None]

    across = client.event_subscriptions
    lists = [
        client.topic_event_subscriptions.list(GROUP, name),
        across.list_by_resource(GROUP, "Microsoft.EventGrid", "topics", name),
        across.list_global_by_subscription(filter="name eq 'crm'", top=100),
        across.list_global_by_resource_group(GROUP),
        across.list_regional_by_subscription("x"),
        across.list_regional_by_resource_group(GROUP, "x"),
        across.list_global_by_subscription_for_topic_type("Microsoft.EventGrid.Topics"),
    ]
    for listed in lists:
        assert "crm" in [each.name for each in listed if name in each.topic]

    operations.begin_delete(*where).result()
    with pytest.raises(ResourceNotFoundError):
        operations.get(*where)


def test_all_faults_are_told_at_once(client: Any, name: str):
    client.topics.begin_create_or_update(GROUP, name, m.Topic(location="x")).result()
    wrong = m.EventSubscription(
        destination=m.WebHookEventSubscriptionDestination(endpoint_url="ftp://x"),
        expiration_time_utc=datetime(2020, 1, 1, tzinfo=UTC),
    )

    with pytest.raises(HttpResponseError) as caught:
        client.topic_event_subscriptions.begin_create_or_update(GROUP, name, "crm", wrong)

    error: Any = caught.value.error
    assert (caught.value.status_code, error.code) == (400, "InvalidRequest")
    assert [detail.target for detail in error.details] == [
        "properties.destination.properties.endpointUrl",
        "properties.expirationTimeUtc",
    ]


def test_namespaces(client: Any, subscriber: Callable[..., Subscriber], name: str):
    namespaces, topics = client.namespaces, client.namespace_topics
    subscriptions = client.namespace_topic_event_subscriptions
    created = namespaces.begin_create_or_update(
        GROUP, name, m.Namespace(location="x", sku=m.NamespaceSku(name="Standard", capacity=2))
    ).result()
    assert namespaces.get(GROUP, name) == created
    assert created.topics_configuration.hostname.endswith(f"/namespaces/{name}")
    update = m.NamespaceUpdateParameters(tags={"a": "b"})
    assert namespaces.begin_update(GROUP, name, update).result().tags == {"a": "b"}
    assert name in [each.name for each in namespaces.list_by_resource_group(GROUP)]
    assert name in [each.name for each in namespaces.list_by_subscription()]
    request = m.NamespaceRegenerateKeyRequest(key_name="key1")
    keys = namespaces.list_shared_access_keys(GROUP, name)
    assert namespaces.begin_regenerate_key(GROUP, name, request).result().key1 != keys.key1

    topic = topics.begin_create_or_update(
        GROUP, name, "orders", m.NamespaceTopic(event_retention_in_days=1)
    ).result()
    assert topics.get(GROUP, name, "orders") == topic
    longer = m.NamespaceTopicUpdateParameters(event_retention_in_days=3)
    assert topics.begin_update(GROUP, name, "orders", longer).result().event_retention_in_days == 3
    assert [each.name for each in topics.list_by_namespace(GROUP, name)] == ["orders"]
    topic_request = m.TopicRegenerateKeyRequest(key_name="key2")
    topic_keys = topics.list_shared_access_keys(GROUP, name, "orders")
    renewed = topics.begin_regenerate_key(GROUP, name, "orders", topic_request).result()
    assert (renewed.key1, renewed.key2 == topic_keys.key2) == (topic_keys.key1, False)

    where = (GROUP, name, "orders", "crm")
    endpoint = subscriber()
    push = m.PushInfo(
        max_delivery_count=3,
        event_time_to_live="P1D",
        destination=webhook(endpoint, delivery_attribute_mappings=HEADERS),
    )
    filters = m.FiltersConfiguration(
        included_event_types=["a"], filters=[m.IsNotNullFilter(key="data.a")]
    )
    wanted = m.Subscription(
        delivery_configuration=m.DeliveryConfiguration(delivery_mode="Push", push=push),
        filters_configuration=filters,
        event_delivery_schema="CloudEventSchemaV1_0",
    )
    subscription = subscriptions.begin_create_or_update(*where, wanted).result()
    assert subscriptions.get(*where) == subscription
    assert subscription.filters_configuration == filters
    shown = subscription.delivery_configuration.push
    assert (shown.max_delivery_count, shown.event_time_to_live) == (3, "P1D")
    fewer = m.SubscriptionUpdateParameters(
        filters_configuration=m.FiltersConfiguration(included_event_types=["b"])
    )
    changed = subscriptions.begin_update(*where, fewer).result()
    assert changed.filters_configuration.included_event_types == ["b"]
    full = subscriptions.get_full_url(*where)
    assert full.endpoint_url == f"{endpoint.url}?code=s3cret"
    assert len(subscriptions.get_delivery_attributes(*where).value) == 3
    assert len(list(subscriptions.list_by_namespace_topic(GROUP, name, "orders"))) == 1

    subscriptions.begin_delete(*where).result()
    topics.begin_delete(GROUP, name, "orders").result()
    namespaces.begin_delete(GROUP, name).result()
    with pytest.raises(ResourceNotFoundError):
        namespaces.get(GROUP, name)


def test_who_patches_at_once_loses_nothing(
    client: Any, subscriber: Callable[..., Subscriber], name: str
):
    """Four writers, each of a member of its own, and two of them by the other form."""
    topic = client.topics.begin_create_or_update(GROUP, name, m.Topic(location="x")).result()
    nested = (client.topic_event_subscriptions, (GROUP, name, "crm"))
    extension = (client.event_subscriptions, (topic.id, "crm"))
    wanted = m.EventSubscription(destination=webhook(subscriber()))
    nested[0].begin_create_or_update(*nested[1], wanted).result()
    expires = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)

    for number in range(1, 6):
        patches: list[tuple[Any, dict[str, Any]]] = [
            (nested, {"labels": [str(number)]}),
            (nested, {"filter": m.EventSubscriptionFilter(subject_begins_with=str(number))}),
            (extension, {"retry_policy": m.RetryPolicy(max_delivery_attempts=number)}),
            (extension, {"expiration_time_utc": expires + timedelta(hours=number)}),
        ]

        def patch(form: Any, members: dict[str, Any]) -> None:
            operations, where = form
            update = m.EventSubscriptionUpdateParameters(**members)
            operations.begin_update(*where, update).result()

        with ThreadPoolExecutor(len(patches)) as pool:
            for done in [pool.submit(patch, *each) for each in patches]:
                done.result()

        stored = nested[0].get(*nested[1])
        assert stored.labels == [str(number)]
        assert stored.filter.subject_begins_with == str(number)
        assert stored.retry_policy.max_delivery_attempts == number
        assert stored.expiration_time_utc == expires + timedelta(hours=number)
