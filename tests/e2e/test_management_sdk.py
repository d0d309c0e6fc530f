"""
The official management client works unchanged: only its address and its credential are ours.

test_management_sdk_versions.py runs this file with older clients too.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import azure.mgmt.eventgrid
import pytest
from azure.core.exceptions import HttpResponseError, ResourceNotFoundError
from azure.mgmt.eventgrid import EventGridManagementClient
from azure.mgmt.eventgrid import models as m

from devhost.azurite import ACCOUNT
from devhost.process import RunningHost
from testbed.subscriber import Subscriber
from tests.e2e.managing import GROUP, HEADERS, SUBSCRIPTION, webhook
from tests.e2e.operator import Credential

HIDDEN = "Hidden"


def test_this_is_the_version_that_is_meant():
    assert azure.mgmt.eventgrid.__version__ == os.environ.get("CLIENT_VERSION", "10.4.0")


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


def test_a_storage_queue_as_destination(client: Any, name: str):
    topic = client.topics.begin_create_or_update(GROUP, name, m.Topic(location="x")).result()
    group = "/subscriptions/0/resourceGroups/x"
    account = f"{group}/providers/Microsoft.Storage/storageAccounts/{ACCOUNT}"
    wanted = m.StorageQueueEventSubscriptionDestination(
        resource_id=account, queue_name="inbox", queue_message_time_to_live_in_seconds=60
    )
    operations, where = client.event_subscriptions, (topic.id, "queue")

    subscription = m.EventSubscription(destination=wanted)
    created = operations.begin_create_or_update(*where, subscription).result()

    assert (created.destination, created.provisioning_state) == (wanted, "Succeeded")
    with pytest.raises(HttpResponseError, match="Only a webhook has an endpoint URL"):
        operations.get_full_url(*where)


def test_the_secret_that_signs_deliveries_is_not_lost_by_a_client_that_writes_back(
    client: Any, subscriber: Callable[..., Subscriber], name: str
):
    topic = client.topics.begin_create_or_update(GROUP, name, m.Topic(location="x")).result()
    operations, where, endpoint = client.event_subscriptions, (topic.id, "crm"), subscriber()
    signed = m.StaticDeliveryAttributeMapping(
        name="webhook-signature", value="Generated", is_secret=True
    )
    destination = webhook(endpoint, delivery_attribute_mappings=[signed])
    wanted = m.EventSubscription(destination=destination)

    operations.begin_create_or_update(*where, wanted).result()
    (made,) = operations.get_delivery_attributes(*where).value
    read = operations.get(*where)
    read.destination.endpoint_url = destination.endpoint_url  # is never shown
    operations.begin_create_or_update(*where, read).result()

    assert read.destination.delivery_attribute_mappings[0].value == HIDDEN
    assert made.value.startswith("whsec_")
    assert operations.get_delivery_attributes(*where).value == [made]


@pytest.mark.parametrize("form", ["nested", "extension"])
def test_event_subscriptions(
    client: Any, subscriber: Callable[..., Subscriber], name: str, form: str
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
        across.list_by_resource(GROUP, "Microsoft.EventGrid", "topics", name),
        across.list_global_by_subscription(filter="name eq 'crm'", top=100),
        across.list_global_by_resource_group(GROUP),
        across.list_regional_by_subscription("x"),
        across.list_regional_by_resource_group(GROUP, "x"),
        across.list_global_by_subscription_for_topic_type("Microsoft.EventGrid.Topics"),
    ]
    for listed in lists:
        assert "crm" in [each.name for each in listed if name in each.topic]

    if form == "nested":
        assert [each.name for each in operations.list(GROUP, name)] == ["crm"]

    operations.begin_delete(*where).result()
    with pytest.raises(ResourceNotFoundError):
        operations.get(*where)


def test_all_faults_are_reported_at_once(client: Any, name: str):
    topic = client.topics.begin_create_or_update(GROUP, name, m.Topic(location="x")).result()
    wrong = m.EventSubscription(
        destination=m.WebHookEventSubscriptionDestination(endpoint_url="ftp://x"),
        expiration_time_utc=datetime(2020, 1, 1, tzinfo=UTC),
    )

    with pytest.raises(HttpResponseError) as caught:
        client.event_subscriptions.begin_create_or_update(topic.id, "crm", wrong)

    error: Any = caught.value.error
    assert (caught.value.status_code, error.code) == (400, "InvalidRequest")
    assert [detail.target for detail in error.details] == [
        "properties.destination.properties.endpointUrl",
        "properties.expirationTimeUtc",
    ]


def test_its_own_policy_sends_its_token(host: RunningHost, name: str):
    """Over http it must be told to; over https nothing but the base URL and credential is ours."""
    with EventGridManagementClient(
        Credential(), SUBSCRIPTION, base_url=host.url, polling_interval=0
    ) as client:
        topics: Any = client.topics
        topic = m.Topic(location="x")
        topics.begin_create_or_update(GROUP, name, topic, enforce_https=False).result()

        assert topics.get(GROUP, name, enforce_https=False).name == name


def test_storage_accounts_are_sources(
    client: Any, subscriber: Callable[..., Subscriber], name: str
):
    source = (
        f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}"
        f"/providers/Microsoft.Storage/storageAccounts/{ACCOUNT}"
    )
    kind, where = "Microsoft.Storage.StorageAccounts", (GROUP, "Microsoft.Storage")
    account = (*where, "storageAccounts", ACCOUNT)
    receiver = subscriber()
    topics, of_topic = client.system_topics, client.system_topic_event_subscriptions
    wanted = m.SystemTopic(location="westeurope", source=source, topic_type=kind)

    created = topics.begin_create_or_update(GROUP, name, wanted).result()
    try:
        assert (created.source, created.topic_type) == (source, kind)
        tags = m.SystemTopicUpdateParameters(tags={"a": "b"})
        topics.begin_update(GROUP, name, tags).result()
        assert topics.get(GROUP, name).tags == {"a": "b"}
        assert [each.name for each in topics.list_by_resource_group(GROUP)] == [name]
        assert [each.name for each in topics.list_by_subscription()] == [name]
        with pytest.raises(HttpResponseError, match="Only one system topic is allowed"):
            topics.begin_create_or_update(GROUP, f"{name}-2", wanted).result()

        given = m.EventSubscription(destination=webhook(receiver))
        of_topic.begin_create_or_update(GROUP, name, "of-topic", given).result()
        labels = m.EventSubscriptionUpdateParameters(labels=["sales"])
        of_topic.begin_update(GROUP, name, "of-topic", labels).result()
        assert of_topic.get(GROUP, name, "of-topic").labels == ["sales"]
        found = of_topic.get_full_url(GROUP, name, "of-topic").endpoint_url
        assert found == f"{receiver.url}?code=s3cret"
        client.event_subscriptions.begin_create_or_update(source, "scoped", given).result()
        assert client.event_subscriptions.get(source, "scoped").name == "scoped"

        listed = of_topic.list_by_system_topic(GROUP, name)
        assert [each.name for each in listed] == ["of-topic"]
        subscriptions = client.event_subscriptions
        for found in (
            subscriptions.list_by_resource(*account),
            subscriptions.list_global_by_resource_group_for_topic_type(GROUP, kind),
            subscriptions.list_regional_by_resource_group_for_topic_type(GROUP, "westeurope", kind),
            subscriptions.list_regional_by_subscription_for_topic_type("westeurope", kind),
        ):
            assert [each.name for each in found] == ["scoped"]
        event_types = [each.name for each in client.topics.list_event_types(*account)]
        assert "Microsoft.Storage.BlobCreated" in event_types
        assert kind in [each.name for each in client.topic_types.list()]
    finally:
        client.event_subscriptions.begin_delete(source, "scoped").result()
        topics.begin_delete(GROUP, name).result()
    with pytest.raises(ResourceNotFoundError):
        topics.get(GROUP, name)
