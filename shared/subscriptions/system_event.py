"""Builds the requests that carry Event Grid's own events to an endpoint."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from shared.clock import timestamp
from shared.http import OutboundRequest
from shared.subscriptions.header_rules import static_headers
from shared.subscriptions.signing import sign
from shared.subscriptions.subscription import WEBHOOK_ORIGIN, DeliverySchema, EventSubscription

_DELETION = "SubscriptionDeletion"
_DELETED = "Microsoft.EventGrid.SubscriptionDeletedEvent"


def build_deletion_notice(
    subscription: EventSubscription, *, event_id: str, now: datetime
) -> OutboundRequest:
    """
    Build the request that notifies an endpoint of the deletion of its *subscription*.

    It is signed as deliveries are, since it needs no answer and anybody could send one.

    Source: contract §6.1; the CloudEvents form is our own.
    """
    notice = _deletion_notice(subscription, event_id, timestamp(now))
    secrets = subscription.signing
    return sign(notice, secrets, event_id, now) if secrets else notice


def _deletion_notice(subscription: EventSubscription, event_id: str, time: str) -> OutboundRequest:
    data = {"eventSubscriptionId": subscription.arm_id}
    if subscription.delivery_schema is not DeliverySchema.CLOUD_EVENTS:
        event = {"id": event_id, "eventType": _DELETED, "eventTime": time, "data": data}
        return event_grid_request(subscription, _DELETION, event)
    source = subscription.topic_id
    cloud = {"specversion": "1.0", "id": event_id, "source": source, "type": _DELETED}
    headers = {"WebHook-Request-Origin": WEBHOOK_ORIGIN}
    return _post(
        subscription, _DELETION, cloud | {"time": time, "data": data}, "cloudevents+json", headers
    )


def event_grid_request(
    subscription: EventSubscription, kind: str, event: Mapping[str, Any]
) -> OutboundRequest:
    """Build the POST of *event*, completed to Event Grid's schema; *kind* is aeg-event-type."""
    constant = {"subject": "", "metadataVersion": "1", "dataVersion": "1"}
    headers = {"aeg-data-version": "1", "aeg-metadata-version": "1"}
    return _post(
        subscription, kind, [{**event, "topic": subscription.topic_id, **constant}], "json", headers
    )


def _post(
    subscription: EventSubscription,
    kind: str,
    document: object,
    media: str,
    headers: Mapping[str, str],
) -> OutboundRequest:
    sent = {
        "Content-Type": f"application/{media}; charset=utf-8",
        "aeg-event-type": kind,
        "aeg-subscription-name": subscription.name.upper(),
        "aeg-delivery-count": "0",
        **headers,
        **static_headers(subscription.headers),
    }
    body = json.dumps(document, separators=(",", ":")).encode()
    return OutboundRequest(
        "POST", subscription.endpoint_url, sent, body, subscription.destination.audience
    )
