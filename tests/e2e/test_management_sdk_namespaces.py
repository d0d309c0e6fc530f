"""The official management client on namespaces, which its older versions don't know."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from azure.core.exceptions import ResourceNotFoundError
from azure.mgmt.eventgrid import models as m

from testbed.subscriber import Subscriber
from tests.e2e.managing import GROUP, HEADERS, webhook


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
