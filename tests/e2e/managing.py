"""The official management client, and what it is told to create."""

from __future__ import annotations

from typing import Any

from azure.mgmt.eventgrid import EventGridManagementClient
from azure.mgmt.eventgrid import models as m

from testbed.subscriber import Subscriber
from tests.e2e.operator import Credential, Key

SUBSCRIPTION = "00000000-0000-0000-0000-000000000001"
GROUP = "shop"
HEADERS = [
    m.StaticDeliveryAttributeMapping(name="x-team", value="crm"),
    m.StaticDeliveryAttributeMapping(name="x-key", value="s3", is_secret=True),
    m.DynamicDeliveryAttributeMapping(name="x-kind", source_field="data.kind"),
]


def management_client(url: str) -> EventGridManagementClient:
    return EventGridManagementClient(
        Credential(),
        SUBSCRIPTION,
        base_url=url,
        authentication_policy=Key(),
        polling_interval=0,
    )


def webhook(subscriber: Subscriber, **members: Any) -> m.WebHookEventSubscriptionDestination:
    return m.WebHookEventSubscriptionDestination(
        endpoint_url=f"{subscriber.url}?code=s3cret", **members
    )
