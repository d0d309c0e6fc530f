"""The last thing that an endpoint hears: its event subscription is deleted."""

from __future__ import annotations

import json
from datetime import datetime

from shared.clock import timestamp
from shared.http import OutboundRequest
from shared.subscriptions.header_rules import static_headers
from shared.subscriptions.subscription import WEBHOOK_ORIGIN, DeliverySchema, EventSubscription

_TYPE = "Microsoft.EventGrid.SubscriptionDeletedEvent"


def build_deletion_notice(
    subscription: EventSubscription, *, event_id: str, now: datetime
) -> OutboundRequest:
    """
    Build the request that tells an endpoint; whatever it answers changes nothing.

    Source: contract §6.1; that endpoints of CloudEvents get it in their own schema is ours.
    """
    data = {"eventSubscriptionId": subscription.arm_id}
    headers = {
        "aeg-event-type": "SubscriptionDeletion",
        "aeg-subscription-name": subscription.name.upper(),
        "aeg-delivery-count": "0",
    }
    if subscription.delivery_schema is DeliverySchema.CLOUD_EVENTS:
        headers |= {
            "Content-Type": "application/cloudevents+json; charset=utf-8",
            "WebHook-Request-Origin": WEBHOOK_ORIGIN,
        }
        document: object = {
            "specversion": "1.0",
            "id": event_id,
            "source": subscription.topic_id,
            "type": _TYPE,
            "time": timestamp(now),
            "data": data,
        }
    else:
        headers |= {
            "Content-Type": "application/json; charset=utf-8",
            "aeg-data-version": "1",
            "aeg-metadata-version": "1",
        }
        event = {
            "id": event_id,
            "topic": subscription.topic_id,
            "subject": "",
            "eventType": _TYPE,
            "eventTime": timestamp(now),
            "metadataVersion": "1",
            "dataVersion": "1",
            "data": data,
        }
        document = [event]
    headers |= static_headers(subscription.headers)
    body = json.dumps(document, separators=(",", ":")).encode()
    return OutboundRequest("POST", subscription.endpoint_url, headers, body, subscription.audience)
